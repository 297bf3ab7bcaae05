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

// heldWriter returns a read/write lock of session "s" and a hold of its write side.
func heldWriter(t *testing.T, opt Options) (*zktest.Server, *RWMutex, *Hold) {
	srv := zktest.New(t, zktest.Options{})
	m, err := NewRWMutex(srv.Session(t, "s"), "/locks/a", opt)
	must(t, err)
	h, err := m.Lock(t.Context())
	must(t, err)
	return srv, m, h
}

// A Downgrade whose request has left returns when its outcome is known, also if its context has ended before. If the request was
// lost, the hold is what it was, and can be downgraded.
func TestDowngradeOutlastsItsContext(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv, m, h := heldWriter(t, Options{})
			write := h.Node()
			link := srv.Link("s")
			link.Freeze()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			downgraded := make(chan error, 1)
			go func() { downgraded <- h.Downgrade(ctx) }()
			time.Sleep(time.Second)
			select {
			case err := <-downgraded:
				t.Errorf("Downgrade has returned %v although its outcome is open", err)
				return
			default:
			}
			if lost {
				link.Cut()
			}
			link.Heal()
			err := <-downgraded
			if lost != errors.Is(err, context.DeadlineExceeded) || !lost && err != nil {
				t.Errorf("the request was lost: %v; Downgrade = %v", lost, err)
			}
			if moved := h.Node() != write; moved == lost || h.Cause() != nil {
				t.Errorf("the hold ended with %v, its node has moved: %v", h.Cause(), moved)
			}
			if lost {
				must(t, h.Downgrade(t.Context()))
			}
			if err := h.Downgrade(t.Context()); !errors.Is(err, ErrNotWriter) {
				t.Errorf("a second Downgrade = %v, want ErrNotWriter", err)
			}
			r, err := m.TryRLock(t.Context())
			must(t, err)
			for _, h := range []*Hold{r, h} {
				must(t, h.Release(t.Context()))
			}
		})
	}
}

// The wait for the outcome of a downgrade ends with the hold.
func TestDowngradeThatIsNeverAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, m, h := heldWriter(t, Options{})
		srv.Link("s").Freeze()
		began := time.Now()
		if err := h.Downgrade(t.Context()); !errors.Is(err, ErrLost) || !errors.Is(err, ErrDeadline) {
			t.Errorf("Downgrade = %v, want the loss", err)
		}
		if took := time.Since(began); took > m.Session().Timeout() {
			t.Errorf("Downgrade took %v", took)
		}
		srv.Link("s").Heal()
	})
}

// A downgrade goes on when its hold is released and another hold of the same node lives: the lock is not left to readers that cannot
// come in.
func TestDowngradeOfAHoldThatIsReleasedMeanwhile(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv, m, h := heldWriter(t, Options{Reentrant: true})
			other, err := NewRWMutex(srv.Session(t, "other"), "/locks/a", Options{})
			must(t, err)
			link := srv.Link("s")
			link.Freeze()
			downgraded := make(chan error, 1)
			go func() { downgraded <- h.Downgrade(t.Context()) }()
			synctest.Wait()
			entered, err := m.RLock(h.Context())
			must(t, err)
			must(t, h.Release(t.Context()))
			if lost {
				link.Cut()
			}
			link.Heal()
			must(t, <-downgraded)
			reader, err := other.TryRLock(t.Context())
			must(t, err)
			must(t, reader.Release(t.Context()))
			must(t, entered.Release(t.Context()))
		})
	}
}

// A downgrade that ends with its session says that the lock is lost, also if the watchdog has not looked yet.
func TestDowngradeWhoseSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, _, h := heldWriter(t, Options{})
		time.Sleep(time.Second)
		link := srv.Link("s")
		link.Freeze()
		downgraded := make(chan error, 1)
		go func() { downgraded <- h.Downgrade(t.Context()) }()
		synctest.Wait()
		watchdogs.Lock() // the watchdog cannot end its look
		link.Expire()
		link.Heal()
		err := <-downgraded
		watchdogs.Unlock()
		if !errors.Is(err, ErrLost) || !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("Downgrade = %v, want the loss by the session's end", err)
		}
	})
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

// A hold that is downgraded as soon as it is granted, after a wait, is not taken for lost: the watch that the attempt has set on the
// write node fires for the downgrade.
func TestF33_DowngradeInTheHookGranted(t *testing.T) {
	for name, waits := range map[string]bool{"after a wait": true, "at once": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				before, err := NewRWMutex(srv.Session(t, "before"), "/locks/a", Options{})
				must(t, err)
				m, err := NewRWMutex(srv.Session(t, "s"), "/locks/a", Options{Hooks: Hooks{
					Granted: func(ctx context.Context, _ string, h *Hold) { must(t, h.Downgrade(ctx)) },
				}})
				must(t, err)
				if waits {
					ahead, err := before.Lock(t.Context())
					must(t, err)
					time.AfterFunc(time.Second, func() { ahead.Release(t.Context()) })
				}
				h, err := m.Lock(t.Context())
				must(t, err)
				time.Sleep(time.Minute)
				must(t, h.Cause())
				if r, err := before.TryRLock(t.Context()); err != nil {
					t.Errorf("TryRLock beside the downgraded hold: %v", err)
				} else {
					must(t, r.Release(t.Context()))
				}
				must(t, h.Release(t.Context()))
				_, err = before.TryLock(t.Context())
				must(t, err)
			})
		})
	}
}
