package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/keeper"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/zk"
)

// serversVariable names the servers if no flag does.
const serversVariable = "LOCKKEEPER_SERVERS"

// addServersFlag adds the flag that all commands with a session have.
func addServersFlag(cmd *cobra.Command, servers *string) {
	cmd.Flags().Var((*serverList)(servers), "servers",
		`ZooKeeper servers, "host:port,host:port[/chroot]" or "unix:/path"; "local" is the keeper on this machine (default $`+serversVariable+`, else local)`)
}

// A serverList is the value of --servers. That an empty one is refused is for scripts that say --servers
// "$SERVERS" without having set it: each machine would lock by itself, and nobody would notice.
type serverList string

func (l *serverList) Set(s string) error {
	if s == "" {
		return errors.New(`it names no server; "local" is the keeper on this machine`)
	}
	if err := withoutScheme(s); err != nil {
		return err
	}
	*l = serverList(s)
	return nil
}

// withoutScheme refuses URLs, in which what follows the scheme would be taken for a chroot.
func withoutScheme(servers string) error {
	if scheme, _, ok := strings.Cut(servers, "://"); ok && !strings.HasPrefix(servers, "unix:") {
		return fmt.Errorf("a server is host:port, without %s://", scheme)
	}
	return nil
}

func (l *serverList) String() string { return string(*l) }
func (l *serverList) Type() string   { return "string" }

// chooseServers returns the server list to use, or link.Local.
func chooseServers(flag string) string {
	servers := flag
	if servers == "" {
		servers = os.Getenv(serversVariable)
	}
	if servers == "" {
		return link.Local
	}
	// Under another lock the variable names the keeper by its socket. It is still ours to start.
	if socket, ok := strings.CutPrefix(servers, "unix:"); ok {
		if places, err := keeper.FindPlaces(os.Getenv); err == nil && places.IsSocket(socket) {
			return link.Local
		}
	}
	return servers
}

// openSession opens a session for an order. Errors carry an exit status.
func openSession(ctx context.Context, servers string, opt client.Options, connectTimeout time.Duration, notice func(string)) (*client.Session, string, error) {
	if err := withoutScheme(servers); err != nil {
		return nil, "", exit.Errorf(exit.Usage, "%s=%s: %w", serversVariable, servers, err) // a flag has been looked at
	}
	// Of the time for connecting, a server that accepts and says nothing gets a half at most, so that
	// the error can name it.
	opt.ConnectTimeout = connectTimeout / time.Duration(2*(strings.Count(servers, ",")+1))
	hint := "is a server running there? lockkeeper status " + servers
	if servers == link.Local {
		starter, err := newStarter(notice)
		if err != nil {
			return nil, "", exit.Errorf(exit.StatusOf(err, exit.OS), "%w", err)
		}
		c, address, err := starter.Dial(ctx)
		if err != nil {
			return nil, "", exit.Errorf(exit.OS, "%w", err)
		}
		c.Close() // the session dials for itself
		servers = "unix:" + address.Socket
		hint = "what the keeper says about it is in " + starter.Places.Log()
		// A keeper that dies under us is started again by whoever misses it first.
		opt.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, _, err := starter.Dial(ctx)
			return c, err
		}
	}
	s, err := client.Open(ctx, servers, opt)
	var unreachable *client.OpenError
	switch {
	case err == nil:
		return s, servers, nil
	case errors.As(err, &unreachable):
		return nil, "", exit.Errorf(exit.Unreachable, "%s: %w (%s)", servers, err, hint)
	case context.Cause(ctx) != nil:
		return nil, "", context.Cause(ctx)
	}
	var over *client.SessionError
	if errors.As(err, &over) {
		return nil, "", exit.Errorf(exit.NotPermitted, "%s: %w", servers, err)
	}
	return nil, "", exit.Errorf(exit.Usage, "%w", err) // the server list
}

// newStarter returns what finds the local keeper.
func newStarter(notice func(string)) (keeper.Starter, error) {
	places, err := keeper.FindPlaces(os.Getenv)
	if err != nil {
		return keeper.Starter{}, err
	}
	idle := os.Getenv(idleVariable)
	if idle == "" {
		idle = idleDefault.String()
	}
	if d, err := time.ParseDuration(idle); err != nil || d < 0 {
		return keeper.Starter{}, exit.Errorf(exit.Usage, "%s=%s: not a duration", idleVariable, idle)
	}
	return keeper.Starter{
		Places: places, Notice: notice,
		Program: self(), Args: []string{"lockkeeper", "server", "--local", "--idle=" + idle, "--report-ready"},
	}, nil
}

// self returns the file of this program. If the file has been replaced or deleted since we were started,
// as by an upgrade or under go run, it is a link that still leads to what we are; where there is none, the
// name will have to do.
func self() string {
	const link = "/proc/self/exe"
	path, err := os.Executable()
	running, statErr := os.Stat(link)
	if statErr != nil {
		return path
	}
	if named, statErr := os.Stat(path); err != nil || statErr != nil || !os.SameFile(named, running) {
		return link
	}
	return path
}

// openCommand opens a session with the settings of commands that have none of their own for it.
func openCommand(ctx context.Context, flag string) (*client.Session, string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeoutDefault, errors.New("no answer within "+connectTimeoutDefault.String()))
	defer cancel()
	return openSession(ctx, chooseServers(flag), client.Options{}, connectTimeoutDefault, notice)
}

// asked says who has been asked, for answers that depend on that.
func asked(s *client.Session) string {
	st, _ := s.State()
	if st.Server == "" {
		return ""
	}
	return " on " + printable(st.Server)
}

// withSession opens a session of a short-lived command, and closes it after f.
func withSession(ctx context.Context, flag string, f func(context.Context, *client.Session) error) error {
	s, list, err := openCommand(ctx, flag)
	if err != nil {
		return err
	}
	defer s.Close(context.WithoutCancel(ctx)) // its own time limit is short, and nothing hangs on this session
	_, there, err := s.Exists(ctx, "/")
	switch {
	case err == nil && !there: // below it everything would look free
		return exit.Errorf(exit.Usage, "server list %s: the chroot does not exist", list)
	case err == nil:
		err = f(ctx, s)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed):
		return exit.Errorf(exit.StatusOf(err, exit.NotPermitted), "%w", err)
	}
	return exit.Errorf(exit.StatusOf(err, exit.Unreachable), "%w", err)
}
