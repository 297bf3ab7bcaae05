package lock

import (
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Of locks that are taken and given back, one after the other, no goroutine is begun for each, nor for each value; and
// none is left when nobody takes them any more.
func TestHoldsThatEndAtOnceAreNotGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := abandoning(t)
		cycle := func() {
			m, err := NewMutex(s, "/a", Options{})
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
		}
		cycle()
		before := runtime.NumGoroutine()
		requests := s.Stats().Requests
		const cycles = 20
		for range cycles {
			cycle()
			time.Sleep(youngTick / 4)
			if n := runtime.NumGoroutine(); n > before {
				t.Fatalf("%d goroutines, %d after the first cycle", n, before)
			}
		}
		const most = 3 * cycles // create, children, delete
		if n := s.Stats().Requests - requests; n != most {
			t.Errorf("%d requests for %d cycles, want %d", n, cycles, most)
		}
		time.Sleep(2 * youngIdle * youngTick)
		synctest.Wait()
		if n := runtime.NumGoroutine(); n >= before {
			t.Errorf("%d goroutines are left of %d", n, before)
		}
	})
}

// A hold that has just begun hears of its end as any other, if a moment later: of its node's, and at once of the
// session's.
func TestAHoldThatHasJustBegunIsLost(t *testing.T) {
	for _, tt := range []struct {
		name   string
		cause  error
		within time.Duration
		end    func(t *testing.T, m *Mutex, h *Hold)
	}{
		{"its node is deleted", ErrNodeDeleted, 2 * youngTick, func(t *testing.T, m *Mutex, h *Hold) {
			if err := m.e.s.Delete(t.Context(), h.Node(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}},
		{"its session is closed", zk.ErrClosed, 0, func(t *testing.T, m *Mutex, h *Hold) { m.e.s.Close(t.Context()) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, m := abandoning(t)
			for range 3 { // the first one has the goroutine begun that looks after the young
				h, err := m.Lock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				h.Release(t.Context())
			}
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			tt.end(t, m, h)
			<-h.Done()
			if took := time.Since(began); took > tt.within || !errors.Is(h.Cause(), tt.cause) {
				t.Errorf("%s: lost after %v: %v; want within %v: %v", tt.name, took, h.Cause(), tt.within, tt.cause)
			}
		})
	}
}

// A hold that lasts is guarded, with a watch on its node.
func TestAHoldThatLastsIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, m := abandoning(t)
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := s.Stats().Requests
		time.Sleep(2 * youngTick)
		synctest.Wait()
		if n := s.Stats().Requests - before; n != 1 {
			t.Errorf("%d requests, want the one that sets the watch", n)
		}
		h.Release(t.Context())
	})
}
