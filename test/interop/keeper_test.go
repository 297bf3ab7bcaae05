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

// TestF20_KeeperAfterAnExpiry cuts the session of a Keeper off until it has expired: the hold ends in time, nothing is
// taken again unasked, and the next lock comes from another session.
func TestF20_KeeperAfterAnExpiry(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	var d net.Dialer
	proxy := faultproxy.New(d.DialContext)
	t.Cleanup(proxy.Close)
	k, err := client.Keep(t.Context(), srv.Addr(), client.Options{SessionTimeout: sessionTimeout, Dial: proxy.Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	take := func(s *client.Session) *lock.Hold {
		t.Helper()
		m, err := lock.NewMutex(s, "/kept", lock.Options{})
		must(t, err)
		h, err := m.Lock(ctx)
		must(t, err)
		return h
	}

	s, err := k.Session(ctx)
	must(t, err)
	first := take(s)
	proxy.SetFlows(faultproxy.Stall)
	select {
	case <-first.Done():
	case <-ctx.Done():
		t.Fatal("the hold did not end")
	}
	if !errors.Is(first.Cause(), lock.ErrDeadline) {
		t.Errorf("the hold ended with %v, want lock.ErrDeadline", first.Cause())
	}
	l := newTestLock(t, "/kept", srv.Addr(), srv.Addr())
	l.empty() // the session has expired
	proxy.CutAll()
	proxy.SetFlows(faultproxy.Pass)
	time.Sleep(2 * time.Second)
	if left := l.children("/kept"); len(left) > 0 {
		t.Errorf("taken again unasked: %q", left)
	}

	var second *lock.Hold
	must(t, k.Run(ctx, func(_ context.Context, s *client.Session) error {
		second = take(s)
		return nil
	}))
	if second.Token() <= first.Token() {
		t.Errorf("token %#x after %#x", second.Token(), first.Token())
	}
	release(t, second)
	l.empty()
}
