package lock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A context may have ended because of what another goroutine was told, as those of an errgroup do: that their
// znode or their place is gone, or their connection. It says nothing about ours, and no node of ours stays.
func TestCauseOfAnotherFailure(t *testing.T) {
	locks := map[string]func(*client.Session) (locker, error){
		"mutex": func(s *client.Session) (locker, error) {
			return lock.NewMutex(s, "/locks/a", lock.Options{Requeue: true})
		},
		"latch": func(s *client.Session) (locker, error) {
			return bridge.NewLatch[lock.Locker](s, "/locks/a", lock.Options{Requeue: true})
		},
		"unfair":  func(s *client.Session) (locker, error) { return lock.NewUnfair(s, "/locks/a", lock.Options{}) },
		"delayed": func(s *client.Session) (locker, error) { return lock.NewMutex(s, "/locks/a", lock.Options{Delay: 1}) },
	}
	for name, make := range locks {
		for _, cause := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrConnectionLoss, zk.ErrBadVersion, lock.ErrPlaceLost} {
			t.Run(name+"/"+cause.Error(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					ours, err := make(srv.Session(t, "ours"))
					must(t, nil, err)
					theirs, err := make(srv.Session(t, "theirs"))
					must(t, nil, err)
					failed := func() context.Context {
						ctx, cancel := context.WithCancelCause(t.Context())
						cancel(&client.OpError{Op: "set", Path: "/other", Err: cause, Maybe: true})
						return ctx
					}

					h, err := ours.Lock(t.Context())
					must(t, h, err)
					if err := h.Release(failed()); !errors.Is(err, lock.ErrReleasePending) || errors.Is(err, lock.ErrLost) {
						t.Errorf("Release = %v, want ErrReleasePending", err)
					}
					synctest.Wait()
					h, err = theirs.TryLock(t.Context())
					must(t, h, err)
					if _, err := ours.Lock(failed()); err == nil {
						t.Error("Lock succeeded with a context that has ended")
					}
					ctx, cancel := context.WithCancelCause(t.Context())
					go func() {
						synctest.Wait() // it waits in the queue
						cancel(&client.OpError{Op: "set", Path: "/other", Err: cause})
					}()
					if _, err := ours.Lock(ctx); err == nil {
						t.Error("Lock succeeded beside another holder")
					}
					if _, err := ours.TryLock(failed()); err == nil {
						t.Error("TryLock succeeded with a context that has ended")
					}
					must(t, h, h.Release(t.Context()))
					synctest.Wait()
					h, err = theirs.TryLock(t.Context())
					must(t, h, err)
					must(t, h, h.Release(t.Context()))
				})
			})
		}
	}
}

// The same at the moment when the node has been made and the hold has not.
func TestCauseOfAnotherFailureBeforeTheGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		look := func(time.Time) time.Duration {
			if bytes.Contains(debug.Stack(), []byte("awaitLease")) {
				cancel(lock.ErrPlaceLost)
			}
			return 0
		}
		s, err := srv.Link("ours").Open(t.Context(), clock.With(client.Options{}, &clock.Clock{Elapsed: look}))
		must(t, nil, err)
		defer s.Close(t.Context())
		ours, err := lock.NewUnfair(s, "/locks/a", lock.Options{})
		must(t, nil, err)
		if _, err := ours.Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v, want the end of its context", err)
		}
		synctest.Wait()
		theirs, err := lock.NewUnfair(srv.Session(t, "theirs"), "/locks/a", lock.Options{})
		must(t, nil, err)
		h, err := theirs.TryLock(t.Context())
		must(t, h, err)
	})
}

