package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/localserver"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
)

// openSession opens a session for an order. Errors carry an exit status.
func openSession(ctx context.Context, to access.Settings, opt client.Options, connectTimeout time.Duration, notice func(string)) (*client.Session, string, error) {
	return openWith(ctx, to, opt, connectTimeout, notice, client.Open)
}

// openKeeper opens sessions one after the other for a command that outlives one. Errors carry an exit status.
func openKeeper(ctx context.Context, to access.Settings, log *roleLog) (*client.Keeper, error) {
	err := log.check()
	if err != nil {
		return nil, err
	}
	to.Quiet = log.silent()
	limit := cmp.Or(to.ConnectTimeout, connectTimeoutDefault)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer within "+limit.String()))
	defer cancel()
	k, list, err := openWith(ctx, to, client.Options{Logger: log.client()}, limit, log.notice, client.Keep)
	if err != nil {
		return nil, err
	}
	err = k.Run(ctx, func(ctx context.Context, s *client.Session) error { return checkChroot(ctx, s, list) })
	if err != nil {
		closeKeeper(k, idleCloseLimit)
		return nil, explained(err, to)
	}
	return k, nil
}

// checkChroot refuses a server list with a chroot that does not exist: below it everything would look free.
func checkChroot(ctx context.Context, s *client.Session, list string) error {
	_, there, err := s.Exists(ctx, "/")
	if err == nil && !there {
		err = exit.Errorf(exit.Usage, "server list %s: the chroot does not exist", list)
	}
	return err
}

// openWith calls open with the servers and the options that the settings ask for. Errors carry an exit status.
func openWith[S any](ctx context.Context, to access.Settings, opt client.Options, connectTimeout time.Duration, notice func(string),
	open func(context.Context, string, client.Options) (S, error)) (opened S, list string, err error) {
	var none S
	servers := to.Servers
	// Of the time for connecting, a server that accepts and says nothing gets a half at most, so that
	// the error can name it.
	opt.ConnectTimeout = connectTimeout / time.Duration(2*(strings.Count(servers, ",")+1))
	opt, err = to.ClientOptions(opt, notice)
	if err != nil {
		return none, "", exit.Errorf(exit.Usage, "%w", err)
	}
	late := newLateNotice(to, connectTimeout, notice)
	defer late.stop()
	if late.timer != nil {
		opt.Trace.Attempt = late.attempt
	}
	hint := " (is a server running there? lockkeeper status " + strings.ReplaceAll(servers, ", ", ",") + ")"
	if servers == access.Local {
		notice := notice
		if to.Quiet {
			notice = nil
		}
		starter, err := newStarter(notice)
		if err != nil {
			return none, "", exit.Errorf(exit.StatusOf(err, exit.OS), "%w", err)
		}
		c, address, err := starter.Dial(ctx)
		if err != nil {
			return none, "", exit.Errorf(exit.OS, "%w", err)
		}
		c.Close() // the session dials for itself
		servers = "unix:" + address.Socket
		hint = " (what the keeper says about it is in " + starter.Places.Log() + ")"
		// A keeper that dies under us is started again by the first command that misses it.
		opt.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, _, err := starter.Dial(ctx)
			return c, err
		}
	}
	s, err := open(ctx, servers, opt)
	var unreachable *client.OpenError
	switch {
	case err == nil:
		return s, servers, nil
	case errors.As(err, &unreachable):
		var alert *net.OpError // TLS 1.3 has servers look at certificates after the handshake
		if errors.As(err, new(*access.HandshakeError)) || errors.As(err, &alert) && alert.Op == "remote error" {
			hint = "" // one is
		}
		return none, "", exit.Errorf(exit.Unreachable, "%s: %w%s", servers, err, hint)
	case context.Cause(ctx) != nil:
		return none, "", context.Cause(ctx)
	}
	if access.Refused(err) {
		return none, "", exit.Errorf(exit.NotPermitted, "%s: %w (%s)", servers, err, to.AsWhom(err))
	}
	var over *client.SessionError
	if errors.As(err, &over) {
		return none, "", exit.Errorf(exit.NotPermitted, "%s: %w", servers, err)
	}
	return none, "", exit.Errorf(exit.Usage, "%w", err) // the server list
}

