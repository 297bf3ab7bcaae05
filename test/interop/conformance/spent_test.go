package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Behind creates that are not committed yet, a counter that has come to its end goes on with negative numbers, and gives
// its last number to all that come once they are. A contender with such a number does not stand in front of those that come
// later, and must not be granted the lock.
func TestF13_NumbersFromBeyondTheEnd(t *testing.T) {
	e := apache.StartEnsemble(t, 3, apache.Options{Seed: edges(t)})
	leader, followers := e.Leader(), e.Followers()
	open := func() *client.Session {
		s, err := client.Open(t.Context(), leader.Addr(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			s.Close(ctx)
		})
		return s
	}
	a, b := open(), open()
	mutex := func(s *client.Session) *lock.Mutex {
		m, err := lock.NewMutex(s, "/q", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	const hand = "/q/by-hand-lock-"
	first, err := b.Create(t.Context(), hand, nil, zk.EphemeralSequential, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), first.Path, -1); err != nil {
		t.Fatal(err)
	}
	m := mutex(a)
	for range 2 { // up to the last number
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	for _, f := range followers {
		f.Freeze()
	}
	pending := a.Pipeline()
	asked := pending.Create(hand, nil, zk.EphemeralSequential, nil)
	pending.Send(t.Context())
	type outcome struct {
		h   *lock.Hold
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		h, err := m.Lock(t.Context())
		done <- outcome{h, err}
	}()
	outstanding(t, leader, 2)
	for _, f := range followers {
		f.Thaw()
	}
	ahead, err := asked.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-done:
		if !errors.Is(got.err, lock.ErrCounterExhausted) {
			t.Fatalf("granted %v, error %v, while %s is there", got.h, got.err, ahead.Path)
		}
	case <-time.After(patience): // it waits, and will be granted what the next to come is granted, too
		if err := a.Delete(t.Context(), ahead.Path, -1); err != nil {
			t.Fatal(err)
		}
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		if h, err := mutex(b).TryLock(t.Context()); err == nil {
			t.Fatalf("I1: %s and %s both hold the lock", got.h.Node(), h.Node())
		}
		t.Fatalf("granted %s, want %v", got.h.Node(), lock.ErrCounterExhausted)
	}
	if err := a.Delete(t.Context(), ahead.Path, -1); err != nil {
		t.Fatal(err)
	}
	h, err := mutex(b).Lock(t.Context()) // once all that is left of the last attempt has gone
	if err != nil && !errors.Is(err, lock.ErrCounterExhausted) {
		t.Fatal(err)
	}
	if h != nil {
		if err := h.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// outstanding waits until a server has at least so many requests that are not answered yet.
func outstanding(t *testing.T, s *apache.Server, least int) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		out, err := s.FourLetter("srvr")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(out, "Outstanding: ")
		var n int
		fmt.Sscan(after, &n)
		if n >= least {
			return
		}
	}
	t.Fatalf("no %d requests wait for their answers", least)
}
