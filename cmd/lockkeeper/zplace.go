package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A place is a znode on some servers, as in zk1:2181,zk2:2181:/app or prod:/app; without servers on the usual ones.
type place struct {
	servers string // empty for the usual ones
	path    string
}

func (p place) String() string {
	if p.servers == "" {
		return p.path
	}
	return p.servers + ":" + p.path
}

// place resolves an argument that names a znode, maybe on other servers.
func (e *zEnv) place(name string) (p place, err error) {
	rest := name
	if i := strings.LastIndex(name, ":/"); i > 0 && name[0] != '/' && name[0] != '.' {
		p.servers, rest = name[:i], name[i+1:]
		if err := withoutScheme(name); err != nil {
			return p, exit.Errorf(exit.Usage, "%s: %w", name, err)
		}
		if p.servers == "unix" {
			return p, exit.Errorf(exit.Usage, "%s: this is a server's socket, and the path of a znode is missing (%s:/PATH; ./%s for a znode of this name)", name, name, name)
		}
	}
	p.path, err = e.path(rest)
	return p, err
}

// withoutScheme refuses URLs, in which what follows the scheme would be taken for a znode's path.
func withoutScheme(servers string) error {
	if scheme, _, ok := strings.Cut(servers, "://"); ok && !strings.HasPrefix(servers, "unix:") {
		return fmt.Errorf("a server is host:port, without %s://", scheme)
	}
	return nil
}

// notAPath says what is wrong with a path that begins with a word and ":/", which is not one of cp, diff and mirror.
func notAPath(name, word string, inShell bool) error {
	servers, wrong := word, "a tree on other servers is for cp, diff and mirror"
	connections, err := namedConnections()
	if err != nil {
		return err
	}
	switch named := connections[word]; {
	case word == "unix":
		servers, wrong = name, "this is a server's socket, not a znode"
	case named != "" && !inShell:
		servers = named
	case strings.HasPrefix(name, word+"://"):
		servers, wrong = "HOST:PORT", withoutScheme(name).Error()
	case named == "" && !strings.ContainsAny(word, ":,"):
		servers, wrong = "HOST:PORT", wrong+", and "+connectionsFile()+" has no line for "+word
	}
	way := "--servers " + servers + " names other servers"
	if inShell {
		way = "connect " + servers + " goes to other servers"
	}
	if !strings.Contains(name, "//") {
		way += "; ./" + name + " is a znode of this name"
	}
	return exit.Errorf(exit.Usage, "%s: %s (%s)", name, wrong, way)
}

// takenForAHost adds to the error of a connection that its name stands in no file, and so was taken for a host.
func takenForAHost(servers string, err error) error {
	host, _, _ := strings.Cut(servers, "/")
	if exit.StatusOf(err, exit.OK) != exit.Unreachable || strings.ContainsAny(host, ":,") || servers == access.Local {
		return err
	}
	if named, _ := namedConnections(); named[servers] != "" { // it has been read
		return err
	}
	return exit.Errorf(exit.Unreachable, "%w; %s has no line for %s, which was taken for a host", err, connectionsFile(), host)
}

// places resolves several.
func (e *zEnv) places(names []string) ([]place, error) {
	all := make([]place, len(names))
	for i, name := range names {
		p, err := e.place(name)
		if err != nil {
			return nil, err
		}
		all[i] = p
	}
	return all, nil
}

// at runs do with a session for each of two places: the usual one, or one of its own. The context of do also ends when one of
// its own has been without a server for too long.
func (e *zEnv) at(ctx context.Context, usual *client.Session, places []place, do func(ctx context.Context, a, b *client.Session) error) error {
	sessions := make([]*client.Session, len(places))
	for i, p := range places {
		sessions[i] = usual
		if p.servers == "" {
			continue
		}
		s, err := e.other(ctx, p.servers)
		if err != nil {
			return takenForAHost(p.servers, err)
		}
		defer closeIdle(ctx, s)
		var stop func()
		ctx, stop = whileServed(ctx, s, e.patience())
		defer stop()
		var there bool
		if _, there, err = s.Exists(ctx, "/"); err != nil {
			return err
		}
		if !there {
			return exit.Errorf(exit.Usage, "server list %s: the chroot does not exist", p.servers)
		}
		sessions[i] = s
	}
	return do(ctx, sessions[0], sessions[1])
}

// apart refuses to copy between two places if one lies in the other.
func (e *zEnv) apart(ctx context.Context, op string, from, to place, a, b *client.Session) error {
	if !nested(bridge.ServerPath(a, from.path), bridge.ServerPath(b, to.path)) {
		return nil
	}
	named, other := b, a
	servers := to.servers
	if servers == "" {
		named, other = a, b
		servers = from.servers
	}
	same, err := e.sameEnsemble(ctx, other, named, servers)
	if err == nil && same {
		err = exit.Errorf(exit.Usage, "%s %v %v: one is within the other: both are on the same servers (nothing has been written)", op, from, to)
	}
	return err
}

// sameEnsemble reports whether two sessions, the second with these servers, are of one ensemble. Names do not tell, and neither does
// what is stored: it can be a copy. But an ensemble has one order of transactions: behind one of its own, which changes nothing, a
// session has seen all that any other had seen before. Two ensembles can look like that by chance, unless one of them alone is
// given a transaction.
func (e *zEnv) sameEnsemble(ctx context.Context, a, b *client.Session, serversOfB string) (bool, error) {
	var seen []int64
	look := func(s *client.Session) func() error {
		return func() error {
			err := s.AwaitWrites(ctx)
			seen = append(seen, bridge.Zxid(s))
			return err
		}
	}
	transaction := func() error { // the opening of a session is one
		s, err := e.other(ctx, serversOfB)
		if err != nil {
			return err
		}
		closeIdle(ctx, s)
		return nil
	}
	for _, step := range []func() error{look(a), look(b), transaction, look(b), look(a)} {
		err := step()
		if err != nil {
			return false, err
		}
	}
	return slices.IsSorted(seen), nil
}

// within reports whether one place lies in the other by their names alone, which no copy can be made of.
func within(a, b place) bool { return a.servers == b.servers && nested(a.path, b.path) }

// nested reports whether one path is the other, or below it.
func nested(a, b string) bool {
	below := func(x, y string) bool { return x == y || y == "/" || strings.HasPrefix(x, y+"/") }
	return below(a, b) || below(b, a)
}

// intoOrAs returns where a copy goes: below target if that is there and into says so, as for a target that ends with /.
func intoOrAs(from, to place, into bool) place {
	if into && from.path != "/" {
		to.path = zk.Join(to.path, zk.Base(from.path))
	}
	return to
}
