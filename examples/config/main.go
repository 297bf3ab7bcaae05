// Command config keeps a configuration of two znodes that belong together. Many read it at once, under the
// read side of a lock; "config set" changes both under the write side, in a transaction that takes effect
// only while the lock is held.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	top      = "/examples/config"
	primary  = top + "/primary"
	fallback = top + "/fallback"
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background(), os.Args[1:]); err != nil {
		log.Fatal("config: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	s, err := client.Open(ctx, os.Getenv("LOCKKEEPER_SERVERS"), client.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	m, err := lock.NewRWMutex(s, top+"/lock", lock.Options{Label: "config"})
	if err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return m.RDo(ctx, func(ctx context.Context) error { return show(ctx, s) })
	case len(args) == 3 && args[0] == "set":
		return set(ctx, s, m, args[1], args[2])
	}
	return errors.New("usage: config [set PRIMARY FALLBACK]")
}

// show prints both parts, which fit each other.
func show(ctx context.Context, s *client.Session) error {
	for _, path := range []string{primary, fallback} {
		data, _, err := s.Get(ctx, path)
		if err != nil {
			return err
		}
		fmt.Printf("%s = %s\n", path, data)
	}
	return nil
}

// set changes both parts, or nothing if the lock has passed on meanwhile.
func set(ctx context.Context, s *client.Session, m *lock.RWMutex, values ...string) error {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.Do(ctx, func(ctx context.Context) error {
		ops := []client.Op{hold.Check()}
		for i, path := range []string{primary, fallback} {
			_, there, err := s.Exists(ctx, path)
			switch {
			case err != nil:
				return err
			case there:
				ops = append(ops, client.OpSet(path, []byte(values[i]), zk.AnyVersion))
			default:
				ops = append(ops, client.OpCreate(path, []byte(values[i]), zk.Persistent, nil))
			}
		}
		_, err := s.Multi(ctx, ops...)
		return err
	})
}
