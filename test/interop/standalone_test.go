package interop

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

// TestF20_DialAfterAnExpiry cuts a lock with a session of its own off until that has expired: the loss is told
// once, nothing is taken again unasked, and what is asked for comes from another session.
func TestF20_DialAfterAnExpiry(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	var d net.Dialer
	proxy := faultproxy.New(d.DialContext)
	t.Cleanup(proxy.Close)
	told := make(chan error, 4)
	s, err := lock.Dial(t.Context(), srv.Addr(), "/standalone", lock.DialOptions{
		Session:  client.Options{SessionTimeout: sessionTimeout, Dial: proxy.Dial},
		Acquired: func(*lock.Hold) { told <- nil },
		Released: func(h *lock.Hold) { told <- h.Cause() },
	})
	must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	next := func() error {
		t.Helper()
		select {
		case err := <-told:
			return err
		case <-time.After(patience):
			t.Fatal("no callback came")
		}
		return nil
	}

	first, err := s.Lock(t.Context())
	must(t, err)
	if cause := next(); cause != nil {
		t.Errorf("called back with %v, want the hold", cause)
	}
	proxy.SetFlows(faultproxy.Stall)
	if cause := next(); !errors.Is(cause, lock.ErrDeadline) {
		t.Errorf("the hold ended with %v, want lock.ErrDeadline", cause)
	}
	l := newTestLock(t, "/standalone", srv.Addr(), srv.Addr())
	l.empty() // the session has expired
	proxy.CutAll()
	proxy.SetFlows(faultproxy.Pass)
	time.Sleep(sessionTimeout)
	if left := l.children("/standalone"); len(left) > 0 {
		t.Errorf("taken again unasked: %q", left)
	}

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	second, err := s.Lock(ctx)
	must(t, err)
	if cause := next(); cause != nil {
		t.Errorf("called back with %v, want the hold", cause)
	}
	if second.Token() <= first.Token() {
		t.Errorf("token %#x after %#x", second.Token(), first.Token())
	}
	release(t, second)
	if cause := next(); !errors.Is(cause, lock.ErrReleased) {
		t.Errorf("the hold ended with %v, want lock.ErrReleased", cause)
	}
	l.empty()
}
