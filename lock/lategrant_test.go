package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A lock whose answers come after more than half the session timeout is not granted on their strength: a hold that begins with
// little left would be over at once. The client asks for a proof first.
func TestALateGrantIsProvedFirst(t *testing.T) {
	for _, level := range []client.Vouch{client.VouchSync, client.VouchWrite} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s := srv.Session(t, "a")
			m, err := lock.NewMutex(s, "/lock", lock.Options{Vouch: level})
			if err != nil {
				t.Fatal(err)
			}
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			srv.Link("a").Freeze()
			const late = 55
			time.AfterFunc(s.Timeout()*late/100, srv.Link("a").Heal)
			began := time.Now()
			h, err = m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); waited < s.Timeout()*late/100 {
				t.Fatalf("granted after %v, while nothing could be heard", waited)
			}
			if left, want := h.Remaining(), s.Timeout()/4; left < want {
				t.Errorf("%v: the hold began with %v left, want at least %v", level, left, want)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// The lease may end while the hook Granted runs. The hold is over then when Lock returns.
func TestTheLeaseEndsInTheGrantHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		other, err := lock.NewMutex(srv.Session(t, "b"), "/lock", lock.Options{})
		must(t, nil, err)
		var theirs *lock.Hold
		m, err := lock.NewMutex(srv.Session(t, "a"), "/lock", lock.Options{Hooks: lock.Hooks{
			Granted: func(context.Context, string, *lock.Hold) {
				srv.Link("a").Freeze()
				theirs, err = other.Lock(context.Background())
				must(t, theirs, err)
			},
		}})
		must(t, nil, err)
		ours, err := m.Lock(t.Context())
		if err == nil && ours.Context().Err() == nil && theirs.Context().Err() == nil {
			t.Error("two holds live")
		}
		srv.Link("a").Heal()
		must(t, nil, theirs.Release(t.Context()))
	})
}
