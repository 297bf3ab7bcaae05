package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
)

// A connection is one of the shell's.
type connection struct {
	name     string
	to       access.Settings
	session  *client.Session
	auth     []client.Auth // added since it was opened, for a session that follows
	dir      string
	before   string // where cd was before
	unwatch  map[string]func()
	listings listingCache
}

// withSession runs do with the session of the present connection, a new one if that is over.
func (sh *shell) withSession(ctx context.Context, do func(context.Context, *client.Session) error) error {
	c := sh.now
	if c == nil {
		return exit.Errorf(exit.Usage, "there is no connection (connect SERVERS opens one)")
	}
	if c.session.Err() != nil {
		s, _, err := openCommand(ctx, c.to)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "lockkeeper: the session was over (%v); this is a new one, without the ephemerals and watches of the old\n", c.session.Err())
		c.session.Close(context.WithoutCancel(ctx))
		c.session, c.unwatch = s, map[string]func(){}
		for _, a := range c.auth {
			if err := s.AddAuth(ctx, a); err != nil {
				return explained(err, c.to)
			}
		}
	}
	ctx, stop := whileServed(ctx, c.session, cmp.Or(c.to.ConnectTimeout, connectTimeoutDefault))
	defer stop()
	if err := do(ctx, c.session); err != nil {
		return explained(err, c.to)
	}
	return nil
}

// open opens a connection and goes to it. Without a name it is called as its servers.
func (sh *shell) open(ctx context.Context, name string, to access.Settings) error {
	if name == "" {
		name = to.Servers
	}
	s, _, err := openCommand(ctx, to)
	if err != nil {
		return err
	}
	sh.now = &connection{name: name, to: to, session: s, dir: "/", before: "/", unwatch: map[string]func(){}}
	sh.conns = append(sh.conns, sh.now)
	return nil
}

func (sh *shell) connect(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return sh.connections(ctx, nil)
	}
	name := args[len(args)-1]
	for _, c := range sh.conns {
		if c.name == name {
			if len(args) > 1 {
				return exit.Errorf(exit.Usage, "connect: there is a connection %s already (connect %s goes to it)", name, name)
			}
			sh.now = c
			return nil
		}
	}
	servers, err := serversOf(args[0])
	if err != nil {
		return err
	}
	to := sh.initial
	to.Servers = servers
	if err := serverlist.Check(to.Servers); err != nil {
		return exit.Errorf(exit.Usage, "connect %s: %w", args[0], err)
	}
	return takenForAHost(args[0], sh.open(ctx, name, to))
}

func (sh *shell) connections(context.Context, []string) error {
	for _, c := range sh.conns {
		mark := " "
		if c == sh.now {
			mark = "*"
		}
		st, _ := c.session.State()
		fmt.Fprintf(sh.out, "%s %-20s %s, %s, session %s\n", mark, ztree.Escape(c.name), ztree.Escape(c.to.Servers), st.Phase, hexID(c.session.ID()))
	}
	return nil
}

func (sh *shell) close(ctx context.Context, args []string) error {
	c := sh.now
	if len(args) > 0 {
		i := slices.IndexFunc(sh.conns, func(c *connection) bool { return c.name == args[0] })
		if i < 0 {
			return exit.Errorf(exit.Failure, "close %s: there is no such connection", args[0])
		}
		c = sh.conns[i]
	}
	if c == nil {
		return nil
	}
	sh.conns = slices.DeleteFunc(sh.conns, func(x *connection) bool { return x == c })
	if sh.now == c {
		sh.now = nil
		if len(sh.conns) > 0 {
			sh.now = sh.conns[len(sh.conns)-1]
		}
	}
	sh.zkcli.Use(nil)
	return c.session.Close(context.WithoutCancel(ctx))
}

func (sh *shell) closeAll() {
	for _, c := range sh.conns {
		c.session.Close(context.Background()) // its own time limit is short
	}
}

func (sh *shell) addAuth(ctx context.Context, args []string) error {
	a := client.Auth{Scheme: args[0], Credential: []byte(args[1])}
	return sh.withSession(ctx, func(ctx context.Context, s *client.Session) error {
		if err := s.AddAuth(ctx, a); err != nil {
			return err
		}
		sh.now.auth = append(sh.now.auth, a)
		return nil
	})
}
