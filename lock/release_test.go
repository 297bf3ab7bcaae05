package lock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F08: a release does not wait longer than Options.CleanupTimeout for servers that do not answer, whatever its context; the
// znode goes in the background.
func TestF08_ReleaseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		mutex := func(path string, limit time.Duration) *lock.Mutex {
			m, err := lock.NewMutex(s, path, lock.Options{CleanupTimeout: limit})
			must(t, nil, err)
			return m
		}
		one, err := mutex("/locks/a", time.Second).Lock(t.Context())
		must(t, one, err)
		both, err := lock.NewAll(mutex("/locks/b", time.Second), mutex("/locks/c", 2*time.Second))
		must(t, nil, err)
		several, err := both.Lock(t.Context())
		must(t, nil, err)
		srv.Link("s").Freeze()
		for name, release := range map[string]func(context.Context) error{"1s": one.Release, "2s": several.Release} {
			began := time.Now()
			err := release(context.Background())
			if took := time.Since(began).String(); took != name {
				t.Errorf("release returned after %s, want %s", took, name)
			}
			if !errors.Is(err, lock.ErrReleasePending) || !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "\n") > 0 {
				t.Errorf("release = %q, want ErrReleasePending on one line", err)
			}
			srv.Link("s").Heal()
			synctest.Wait()
			srv.Link("s").Freeze()
		}
		srv.Link("s").Heal()
		time.Sleep(time.Second)
		if left := srv.Tree("/locks/a/_"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// The release of an All over several sessions does not wait with the locks of one for another one that has no room for more
// requests, fair or unfair, in whichever order the locks are.
func TestReleaseOfAnAllWithASessionThatIsFull(t *testing.T) {
	for _, cut := range []string{"/locks/a", "/locks/b", "/locks/c", "/locks/d"} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			full, err := srv.Link("full").Open(t.Context(), client.Options{InFlightMax: 1})
			must(t, nil, err)
			defer full.Close(context.Background())
			ours, other := srv.Session(t, "ours"), srv.Session(t, "other")
			lockOf := func(s *client.Session, path string) lock.Locker {
				var l lock.Locker
				if path < "/locks/c" {
					l, err = lock.NewMutex(s, path, lock.Options{})
				} else {
					l, err = lock.NewUnfair(s, path, lock.Options{})
				}
				must(t, nil, err)
				return l
			}
			var members []lock.Member
			for _, path := range []string{"/locks/a", "/locks/b", "/locks/c", "/locks/d"} {
				s := ours
				if path == cut {
					s = full
				}
				members = append(members, lockOf(s, path))
			}
			all, err := lock.NewAll(members...)
			must(t, nil, err)
			h, err := all.Lock(t.Context())
			must(t, nil, err)
			time.Sleep(time.Second) // until the holds are watched
			srv.Link("full").Freeze()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go full.Get(ctx, "/")
			synctest.Wait()

			released := make(chan error, 1)
			go func() { released <- h.Release(t.Context()) }()
			synctest.Wait()
			for _, path := range all.Paths() {
				if path != cut {
					h, err := lockOf(other, path).TryLock(t.Context())
					must(t, h, err)
				}
			}
			if err := <-released; !errors.Is(err, lock.ErrReleasePending) {
				t.Errorf("release = %v, want ErrReleasePending", err)
			}
			srv.Link("full").Heal()
		})
	}
}

// A Lock that ends with its context says which lock it asked for and which holder it has waited for, on one line, and not
// much later.
func TestAWaitThatEndedNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		a, b := srv.Session(t, "a"), srv.Session(t, "b")
		for name, make := range map[string]func(*client.Session, string) (lock.Locker, error){
			"mutex": func(s *client.Session, label string) (lock.Locker, error) {
				return lock.NewMutex(s, "/m", lock.Options{Label: label})
			},
			"write side": func(s *client.Session, label string) (lock.Locker, error) {
				m, err := lock.NewRWMutex(s, "/rw", lock.Options{Label: label})
				return m, err
			},
			"unfair": func(s *client.Session, label string) (lock.Locker, error) {
				return lock.NewUnfair(s, "/u", lock.Options{Label: label})
			},
		} {
			holder, err := make(a, "holder")
			must(t, nil, err)
			waiter, err := make(b, "waiter")
			must(t, nil, err)
			h, err := holder.Lock(t.Context())
			must(t, h, err)
			give, cancel := context.WithTimeout(t.Context(), time.Hour)
			first := func() <-chan error { // stands between holder and waiter
				done := waiting(give, waiter)
				synctest.Wait()
				return done
			}()
			for _, silent := range []bool{false, true} {
				if silent {
					srv.Link("b").Freeze()
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				_, err = waiter.Lock(ctx)
				stop()
				if took := time.Since(began); took > time.Second+lock.Overtime {
					t.Errorf("%s: it returned after %v", name, took)
				}
				busy, ok := errors.AsType[*lock.BusyError](err)
				if !strings.HasPrefix(err.Error(), "lock "+waiter.Path()+": ") {
					t.Errorf("%s: %q, want that it begins with the operation and the path", name, err)
				}
				if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s: %q, want the end of the context", name, err)
				}
				if !silent && (!ok || busy.Holder.Node != h.Node() || busy.Holder.Owner.Label != "holder" || !strings.Contains(err.Error(), "(held by ")) {
					t.Errorf("%s: %v, want that it names the holder", name, err)
				}
				srv.Link("b").Heal()
			}
			cancel()
			<-first
			must(t, nil, h.Release(t.Context()))
		}
	})
}