// newStarter returns what finds the local keeper.
func newStarter(notice func(string)) (localserver.Starter, error) {
	places, err := localserver.FindPlaces(os.Getenv)
	if err != nil {
		return localserver.Starter{}, err
	}
	idle := os.Getenv(idleVariable)
	if idle == "" {
		idle = idleDefault.String()
	}
	if d, err := time.ParseDuration(idle); err != nil || d < 0 {
		return localserver.Starter{}, exit.Errorf(exit.Usage, "%s=%s: not a duration (it has a unit: 10m, or 0 for ever)", idleVariable, idle)
	}
	return localserver.Starter{
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

// opening returns a context for what a command does at first under a Keeper, and the function that frees it. It ends when an answer is overdue.
func (f *accessFlags) opening(ctx context.Context) (context.Context, func()) {
	limit := cmp.Or(f.connectTimeout, connectTimeoutDefault)
	return context.WithTimeoutCause(ctx, limit, errors.New("no answer within "+limit.String()))
}

// openCommand opens a session with the settings of commands that have none of their own for it.
func openCommand(ctx context.Context, to access.Settings) (*client.Session, string, error) {
	limit := cmp.Or(to.ConnectTimeout, connectTimeoutDefault)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errors.New("no answer within "+limit.String()))
	defer cancel()
	return openSession(ctx, to, client.Options{}, limit, notice)
}

// asked names the servers that have been asked, for answers that depend on that.
func asked(s *client.Session) string {
	st, _ := s.State()
	if st.Server == "" {
		return ""
	}
	return " on " + printable.Text(st.Server)
}

// idleCloseLimit is how long the servers have to answer the goodbye of a session that owns nothing.
const idleCloseLimit = time.Second

// closeIdle closes a session that owns nothing: it may as well expire, and the command's user wants the prompt back.
func closeIdle(ctx context.Context, s *client.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), idleCloseLimit)
	defer cancel()
	s.Close(ctx)
}

// withSession is withSession with what the flags say.
func (f *accessFlags) withSession(ctx context.Context, do func(context.Context, *client.Session) error) error {
	to, err := f.settings()
	if err != nil {
		return err
	}
	return withSession(ctx, to, do)
}

// withSession opens a session of a short-lived command, and closes it after do. The context of do ends when no server
// has been there for as long as one is looked for in the beginning.
func withSession(ctx context.Context, to access.Settings, do func(context.Context, *client.Session) error) error {
	s, list, err := openCommand(ctx, to)
	if err != nil {
		return err
	}
	defer closeIdle(ctx, s)
	ctx, stop := whileServed(ctx, s, cmp.Or(to.ConnectTimeout, connectTimeoutDefault))
	defer stop()
	err = checkChroot(ctx, s, list)
	if err == nil {
		err = do(ctx, s)
	}
	if err != nil {
		return explained(err, to)
	}
	return nil
}

// whileServed returns a context that ends with ctx, or when no server has answered for that time after a connection broke. One that
// takes the session up again, and then answers nothing, as with a disk that hangs, has not answered.
func whileServed(ctx context.Context, s *client.Session, limit time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			st, changed := s.State()
			if st.Phase != client.Disconnected {
				select {
				case <-changed:
				case <-ctx.Done():
				}
				continue
			}
			asking, stop := context.WithTimeout(ctx, limit)
			s.Exists(asking, "/") // which asks again on each connection
			if asking.Err() != nil {
				if now, _ := s.State(); now.Phase == client.Disconnected { // with what each server has answered since
					st = now
				}
				cancel(fmt.Errorf("no server for %v: %w", limit, st.Cause)) // which does nothing if ctx has ended
			}
			stop()
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// explained gives an exit status to what has come of work with servers, and names the identities when the servers have refused them.
// Data that is too large is not sent at all.
func explained(err error, to access.Settings) error {
	if access.Refused(err) {
		return exit.Errorf(exit.StatusOf(err, exit.NotPermitted), "%w (%s)", err, to.AsWhom(err))
	}
	if errors.As(err, new(*client.SizeError)) {
		return exit.Errorf(exit.StatusOf(err, exit.Usage), "%w", err)
	}
	return exit.Errorf(exit.StatusOf(err, exit.Unreachable), "%w", err)
}