// A context that ends in the moment in which the waiter's node goes, too: with Requeue the error is the context's in any case, and without
// it one of the two.
func TestAContextThatEndsAsThePlaceIsLost(t *testing.T) {
	for i := range 40 {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			other := srv.Session(t, "other")
			theirs, err := lock.NewMutex(other, "/locks/a", lock.Options{})
			must(t, nil, err)
			h, err := theirs.Lock(t.Context())
			must(t, h, err)
			requeue := i%2 == 0
			ours, err := lock.NewMutex(srv.Session(t, "ours"), "/locks/a", lock.Options{Requeue: requeue})
			must(t, nil, err)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() {
				_, err := ours.Lock(ctx)
				done <- err
			}()
			synctest.Wait()
			all, err := inspect.Contenders(t.Context(), other, "/locks/a")
			must(t, nil, err)
			for _, c := range all {
				if !c.Held {
					_, err := inspect.Break(t.Context(), other, c)
					must(t, nil, err)
				}
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) && (requeue || !errors.Is(err, lock.ErrPlaceLost)) ||
				errors.Is(err, context.Canceled) == errors.Is(err, lock.ErrPlaceLost) {
				t.Errorf("with Requeue %v: %v", requeue, err)
			}
		})
	}
}

// A context whose cause is the failure of another lock, or the end of its hold: errors.Is finds that in the error, and the
// text names both locks. What a server has answered there is not found, nor is the error's type.
func TestCauseThatNamesAnotherLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "ours")
		m, err := lock.NewMutex(s, "/locks/a", lock.Options{Requeue: true})
		must(t, nil, err)
		both, err := lock.NewAll(m)
		must(t, nil, err)
		theirs, err := lock.NewMutex(srv.Session(t, "theirs"), "/locks/a", lock.Options{})
		must(t, nil, err)
		h, err := theirs.Lock(t.Context())
		must(t, h, err)
		for _, tt := range []struct{ cause, found error }{
			{&lock.BusyError{Path: "/locks/b"}, lock.ErrBusy},
			{&lock.LockError{Op: "lock", Path: "/locks/b", Err: lock.ErrPlaceLost}, lock.ErrPlaceLost},
			{&lock.LostError{Path: "/locks/b", Cause: lock.ErrNodeDeleted}, lock.ErrLost},
			{&lock.ConflictError{Want: 1, Stored: 2}, lock.ErrPermitsConflict},
			{fmt.Errorf("at work: %w", errors.Join(lock.ErrReleased, zk.ErrNoNode)), lock.ErrReleased},
		} {
			check := func(err error) {
				t.Helper()
				const says = "lock /locks/a: "
				text := fmt.Sprint(err)
				if !strings.HasPrefix(strings.TrimPrefix(text, "try "), says) || strings.Count(text, says) != 1 || !strings.Contains(text, tt.cause.Error()) {
					t.Errorf("under a context that ended with %q: %v", tt.cause, err)
				}
				if !errors.Is(err, context.Canceled) || !errors.Is(err, tt.found) {
					t.Errorf("under a context that ended with %q: %v, want to find %q", tt.cause, err, tt.found)
				}
				if errors.Is(err, zk.ErrNoNode) || errors.As(err, new(*lock.ConflictError)) || saysOfAnother(err) {
					t.Errorf("under a context that ended with %q: %v is taken for an answer", tt.cause, err)
				}
			}
			for _, take := range []func(context.Context) (any, error){
				func(ctx context.Context) (any, error) { return m.Lock(ctx) },
				func(ctx context.Context) (any, error) { return m.TryLock(ctx) },
				func(ctx context.Context) (any, error) { return both.Lock(ctx) },
				func(ctx context.Context) (any, error) { return both.TryLock(ctx) },
			} {
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(tt.cause)
				_, err := take(ctx)
				check(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				synctest.Wait() // it waits in the queue
				cancel(tt.cause)
			}()
			_, err := m.Lock(ctx)
			check(err)
		}
		must(t, h, h.Release(t.Context()))
	})
}

// saysOfAnother reports whether err has the holder of another lock than /locks/a.
func saysOfAnother(err error) bool {
	busy, ok := errors.AsType[*lock.BusyError](err)
	return ok && busy.Path != "/locks/a"
}

