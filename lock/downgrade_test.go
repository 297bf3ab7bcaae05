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

// From when a downgrade begins, the write side is not re-entered under the hold.
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
		h.g.end(ErrReleased) // as far as Release has come
		if err := h.Downgrade(t.Context()); !errors.Is(err, ErrReleased) {
			t.Errorf("Downgrade = %v, want ErrReleased", err)
		}
	})
}

// A Downgrade that ends with its context says that its outcome is not known. The hold goes on, for reading, and the next
// Downgrade tells what became of the first, or does what it did not.
func TestDowngradeOfUnknownOutcome(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lost  bool
		pause time.Duration // before the next Downgrade
	}{
		{"carried out", false, 3 * time.Second},
		{"carried out, not seen yet", false, 0},
		{"lost", true, 3 * time.Second},
		{"lost, not seen yet", true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
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
				write := h.Node()
				link := srv.Link("s")
				link.Freeze()
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				if err := h.Downgrade(ctx); !errors.Is(err, ErrDowngradeUnknown) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Downgrade = %v, want ErrDowngradeUnknown for its deadline", err)
				}
				if tt.lost {
					link.Cut()
				}
				link.Heal()
				time.Sleep(tt.pause)
				if moved := h.Node() != write; moved == (tt.lost || tt.pause == 0) || h.Cause() != nil {
					t.Errorf("the hold ended with %v, its node has moved: %v", h.Cause(), moved)
				}
				if err := h.Downgrade(t.Context()); err != nil {
					t.Errorf("Downgrade again: %v", err)
				}
				if err := h.Downgrade(t.Context()); !errors.Is(err, ErrNotWriter) {
					t.Errorf("a third Downgrade = %v, want ErrNotWriter", err)
				}
				r, err := m.TryRLock(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range []*Hold{r, h} {
					if err := h.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A downgrade of a hold whose node was deleted finds that out, and ends the hold.
func TestDowngradeOfADeletedNode(t *testing.T) {
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
		if err := srv.Session(t, "other").Delete(t.Context(), h.Node(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := h.Downgrade(t.Context()); !errors.Is(err, ErrLost) || !errors.Is(err, ErrNodeDeleted) || errors.Is(err, zk.ErrNoNode) {
			t.Errorf("Downgrade = %v, want the loss", err)
		}
		if !errors.Is(h.Cause(), ErrNodeDeleted) {
			t.Errorf("the hold ended with %v", h.Cause())
		}
	})
}

// A hold that is released while the outcome of its downgrade is open leaves neither node, and is confirmed.
func TestReleaseWhileADowngradeIsOpen(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s := srv.Session(t, "s")
			m, err := NewRWMutex(s, "/locks/a", Options{})
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
			released := make(chan error, 1)
			go func() { released <- h.Release(t.Context()) }()
			synctest.Wait()
			if err := <-downgraded; !errors.Is(err, ErrReleased) {
				t.Errorf("Downgrade = %v, want ErrReleased", err)
			}
			if cut {
				srv.Link("s").Cut()
			}
			srv.Link("s").Heal()
			if err := <-released; err != nil {
				t.Errorf("Release = %v", err)
			}
			if names, _, err := s.Children(t.Context(), "/locks/a"); err != nil || len(names) > 0 {
				t.Errorf("left: %v, %v", names, err)
			}
		})
	}
}
