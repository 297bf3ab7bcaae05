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
