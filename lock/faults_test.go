package lock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// F06: the connection breaks while the marker of a lost hold is read, together with the watch on the own node. The hold hears of
// what becomes of its node all the same.
func TestF06_TheConnectionBreaksBesideADelayMarker(t *testing.T) {
	for _, cut := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			other := srv.Session(t, "other")
			delayed := lock.Options{Delay: 5 * time.Second}
			theirs, err := lock.NewMutex(other, "/l/a", delayed)
			must(t, nil, err)
			lost, err := theirs.Lock(t.Context())
			must(t, lost, err)
			must(t, nil, other.Delete(t.Context(), lost.Node(), -1)) // its marker stays
			<-lost.Done()
			names, _, err := other.Children(t.Context(), "/l/a")
			must(t, nil, err)

			proxy := faultproxy.New(srv.Link("s").Dial)
			defer proxy.Close()
			s, err := client.Open(t.Context(), zktest.Servers, clock.With(client.Options{Dial: proxy.Dial}, &clock.Clock{}))
			must(t, nil, err)
			defer s.Close(t.Context())
			if cut {
				proxy.CutAfter(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: "/l/a/" + names[0]})
			}
			ours, err := lock.NewMutex(s, "/l/a", delayed)
			must(t, nil, err)
			h, err := ours.Lock(t.Context())
			must(t, h, err)
			all, err := inspect.Contenders(t.Context(), other, "/l/a")
			must(t, nil, err)
			if broken, err := inspect.Break(t.Context(), other, all[0]); !broken || err != nil {
				t.Fatalf("Break = %v, %v", broken, err)
			}
			time.Sleep(time.Minute)
			if !errors.Is(h.Cause(), lock.ErrNodeDeleted) {
				t.Errorf("connection cut %v: the hold whose node was deleted a minute ago ended with %v", cut, h.Cause())
			}
		})
	}
}

// F04: callers give up while there is no server. Once there is one, nothing is asked for them, and no claim of theirs comes up.
func TestF04_NothingIsAskedForCallersThatGaveUpInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		proxy := faultproxy.New(srv.Link("s").Dial)
		defer proxy.Close()
		s, err := client.Open(t.Context(), zktest.Servers, clock.With(client.Options{Dial: proxy.Dial}, &clock.Clock{}))
		must(t, nil, err)
		defer s.Close(t.Context())
		a, err := lock.NewMutex(s, "/l/a", lock.Options{})
		must(t, nil, err)
		b, err := lock.NewMutex(s, "/l/b", lock.Options{})
		must(t, nil, err)
		sem, err := lock.NewSemaphore(s, "/l/s", 2, lock.Options{})
		must(t, nil, err)
		all, err := lock.NewAll(a, b)
		must(t, nil, err)
		h, err := sem.Acquire(t.Context()) // its number of permits is known from then on
		must(t, h, err)
		must(t, nil, h.Release(t.Context()))
		proxy.Refuse(true)
		proxy.CutAll()
		for st, changed := s.State(); st.Phase != client.Disconnected; st, changed = s.State() {
			<-changed
		}
		for name, take := range map[string]func(context.Context) error{
			"All":       func(ctx context.Context) error { _, err := all.Lock(ctx); return err },
			"Mutex":     func(ctx context.Context) error { _, err := a.Lock(ctx); return err },
			"Semaphore": func(ctx context.Context) error { _, err := sem.AcquireN(ctx, 2); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := take(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		mark := proxy.Mark()
		proxy.Refuse(false)
		must(t, nil, s.Sync(t.Context(), "/"))
		time.Sleep(time.Second)
		if asked := proxy.Since(mark).Asked().But(wire.OpCreateSession, wire.OpSync, wire.OpPing); len(asked) > 0 {
			t.Errorf("asked for callers that had given up: %s", asked.Ops())
		}
	})
}

// F36: members of an All are taken in the order of their paths, those of Curator's semaphores too, whose queues are below the path.
func TestF36_OrderOfACuratorSemaphore(t *testing.T) {
	s := new(client.Session)
	sem, err := lock.NewCuratorSemaphore(s, "/l/a", 1, lock.Options{})
	must(t, nil, err)
	m, err := lock.NewMutex(s, "/l/a-b", lock.Options{})
	must(t, nil, err)
	all, err := lock.NewAll(m, sem.Permits(1))
	must(t, nil, err)
	if got, want := all.Paths(), []string{"/l/a", "/l/a-b"}; !slices.Equal(got, want) {
		t.Errorf("taken in the order %q, want %q", got, want)
	}
}

