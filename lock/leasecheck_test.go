package lock_test

import (
	"context"
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

// F46: a reconnect grants much less than before. A hold does not outlive that because its watchdog still sleeps for as long as the
// timeout before allowed.
func TestF46_AHoldEndsInTimeUnderAShorterTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		most := 30 * time.Second
		srv := zktest.New(t, zktest.Options{TickTime: 300 * time.Millisecond, Server: func(o *server.Options) { o.MaxSessionTimeout = most }})
		s, err := srv.Link("a").Open(t.Context(), client.Options{SessionTimeout: 30 * time.Second})
		must(t, nil, err)
		defer s.Close(context.Background())
		m, err := lock.NewMutex(s, "/lock", lock.Options{})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		time.Sleep(5 * time.Second)
		most = 600 * time.Millisecond
		srv.Restart()
		for st, changed := s.State(); st.Phase != client.Connected || st.Conn == 1; st, changed = s.State() {
			<-changed
		}
		srv.Link("a").Freeze()
		other, err := lock.NewMutex(srv.Session(t, "b"), "/lock", lock.Options{})
		must(t, nil, err)
		theirs, err := other.Lock(t.Context())
		must(t, theirs, err)
		if h.Context().Err() == nil {
			t.Errorf("two holds live: the first has %v left", h.Remaining())
		}
		srv.Link("a").Heal()
		must(t, nil, theirs.Release(t.Context()))
	})
}
