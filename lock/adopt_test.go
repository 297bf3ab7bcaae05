package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F34: two contenders with different numbers of permits join before a number is stored. The one that stores its number second counts
// with the other's.
func TestF34_AnotherNumberIsStoredBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		admin := srv.Session(t, "admin")
		if err := admin.EnsurePath(t.Context(), "/l/s", nil); err != nil {
			t.Fatal(err)
		}
		join := func(label string, permits int) (*attempt, view) {
			m, err := NewSemaphore(srv.Session(t, label), "/l/s", permits, Options{AdoptPermits: true})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.fair.permits.agree(t.Context(), m.fair, 1, false); err != nil {
				t.Fatal(err)
			}
			a := newAttempt(m.fair, 1, false, m.fair.opt.claimRecord(t.Context(), false))
			v, err := a.join(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return a, v
		}
		first, firstView := join("first", 1)
		second, secondView := join("second", 5)
		if _, err := first.proceed(t.Context(), firstView); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		holds, err := second.proceed(ctx, secondView)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("of one permit a second one is granted: %v, %v", holds, err)
		}
		second.abandon()
		if data, _, err := admin.Get(t.Context(), "/l/s"); err != nil || string(data) != `{"permits":1}` {
			t.Errorf("stored is %q, %v", data, err)
		}
	})
}

// A semaphore that has agreed on its number once follows what is stored from then on, also if the number was deleted and another
// one is stored while a permit is being granted.
func TestAnotherNumberIsStoredAfterADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, admin := srv.Session(t, "s"), srv.Session(t, "admin")
		m, err := NewSemaphore(s, "/l/s", 3, Options{})
		must(t, err)
		h, err := m.Acquire(t.Context())
		must(t, err)
		must(t, h.Release(t.Context()))
		_, err = admin.Set(t.Context(), "/l/s", nil, zk.AnyVersion)
		must(t, err)
		a := newAttempt(m.fair, 1, false, nil)
		v, err := a.join(t.Context())
		must(t, err)
		other, err := NewSemaphore(admin, "/l/s", 0, Options{})
		must(t, err)
		must(t, other.SetPermits(t.Context(), 5))
		holds, err := a.proceed(t.Context(), v)
		if err != nil {
			t.Fatalf("%v, want a permit of the five", err)
		}
		must(t, holds[0].Release(t.Context()))
	})
}
