// Command ring spreads locks over several ensembles, where one does not carry them all. Which ensemble has a
// lock follows from its name and the list of ensembles (rendezvous hashing: Thaler and Ravishankar 1998), so
// nothing has to be asked, and an ensemble more takes over only its share of the locks.
//
// While the list changes, processes with the old and with the new one must exclude each other: those of a
// lock that moves take it in both places, until no program has the old list any more.
//
//	LOCKKEEPER_RING='zk1:2181,zk2:2181;zk3:2181,zk4:2181' [LOCKKEEPER_OLD_RING='…'] ring NAME
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: ring NAME")
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		log.Fatal("ring: ", err)
	}
}

func run(ctx context.Context, name string) error {
	all := ensembles{}
	defer all.close(ctx)
	var members []lock.Member
	for _, servers := range places(name) {
		s, err := all.open(ctx, servers)
		if err != nil {
			return err
		}
		// The path says which ensemble it is in: the locks of an All have paths of their own.
		m, err := lock.NewMutex(s, fmt.Sprintf("/examples/ring/%016x/%s", weight(servers, ""), name), lock.Options{})
		if err != nil {
			return err
		}
		members = append(members, m)
	}
	if len(members) == 0 {
		return errors.New("LOCKKEEPER_RING names no ensemble")
	}
	both, err := lock.NewAll(members...)
	if err != nil {
		return err
	}
	return both.Do(ctx, func(context.Context) error {
		fmt.Println(name, "is held in", strings.Join(places(name), " and in "))
		return nil
	})
}

// places returns the ensembles that have a lock: the one of the ring, and the one of the old ring if that is
// another.
func places(name string) []string {
	var found []string
	for _, ring := range []string{os.Getenv("LOCKKEEPER_RING"), os.Getenv("LOCKKEEPER_OLD_RING")} {
		all := strings.FieldsFunc(ring, func(c rune) bool { return c == ';' })
		if len(all) == 0 {
			continue
		}
		if servers := home(all, name); !slices.Contains(found, servers) {
			found = append(found, servers)
		}
	}
	return found
}

// home returns the ensemble of a name: the one whose hash together with it is the highest.
func home(ring []string, name string) string {
	return slices.MaxFunc(ring, func(a, b string) int { return cmp.Compare(weight(a, name), weight(b, name)) })
}

func weight(ensemble, name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name + "\x00" + ensemble))
	x := h.Sum64() // mixed once more: FNV of texts that begin alike is alike in its high bits
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// ensembles are sessions by their server lists, one each.
type ensembles map[string]*client.Session

func (e ensembles) open(ctx context.Context, servers string) (*client.Session, error) {
	if s := e[servers]; s != nil {
		return s, nil
	}
	s, err := client.Open(ctx, servers, client.Options{})
	if err == nil {
		e[servers] = s
	}
	return s, err
}

func (e ensembles) close(ctx context.Context) {
	for _, s := range e {
		s.Close(ctx)
	}
}
