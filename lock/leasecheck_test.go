package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F46: a server that is restarted with a larger maximum grants a longer timeout to a session that goes on, and after another
// restart counts with the first one again. The hold ends before the server gives the lock to another client.
func TestF46_AHoldCountsWithTheLeastTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 10 * time.Second
		srv := zktest.New(t, zktest.Options{Server: func(o *server.Options) { o.MaxSessionTimeout = most }})
		s, err := srv.Link("a").Open(t.Context(), client.Options{SessionTimeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close(t.Context())
		most = 40 * time.Second
		srv.Restart()
		if err := s.Sync(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		m, err := lock.NewMutex(s, "/lock", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("a").Refuse()
		srv.Link("a").Cut()
		srv.Restart()
		other, err := lock.NewMutex(srv.Session(t, "b"), "/lock", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		next, err := other.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Cause() == nil {
			t.Errorf("two holders: the first hold has %v left", h.Remaining())
		}
		if err := next.Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