// A wait under the context of a hold that is lost ends with an error in which ErrLost is found, and so does a request.
func TestLostHoldEndsWhatGoesOnUnderIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ended := srv.Session(t, "outer")
		outer, err := lock.NewMutex(ended, "/locks/outer", lock.Options{})
		must(t, nil, err)
		s := srv.Session(t, "inner")
		m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
		must(t, nil, err)
		theirs, err := lock.NewMutex(srv.Session(t, "theirs"), "/locks/a", lock.Options{})
		must(t, nil, err)
		held, err := theirs.Lock(t.Context())
		must(t, held, err)
		h, err := outer.Lock(t.Context())
		must(t, h, err)
		time.AfterFunc(time.Second, func() { srv.Link("outer").Expire() })
		if _, err := m.Lock(h.Context()); !errors.Is(err, lock.ErrLost) || !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v, want to find ErrLost", err)
		}
		if _, _, err := s.Get(h.Context(), "/"); !errors.Is(err, lock.ErrLost) || errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("Get = %v, want to find ErrLost, and not the other session's end", err)
		}
		// The deletion of the node may be heard before the end of its session.
		<-ended.Done()
		if _, err := outer.Lock(h.Context()); !errors.Is(err, lock.ErrLost) || !errors.Is(err, context.Canceled) { // the lock that was lost
			t.Errorf("Lock again = %v, want to find ErrLost and context.Canceled", err)
		}
		must(t, held, held.Release(t.Context()))
	})
}

type locker interface {
	Lock(context.Context) (*lock.Hold, error)
	TryLock(context.Context) (*lock.Hold, error)
}

// A session that expires takes the waiter's znode with it. The event may come first, but the wait is told of the session;
// that another client deleted the znode is another matter.
func TestWaiterIsToldOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		m, err := lock.NewMutex(srv.Session(t, "holder"), "/locks/a", lock.Options{})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		for _, expires := range []bool{true, false} {
			for _, requeue := range []bool{true, false} {
				name := fmt.Sprint("waiter", expires, requeue)
				s := srv.Session(t, name)
				waiter, err := lock.NewMutex(s, "/locks/a", lock.Options{Requeue: requeue})
				must(t, nil, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				go func() {
					synctest.Wait() // it waits in the queue
					if expires {
						srv.Link(name).Expire()
						return
					}
					line, err := inspect.Contenders(t.Context(), s, "/locks/a")
					must(t, h, err)
					must(t, h, s.Delete(t.Context(), line[1].Node, -1))
				}()
				_, err = waiter.Lock(ctx)
				want := lock.ErrPlaceLost
				switch {
				case expires:
					want = zk.ErrSessionExpired
				case requeue:
					want = context.DeadlineExceeded
				}
				if !errors.Is(err, want) || errors.Is(err, lock.ErrPlaceLost) != (want == lock.ErrPlaceLost) {
					t.Errorf("expires %v, requeues %v: Lock = %v, want %v", expires, requeue, err, want)
				}
				cancel()
			}
		}
	})
}

