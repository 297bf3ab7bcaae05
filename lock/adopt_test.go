package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
			if _, err := m.core.approach(t.Context(), 1, false); err != nil {
				t.Fatal(err)
			}
			a := newAttempt(m.core, 1, m.core.opt.claimRecord(t.Context(), false))
			a.ask(t.Context())
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
