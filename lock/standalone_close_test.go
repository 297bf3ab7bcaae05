package lock

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Close waits for a session that is just being opened.
func TestF26_StandaloneClosedWhileOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		dialing := make(chan struct{}, 1)
		var all, dials atomic.Int32
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			dials.Add(1)
			defer dials.Add(-1)
			if all.Add(1) == 3 { // after the first session's connections, before and after it has expired
				dialing <- struct{}{}
				<-ctx.Done()
				time.Sleep(time.Second) // it takes its time to give up
				return nil, context.Cause(ctx)
			}
			return srv.Dial(ctx, network, address)
		}
		s, err := Dial(t.Context(), zktest.Servers, "/locks/alone", DialOptions{Session: client.Options{Dial: dial}})
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("").Expire()
		<-s.Session().Done()
		failed := make(chan error, 1)
		go func() {
			_, err := s.Lock(t.Context())
			failed <- err
		}()
		<-dialing
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := dials.Load(); n != 0 {
			t.Errorf("%d connections are still being made", n)
		}
		if err := <-failed; !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Lock = %v, want zk.ErrClosed", err)
		}
	})
}

// F26: a lock that is got while Close begins is an error, and not nothing.
func TestF26_StandaloneClosedWhileLocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, err := Dial(t.Context(), zktest.Servers, "/locks/alone", DialOptions{Session: client.Options{Dial: srv.Dial}})
		if err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		s.mu.closed = true // as far as Close has come
		s.mu.Unlock()
		if h, err := s.Lock(t.Context()); h != nil || !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Lock = %v, %v, want zk.ErrClosed", h, err)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
