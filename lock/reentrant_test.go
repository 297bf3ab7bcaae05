package lock_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A context may be of the user's own type, and ask the hold about itself.
func TestReentryWithAContextThatAsksTheHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := lock.NewMutex(zktest.New(t, zktest.Options{}).Session(t, "s"), "/a", lock.Options{Reentrant: true})
		must(t, nil, err)
		h, err := m.Lock(t.Context())
		must(t, h, err)
		inner, err := m.Lock(askingContext{h.Context(), h})
		must(t, inner, err)
		must(t, nil, errors.Join(inner.Release(t.Context()), h.Release(t.Context())))
	})
}

type askingContext struct {
	context.Context
	h *lock.Hold
}

func (c askingContext) Err() error {
	c.h.Node()
	return cmp.Or(c.h.Cause(), c.Context.Err())
}

func (c askingContext) Value(key any) any {
	c.h.Node()
	return c.Context.Value(key)
}

// F31: a lock that is asked for under a hold of its own neither waits for itself nor lets the caller in, unless
// Options.Reentrant says so.
func TestF31_ReentrantByOptionOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		opt := lock.Options{}
		for _, opt.Reentrant = range []bool{false, true} {
			m, err := lock.NewMutex(s, "/mutex", opt)
			must(t, nil, err)
			rw, err := lock.NewRWMutex(s, "/rw", opt)
			must(t, nil, err)
			u, err := lock.NewUnfair(s, "/unfair", opt)
			must(t, nil, err)
			all, err := lock.NewAll(m)
			must(t, nil, err)
			whole := func(take func(context.Context) (*lock.Holds, error)) func(context.Context) (*lock.Hold, error) {
				return func(ctx context.Context) (*lock.Hold, error) {
					h, err := take(ctx)
					if err != nil {
						return nil, err
					}
					return h.Of("/mutex")[0], nil
				}
			}
			type way = func(context.Context) (*lock.Hold, error)
			for name, ways := range map[string][2]way{
				"Lock":            {m.Lock, m.Lock},
				"TryLock":         {m.Lock, m.TryLock},
				"write and write": {rw.Lock, rw.Lock},
				"write and read":  {rw.Lock, rw.RLock},
				"read and read":   {rw.RLock, rw.TryRLock},
				"unfair":          {u.Lock, u.Lock},
				"unfair try":      {u.Lock, u.TryLock},
				"all":             {m.Lock, whole(all.Lock)},
				"try all":         {m.Lock, whole(all.TryLock)},
			} {
				outer, err := ways[0](t.Context())
				must(t, outer, err)
				ctx, cancel := context.WithCancel(outer.Context())
				inner, err := ways[1](ctx)
				switch {
				case opt.Reentrant:
					must(t, inner, err)
					must(t, nil, inner.Release(t.Context()))
				case !errors.Is(err, lock.ErrReentered):
					t.Errorf("%s under its own hold: %v, %v; want ErrReentered", name, inner, err)
				}
				cancel()
				must(t, nil, outer.Release(t.Context()))
			}
		}
	})
}

// F31: work under a hold derives from the holds of its caller, too, however deep: it waited for itself.
func TestF31_WorkUnderTwoHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		mutex := func(path string) *lock.Mutex {
			m, err := lock.NewMutex(s, path, lock.Options{})
			must(t, nil, err)
			return m
		}
		a, b, c := mutex("/a"), mutex("/b"), mutex("/c")
		both, err := lock.NewAll(a, c)
		must(t, nil, err)
		again := func(ctx context.Context) error {
			for _, m := range []*lock.Mutex{b, a} {
				limited, cancel := context.WithTimeout(ctx, time.Minute)
				_, err := m.Lock(limited)
				cancel()
				if !errors.Is(err, lock.ErrReentered) {
					t.Errorf("%s under its own hold: %v; want ErrReentered", m.Path(), err)
				}
			}
			return nil
		}
		holdB, err := b.Lock(t.Context())
		must(t, holdB, err)
		holdA, err := a.Lock(t.Context())
		must(t, holdA, err)
		must(t, nil, holdA.Do(holdB.Context(), again))

		all, err := both.Lock(t.Context())
		must(t, nil, err)
		must(t, nil, all.Do(holdB.Context(), again))

		must(t, nil, holdB.Do(t.Context(), func(ctx context.Context) error {
			return c.Do(ctx, func(ctx context.Context) error {
				holdA, err := a.Lock(context.Background())
				must(t, holdA, err)
				return holdA.Do(ctx, again)
			})
		}))
		must(t, nil, b.Do(t.Context(), func(context.Context) error { return nil })) // not held any more
	})
}

// A context may be of the user's own type, and ask the hold that it is given to. Its methods are called when the hold ends: by a release,
// or by the session's watchdog, which goes on.
func TestDoWithAContextThatAsksTheHold(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s, admin := srv.Session(t, "s"), srv.Session(t, "admin")
	m, err := lock.NewMutex(s, "/lock", lock.Options{})
	must(t, nil, err)
	for _, lost := range []bool{false, true} {
		h, err := m.Lock(t.Context())
		must(t, h, err)
		did := make(chan error, 1)
		go func() {
			did <- h.Do(askingContext{t.Context(), h}, func(ctx context.Context) error {
				if lost {
					admin.Delete(t.Context(), h.Node(), -1)
					<-ctx.Done()
				}
				return nil
			})
		}()
		select {
		case err := <-did:
			if errors.Is(err, lock.ErrLost) != lost {
				t.Errorf("Do: %v, lost: %v", err, lost)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("Do waits for itself")
		}
	}
}
