package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/zk"
)

var errCause = errors.New("another part has failed")

// A context may end because another request has failed, as those of an errgroup do. What that one was told is no
// answer to this one.
func TestCauseOfTheEndIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{})
		other := &client.OpError{Op: "create", Path: "/n", Err: errors.Join(zk.ErrConnectionLoss, zk.ErrNoNode, errCause), Maybe: true}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errCause)
		_, _, err := s.Get(ctx, "/")
		wantErr(t, "get with a cause of the caller's own", err, errCause)
		wantErr(t, "get with a cause of the caller's own", err, context.Canceled)

		ctx, cancel = context.WithCancelCause(t.Context())
		cancel(other)

		_, ok, err := s.Exists(ctx, "/")
		check := func(what string, err error) {
			t.Helper()
			wantErr(t, what, err, context.Canceled)
			if errors.Is(err, zk.ErrNoNode) || errors.As(err, new(zk.Code)) || client.MaybeApplied(err) {
				t.Errorf("%s: %v is taken for an answer", what, err)
			}
			if !strings.Contains(err.Error(), other.Error()) {
				t.Errorf("%s: %v, want the cause in the text", what, err)
			}
		}
		check("exists", err)
		if ok {
			t.Error("exists: found without asking")
		}
		_, _, err = s.Get(ctx, "/")
		check("get", err)
		_, err = s.AddWatch(ctx, "/", true)
		check("watch", err)
		check("delete", s.Delete(ctx, "/n", -1))
		_, err = client.Open(ctx, "nowhere:2181", client.Options{Dial: n.Dialer("")})
		check("open", err)
		n.Freeze("")
		check("close", s.Close(ctx))
	})
}

// A context may be of the user's own type, and ask the session about itself, as one does that ends with a lock.
func TestAContextThatAsksTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		srv := start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{InFlightMax: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		get := func() error {
			_, _, err := s.Get(askingContext{ctx, s}, "/")
			return err
		}
		wantErr(t, "get", get(), nil)
		n.Freeze("")
		go s.Get(t.Context(), "/") // takes all the room there is
		synctest.Wait()
		waited := make(chan error)
		go func() { waited <- get() }()
		synctest.Wait()
		cancel(askingCause{s})
		wantErr(t, "get that waits for room", <-waited, context.Canceled)
		n.Thaw("")
		srv.down()
		await(t, s, client.Disconnected)
		wantErr(t, "get without a connection", get(), context.Canceled)
	})
}

type askingContext struct {
	context.Context
	s *client.Session
}

func (c askingContext) Err() error {
	c.s.State()
	return c.Context.Err()
}

func (c askingContext) Value(key any) any {
	c.s.State()
	return c.Context.Value(key)
}

type askingCause struct{ s *client.Session }

func (c askingCause) Error() string { return "asked " + c.s.String() }

func (c askingCause) Is(error) bool {
	c.s.State()
	return false
}

// A request with a nil context panics, as it does anywhere in Go. Where that is recovered, as net/http does for its handlers, the
// session goes on.
func TestANilContextLeavesTheSessionAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{})
		var none context.Context
		for name, ask := range map[string]func(){
			"get":  func() { s.Get(none, "/") },
			"send": func() { p := s.Pipeline(); p.Get("/"); p.Send(none) },
		} {
			func() {
				defer func() { recover() }()
				ask()
			}()
			_, ok, err := s.Exists(t.Context(), "/")
			if !ok || err != nil {
				t.Errorf("after a %s with a nil context: %v, %v", name, ok, err)
			}
		}
	})
}