// An All that ends with its context says so, too.
func TestAWaitOfAnAllThatEndedNamesTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		a, b := srv.Session(t, "a"), srv.Session(t, "b")
		held, err := lock.NewMutex(a, "/held", lock.Options{})
		must(t, nil, err)
		h, err := held.Lock(t.Context())
		must(t, h, err)
		free, err := lock.NewMutex(b, "/free", lock.Options{})
		must(t, nil, err)
		wanted, err := lock.NewUnfair(b, "/unfair", lock.Options{})
		must(t, nil, err)
		same, err := lock.NewMutex(b, "/held", lock.Options{})
		must(t, nil, err)
		all, err := lock.NewAll(free, same, wanted)
		must(t, nil, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err = all.Lock(ctx); !strings.HasPrefix(err.Error(), "lock /held: ") || !errors.Is(err, lock.ErrBusy) {
			t.Errorf("All.Lock: %v, want the lock that it waited for, and its holder", err)
		}
	})
}

// waiting begins a Lock and returns its outcome.
func waiting(ctx context.Context, l interface {
	Lock(context.Context) (*lock.Hold, error)
}) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := l.Lock(ctx)
		done <- err
	}()
	return done
}

// A release whose deletion was never sent does not say that the znode is gone: without a connection it says that it is pending.
// If another client deletes the znode before there is a connection again, it says that the lock was lost, since the release has
// done nothing.
func TestF23_ReleaseThatIsNotSent(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, kind := range []string{"mutex", "unfair"} {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s, other := srv.Session(t, "s"), srv.Session(t, "other")
				var l lock.Locker
				l, err := lock.NewMutex(s, "/locks/a", lock.Options{})
				if kind == "unfair" {
					l, err = lock.NewUnfair(s, "/locks/a", lock.Options{})
				}
				must(t, nil, err)
				h, err := l.Lock(t.Context())
				must(t, h, err)
				srv.Link("s").Refuse()
				srv.Link("s").Cut()
				for st, changed := s.State(); st.Phase == client.Connected; st, changed = s.State() {
					<-changed // or it would send to a connection that has broken
				}
				released := make(chan error, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				go func() { released <- h.Release(ctx) }()
				synctest.Wait()
				if deleted {
					must(t, nil, other.Delete(t.Context(), h.Node(), zk.AnyVersion))
					srv.Link("s").Heal()
					if err := <-released; !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrNodeDeleted) {
						t.Errorf("%s: Release of a deleted znode = %v, want ErrNodeDeleted", kind, err)
					}
					return
				}
				if err := <-released; !errors.Is(err, lock.ErrReleasePending) {
					t.Errorf("%s: Release without a connection = %v, want ErrReleasePending", kind, err)
				}
				if _, there, err := other.Exists(t.Context(), h.Node()); err != nil || !there {
					t.Errorf("%s: the znode went without a connection: %v", kind, err)
				}
				srv.Link("s").Heal()
				time.Sleep(3 * time.Second)
				if _, there, err := other.Exists(t.Context(), h.Node()); err != nil || there {
					t.Errorf("%s: the znode is left: %v", kind, err)
				}
			})
		}
	}
}

// The hand-over from an All that had to wait costs the next waiter no request, as that from a single lock does: the deletions
// of an All carry a release marker.
func TestHandOverFromAnAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		mutex := func(s *client.Session, path string) *lock.Mutex {
			m, err := lock.NewMutex(s, path, lock.Options{})
			must(t, nil, err)
			return m
		}
		first, second, third := srv.Session(t, "first"), srv.Session(t, "second"), srv.Session(t, "third")
		h, err := mutex(first, "/locks/a").Lock(t.Context())
		must(t, h, err)
		all, err := lock.NewAll(mutex(second, "/locks/a"), mutex(second, "/locks/b"))
		must(t, nil, err)
		several := make(chan *lock.Holds, 1)
		go func() {
			hs, err := all.Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			several <- hs
		}()
		synctest.Wait()
		last := make(chan *lock.Hold, 1)
		go func() {
			h, err := mutex(third, "/locks/a").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			last <- h
		}()
		synctest.Wait()
		must(t, nil, h.Release(t.Context()))
		hs := <-several
		synctest.Wait()
		before := third.Stats().Requests
		must(t, nil, hs.Release(t.Context()))
		h = <-last
		if n := third.Stats().Requests - before; n != 0 {
			t.Errorf("the hand-over cost the next holder %d requests, want none", n)
		}
		must(t, nil, h.Release(t.Context()))
	})
}

// A nil context panics before anything has ended: where the panic is recovered, as net/http does for its handlers, the hold is as
// it was, and can be released.
func TestF25_ANilContextEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "s")
		m, err := lock.NewMutex(s, "/locks/a", lock.Options{})
		must(t, nil, err)
		rw, err := lock.NewRWMutex(s, "/locks/b", lock.Options{})
		must(t, nil, err)
		all, err := lock.NewAll(m, rw)
		must(t, nil, err)
		both, err := all.Lock(t.Context())
		must(t, nil, err)
		one, two := both.Of("/locks/a")[0], both.Of("/locks/b")[0]
		var none context.Context
		for name, f := range map[string]func(context.Context) error{"Hold.Release": one.Release, "Holds.Release": both.Release, "Downgrade": two.Downgrade} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s of a nil context did not panic", name)
					}
				}()
				f(none)
			}()
			if err := both.Cause(); err != nil {
				t.Errorf("after %s: %v", name, err)
			}
		}
		must(t, nil, two.Downgrade(t.Context()))
		must(t, nil, both.Release(t.Context()))
		if left := append(srv.Tree("/locks/a/_"), srv.Tree("/locks/b/_")...); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}