// Work under a hold that there is already is never begun as if its context had not ended.
func TestDoUnderAContextThatHasEnded(t *testing.T) {
	m, err := lock.NewMutex(zktest.New(t, zktest.Options{}).Session(t, "a"), "/locks/a", lock.Options{})
	must(t, nil, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	for range 20 {
		h, err := m.Lock(t.Context())
		must(t, h, err)
		err = h.Do(ctx, func(ctx context.Context) error { return context.Cause(ctx) })
		if err != why {
			t.Fatalf("Do = %v, want %v", err, why)
		}
	}
}

// Work has the deadline of the context that Do is called with, and its end: as an error, too, also in a context that is made of
// the work's. It has the values of both contexts, and those of the hold's first.
func TestDoHasTheDeadlineOfItsCaller(t *testing.T) {
	type key string
	synctest.Test(t, func(t *testing.T) {
		m, err := lock.NewMutex(zktest.New(t, zktest.Options{}).Session(t, "a"), "/locks/a", lock.Options{Reentrant: true})
		must(t, nil, err)
		h, err := m.Lock(context.WithValue(t.Context(), key("both"), "of the hold"))
		must(t, h, err)
		why := errors.New("too late")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		ctx = context.WithValue(context.WithValue(ctx, key("both"), "of the caller"), key("own"), "of the caller")
		due, _ := ctx.Deadline()
		err = h.Do(ctx, func(ctx context.Context) error {
			if at, ok := ctx.Deadline(); !ok || !at.Equal(due) {
				t.Errorf("the work's deadline is %v, %v, want %v", at, ok, due)
			}
			if both, own := ctx.Value(key("both")), ctx.Value(key("own")); both != "of the hold" || own != "of the caller" {
				t.Errorf("values %v, %v", both, own)
			}
			again, err := m.Lock(ctx)
			must(t, again, err)
			must(t, again, again.Release(ctx))
			derived, end := context.WithCancel(ctx)
			defer end()
			<-derived.Done()
			if derived.Err() != context.DeadlineExceeded || context.Cause(derived) != why {
				t.Errorf("the context made of the work's ended with %v, %v", derived.Err(), context.Cause(derived))
			}
			return ctx.Err()
		})
		if err != context.DeadlineExceeded {
			t.Errorf("Do = %v", err)
		}
	})
}

// Work that says why it was to end has said it: the loss is not told twice.
func TestDoTellsTheLossOnce(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "a")
	m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var cause error
	err = m.Do(t.Context(), func(ctx context.Context) error {
		srv.Link("a").Expire()
		<-ctx.Done()
		cause = context.Cause(ctx)
		return fmt.Errorf("at work: %w", cause)
	})
	if !errors.Is(err, lock.ErrLost) || err.Error() != "at work: "+cause.Error() {
		t.Errorf("Do = %v", err)
	}
}

// A hold that ends because no server can be reached says why none can.
func TestHoldSaysWhyItWasCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		m, err := lock.NewMutex(srv.Session(t, "ours"), "/locks/a", lock.Options{})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		srv.Link("ours").Refuse()
		<-h.Done()
		if err := h.Cause(); !errors.Is(err, lock.ErrDeadline) || !strings.Contains(err.Error(), "in time (no connection: 127.0.0.1:1 hung up; since then 127.0.0.1:1: ") {
			t.Errorf("the hold ended with %v", err)
		}
	})
}

// So does a wait that the context ends while no server can be reached, once.
func TestWaitSaysWhyItWasCutOff(t *testing.T) {
	for name, make := range map[string]func(*client.Session) (locker, error){
		"mutex":  func(s *client.Session) (locker, error) { return lock.NewMutex(s, "/locks/a", lock.Options{}) },
		"unfair": func(s *client.Session) (locker, error) { return lock.NewUnfair(s, "/locks/a", lock.Options{}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				theirs, err := make(srv.Session(t, "theirs"))
				must(t, nil, err)
				h, err := theirs.Lock(t.Context())
				must(t, h, err)
				s := srv.Session(t, "ours")
				ours, err := make(s)
				must(t, nil, err)
				outer, err := lock.NewMutex(s, "/locks/outer", lock.Options{})
				must(t, nil, err)
				under, err := outer.Lock(t.Context())
				must(t, under, err)
				time.AfterFunc(time.Second, srv.Link("ours").Refuse)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				for _, ctx := range []context.Context{ctx, under.Context()} {
					_, err = ours.Lock(ctx)
					if err == nil || strings.Count(err.Error(), "(no connection: 127.0.0.1:1 hung up; since then 127.0.0.1:1: ") != 1 {
						t.Errorf("Lock = %v, want that it says, once, why there is no connection", err)
					}
				}
			})
		})
	}
}
