package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Locks that are taken and given back, one after the other, begin no goroutine each, nor does each lock value. No goroutine is
// left when no more locks are taken.
func TestHoldsThatEndAtOnceAreNotWatched(t *testing.T) {
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
		before := goroutines(t)
		requests := s.Stats().Requests
		const cycles = 20
		for range cycles {
			cycle()
			time.Sleep(watchdogTick / 4)
			if n := goroutines(t); n > before {
				t.Fatalf("%d goroutines, %d after the first cycle", n, before)
			}
		}
		const most = 3 * cycles // create, children, delete
		if n := s.Stats().Requests - requests; n != most {
			t.Errorf("%d requests for %d cycles, want %d", n, cycles, most)
		}
		time.Sleep(2 * watchdogTick)
		synctest.Wait()
		if n := goroutines(t); n >= before {
			t.Errorf("%d goroutines are left of %d", n, before)
		}
	})
}

// A session's watchdog goes on while short grants come, though it sees none of them held: to begin a goroutine for each look would cost
// more than the look.
func TestAWatchdogGoesOnWhileShortGrantsCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _ := abandoning(t)
		m, err := NewMutex(s, "/a", Options{})
		if err != nil {
			t.Fatal(err)
		}
		of := func() *watchdog {
			watchdogs.Lock()
			defer watchdogs.Unlock()
			return watchdogs.of[s]
		}
		var first *watchdog
		for i := range 20 {
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = of()
			}
			time.Sleep(watchdogTick * 9 / 10)
			synctest.Wait()
			if k := of(); k == nil || k != first {
				t.Fatalf("cycle %d: the watchdog has changed from %p to %p", i, first, k)
			}
		}
		time.Sleep(2 * watchdogTick)
		synctest.Wait()
		if k := of(); k != nil {
			t.Error("it has not ended with nothing to do")
		}
	})
}

// goroutines returns how many goroutines there are in the caller's bubble: others come and go in the meantime.
func goroutines(t *testing.T) int {
	t.Helper()
	buf := make([]byte, 64<<10)
	for n := runtime.Stack(buf, true); n == len(buf); n = runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	_, bubble, ok := strings.Cut(string(buf[:bytes.IndexByte(buf, '\n')]), "synctest bubble ") // the first is the caller's
	if !ok {
		t.Fatalf("no bubble: %.80s", buf)
	}
	return strings.Count(string(buf), "synctest bubble "+bubble+"\n")
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
		{"its node is deleted", ErrNodeDeleted, 2 * watchdogTick, func(t *testing.T, m *Mutex, h *Hold) {
			if err := m.lock.s.Delete(t.Context(), h.Node(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}},
		{"its session is closed", zk.ErrClosed, 0, func(t *testing.T, m *Mutex, h *Hold) { m.lock.s.Close(t.Context()) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, _, m := abandoning(t)
			for range 3 { // the first one has the goroutine begun of the watchdog
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

// However many holds a session has, one goroutine watches them.
func TestOneWatchdogForAllHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		synctest.Wait()
		before := goroutines(t)
		const many = 50
		holds := make([]*Hold, many)
		for i := range holds {
			m, err := NewMutex(s, fmt.Sprint("/locks/", i), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if holds[i], err = m.Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // recent, and watched
			synctest.Wait()
			if n := goroutines(t) - before; n > 1 {
				t.Errorf("%d more goroutines for %d holds", n, many)
			}
			time.Sleep(time.Second)
		}
		other := srv.Session(t, "other")
		for _, h := range holds[1:] {
			if err := other.Delete(t.Context(), h.Node(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			<-h.Done()
			if !errors.Is(h.Cause(), ErrNodeDeleted) {
				t.Errorf("%s: %v", h.Node(), h.Cause())
			}
		}
		if err := holds[0].Cause(); err != nil {
			t.Error(err)
		}
		if err := holds[0].Release(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A hook that waits, when one hold is lost, does not keep the watchdog from the others.
func TestAHookThatWaitsHoldsUpNoWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, other := srv.Session(t, "s"), srv.Session(t, "other")
		goOn := make(chan struct{})
		hooks := Hooks{Lost: func(context.Context, string, *LostError) { <-goOn }}
		var holds []*Hold
		for _, path := range []string{"/locks/a", "/locks/b"} {
			m, err := NewMutex(s, path, Options{Hooks: hooks})
			if err != nil {
				t.Fatal(err)
			}
			h, err := m.Lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		time.Sleep(time.Second)
		for _, h := range holds {
			if err := other.Delete(t.Context(), h.Node(), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			select {
			case <-h.Done():
			case <-time.After(time.Second):
				t.Errorf("%s is deleted, and its hold does not hear of it", h.Node())
			}
		}
		close(goOn)
	})
}

// A hold that lasts is watched, with a watch on its node.
func TestAHoldThatLastsIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, m := abandoning(t)
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := s.Stats().Requests
		time.Sleep(2 * watchdogTick)
		synctest.Wait()
		if n := s.Stats().Requests - before; n != 1 {
			t.Errorf("%d requests, want the one that sets the watch", n)
		}
		h.Release(t.Context())
	})
}