// A hold does not begin on a listing that is older than a lease because the machine was suspended meanwhile: the claim may have been
// deleted since.
func TestAListingFromBeforeASuspend(t *testing.T) {
	type locker interface {
		Lock(context.Context) (*lock.Hold, error)
	}
	for kind, make := range map[string]func(*client.Session) (locker, error){
		"mutex":  func(s *client.Session) (locker, error) { return lock.NewMutex(s, "/l/a", lock.Options{}) },
		"unfair": func(s *client.Session) (locker, error) { return lock.NewUnfair(s, "/l/u", lock.Options{}) },
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			other := srv.Session(t, "other")
			var asleep atomic.Int64
			began := time.Now()
			c := &clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(began) + time.Duration(asleep.Load()) }}
			proxy := faultproxy.New(srv.Link("s").Dial)
			defer proxy.Close()
			s, err := client.Open(t.Context(), zktest.Servers, clock.With(client.Options{Dial: proxy.Dial}, c))
			must(t, nil, err)
			defer s.Close(t.Context())
			ours, err := make(s)
			must(t, nil, err)
			h, err := ours.Lock(t.Context()) // what is above the lock is there
			must(t, nil, err)
			must(t, nil, h.Release(t.Context()))
			theirs, err := make(other)
			must(t, nil, err)

			asked := faultproxy.Match{Ops: faultproxy.Lists(), Times: 1}
			if kind == "unfair" {
				asked = faultproxy.Match{Ops: []wire.Op{wire.OpCreate2}, Times: 1}
			}
			var their *lock.Hold
			proxy.After(asked, func(faultproxy.Request, faultproxy.Reply) {
				for _, n := range srv.Tree("/l") {
					if strings.Contains(n.Path, "_c_") || n.Path == "/l/u" {
						must(t, nil, other.Delete(t.Context(), n.Path, -1))
					}
				}
				h, err := theirs.Lock(t.Context())
				their = must(t, h, err)
				asleep.Add(int64(s.Timeout() * 7 / 10))
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			h, err = ours.Lock(ctx)
			if their == nil {
				t.Fatalf("%s: the other contender did not get the lock", kind)
			}
			if err == nil {
				t.Errorf("%s: two holders: %s, %s", kind, h.Node(), their.Node())
			}
			must(t, nil, their.Cause())
		})
	}
}

// Errors and hooks of a Curator semaphore name it, and not the queues below it: those of a try and of a wait, on the way in and in
// the queue.
func TestNamesOfACuratorSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		named := func(path string) {
			if path != "/l/s" {
				t.Errorf("a hook is told of %s", path)
			}
		}
		m, err := lock.NewCuratorSemaphore(s, "/l/s", 1, lock.Options{Hooks: lock.Hooks{
			Asked:    func(ctx context.Context, path string) context.Context { named(path); return ctx },
			Waiting:  func(_ context.Context, path string, _ lock.Place) { named(path) },
			Granted:  func(_ context.Context, path string, _ *lock.Hold) { named(path) },
			Released: func(_ context.Context, path string) { named(path) },
			Lost:     func(_ context.Context, path string, _ *lock.LostError) { named(path) },
			Refused:  func(_ context.Context, path string, _ error) { named(path) },
		}})
		must(t, nil, err)
		h, err := m.Acquire(t.Context())
		must(t, h, err)
		check := func() {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := m.Acquire(ctx)
			var failed *lock.LockError
			if !errors.As(err, &failed) || failed.Op != "acquire" || failed.Path != "/l/s" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire = %v", err)
			}
			_, err = m.TryAcquire(t.Context())
			var busy *lock.BusyError
			if !errors.As(err, &busy) || busy.Path != "/l/s" {
				t.Errorf("TryAcquire = %v", err)
			}
		}
		check() // in the queue
		second := make(chan *lock.Hold)
		go func() {
			h, err := m.Acquire(t.Context())
			if err != nil {
				t.Error(err)
			}
			second <- h
		}()
		time.Sleep(time.Second)
		check() // on the way in
		must(t, nil, h.Release(t.Context()))
		h = <-second
		must(t, nil, s.Delete(t.Context(), h.Node(), -1))
		<-h.Done()
		var lost *lock.LostError
		if !errors.As(h.Cause(), &lost) || lost.Path != "/l/s" {
			t.Errorf("the hold ended with %v", h.Cause())
		}
		time.Sleep(time.Second)
	})
}

// The zero All holds nothing, and says so.
func TestZeroAll(t *testing.T) {
	if h, err := new(lock.All).Lock(t.Context()); err == nil {
		t.Errorf("Lock = %v without an error", h)
	}
	if err := new(lock.All).Do(t.Context(), func(context.Context) error { t.Error("Do runs the work"); return nil }); err == nil {
		t.Error("Do returns no error")
	}
}

