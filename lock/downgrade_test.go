package lock

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// Whoever has begun a downgrade does not write any more, and nobody who works under the hold begins to.
func TestReenteredWhileDowngraded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		m, err := NewRWMutex(srv.Session(t, "s"), "/locks/a", Options{Reentrant: true})
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("s").Freeze()
		downgraded := make(chan error, 1)
		go func() { downgraded <- h.Downgrade(t.Context()) }()
		synctest.Wait()
		if _, err := m.Lock(h.Context()); !errors.Is(err, ErrUpgrade) {
			t.Errorf("Lock beside a downgrade = %v, want ErrUpgrade", err)
		}
		if _, err := m.RLock(h.Context()); err != nil {
			t.Errorf("RLock beside a downgrade: %v", err)
		}
		srv.Link("s").Heal()
		if err := <-downgraded; err != nil {
			t.Error(err)
		}
	})
}

// A downgrade beside a release is not done, and does not say that it was.
func TestDowngradeBesideRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		m, err := NewRWMutex(srv.Session(t, "s"), "/locks/a", Options{})
		if err != nil {
			t.Fatal(err)
		}
		h, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h.g.mu.Lock()
		holds := h.g.mu.holds
		h.g.mu.holds = nil // as far as Release has come
		h.g.mu.Unlock()
		time.AfterFunc(time.Second, func() { h.g.over(holds, ErrReleased) })
		if err := h.Downgrade(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("Downgrade = %v, want ErrReleased", err)
		}
	})
}
