package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
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
		defer s.Close(context.WithoutCancel(ctx))
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

// within reports whether one place lies in the other, which no copy can be made of.
func within(a, b place) bool {
	if a.servers != b.servers {
		return false
	}
	below := func(x, y string) bool { return x == y || y == "/" || strings.HasPrefix(x, y+"/") }
	return below(a.path, b.path) || below(b.path, a.path)
}

// intoOrAs returns where a copy goes: below target if that is there and into says so, as for a target that ends with /.
func intoOrAs(from, to place, into bool) place {
	if into && from.path != "/" {
		to.path = zk.Join(to.path, zk.Base(from.path))
	}
	return to
}