// A hook that panics leaves nothing held: neither its own lock nor, in an All, one that was to be released behind it.
func TestReleaseHookPanics(t *testing.T) {
	for _, tt := range []struct {
		name   string
		all    bool   // all three are held; otherwise the first alone
		busy   bool   // the last one is another's, so that the others are given back at once
		late   bool   // the deadline of the second passes unnoticed before the release
		panics string // the paths at which hooks panic
	}{
		{name: "one lock", panics: "/l/a"},
		{name: "the last of an All", all: true, panics: "/l/c"},
		{name: "in the middle of an All", all: true, panics: "/l/b"},
		{name: "each of an All", all: true, panics: "/l/a /l/b /l/c"},
		{name: "an All that is not granted", all: true, busy: true, panics: "/l/b"},
		{name: "told of a loss", all: true, late: true, panics: "/l/b"},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s, other := srv.Session(t, "s"), srv.Session(t, "other")
			var suspended atomic.Int64
			began := time.Now()
			elapsed := func(time.Time) time.Duration { return time.Since(began) + time.Duration(suspended.Load()) }
			sleepy, err := srv.Link("sleepy").Open(t.Context(), clock.With(client.Options{}, &clock.Clock{Elapsed: elapsed}))
			must(t, nil, err)
			defer sleepy.Close(context.Background())
			panics := func(_ context.Context, path string) {
				if strings.Contains(tt.panics, path) {
					panic("hook")
				}
			}
			mutex := func(s *client.Session, path string, hooks lock.Hooks) *lock.Mutex {
				m, err := lock.NewMutex(s, path, lock.Options{Hooks: hooks})
				must(t, nil, err)
				return m
			}
			hooks := lock.Hooks{Released: panics, Lost: func(ctx context.Context, path string, _ *lock.LostError) { panics(ctx, path) }}
			a, b, c := mutex(s, "/l/a", hooks), mutex(sleepy, "/l/b", hooks), mutex(s, "/l/c", hooks)
			all, err := lock.NewAll(a, b, c)
			must(t, nil, err)
			if tt.busy {
				h, err := mutex(other, "/l/c", lock.Hooks{}).Lock(t.Context())
				must(t, h, err)
				defer h.Release(context.Background())
			}
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic of the hook is not passed on", tt.name)
					}
				}()
				work := func(context.Context) error {
					if tt.late {
						suspended.Store(int64(time.Hour))
					}
					return nil
				}
				if tt.all && tt.busy {
					all.TryLock(t.Context())
				} else if tt.all {
					all.Do(t.Context(), work)
				} else {
					a.Do(t.Context(), work)
				}
			}()
			for _, path := range []string{"/l/a", "/l/b", "/l/c"} {
				if tt.busy && path == "/l/c" {
					continue
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				h, err := mutex(other, path, lock.Hooks{}).Lock(ctx)
				if err != nil {
					t.Errorf("%s: %v", tt.name, err)
					continue
				}
				must(t, nil, h.Release(ctx))
			}
		})
	}
}

// F15: a hook that is told of a loss may close the session, and may take its time.
func TestF15_LostHookClosesTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, other := srv.Session(t, "s"), srv.Session(t, "other")
		closed := make(chan error, 1)
		m, err := lock.NewMutex(s, "/l/a", lock.Options{Hooks: lock.Hooks{Lost: func(ctx context.Context, _ string, _ *lock.LostError) {
			closed <- s.Close(context.WithoutCancel(ctx))
		}}})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		must(t, nil, other.Delete(t.Context(), h.Node(), -1))
		select {
		case err := <-closed:
			must(t, nil, err)
		case <-time.After(time.Hour):
			t.Error("Close has not returned")
		}
	})
}

// Close returns when the hooks have been told that the locks of the session are lost, but does not wait for ever for one of them.
func TestCloseWaitsForLostHooks(t *testing.T) {
	for _, tt := range []struct{ takes, close time.Duration }{{0, 0}, {50 * time.Millisecond, 50 * time.Millisecond}, {time.Hour, 100 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.New(t, zktest.Options{}).Session(t, "s")
			var told atomic.Int32
			hooks := lock.Hooks{Lost: func(context.Context, string, *lock.LostError) {
				time.Sleep(tt.takes / 2)
				told.Add(1)
			}}
			for _, path := range []string{"/l/a", "/l/b"} {
				m, err := lock.NewMutex(s, path, lock.Options{Hooks: hooks})
				must(t, nil, err)
				h, err := m.Lock(t.Context())
				must(t, h, err)
			}
			time.Sleep(time.Second)
			began := time.Now()
			must(t, nil, s.Close(t.Context()))
			if took := time.Since(began); took != tt.close {
				t.Errorf("two hooks that take %v: Close took %v, want %v", tt.takes, took, tt.close)
			}
			if n := told.Load(); tt.takes == tt.close && n != 2 {
				t.Errorf("two hooks that take %v: %d were told when Close returned", tt.takes, n)
			}
			time.Sleep(time.Hour)
			if n := told.Load(); n != 2 {
				t.Errorf("%d hooks were told", n)
			}
		})
	}
}
