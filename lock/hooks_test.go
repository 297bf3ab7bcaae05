package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// askedBy is the key of a value in the context that a lock is asked for with.
type askedBy struct{}

// heard collects what hooks are told.
type heard struct {
	sync.Mutex
	events []string
}

func (k *heard) hooks(t *testing.T, path string) lock.Hooks {
	hear := func(ctx context.Context, at, what string) {
		if at != path || ctx.Value(askedBy{}) != "the caller" {
			t.Errorf("%s: told of %s with %v, want %s and the caller's context", what, at, ctx.Value(askedBy{}), path)
		}
		k.Lock()
		defer k.Unlock()
		k.events = append(k.events, what)
	}
	return lock.Hooks{
		Asked: func(ctx context.Context, at string) context.Context {
			if at != path {
				t.Errorf("asked for %s, want %s", at, path)
			}
			k.Lock()
			defer k.Unlock()
			k.events = append(k.events, "asked")
			return context.WithValue(ctx, askedBy{}, "the caller")
		},
		Waiting: func(ctx context.Context, at string, p lock.Place) {
			hear(ctx, at, fmt.Sprint("waiting behind ", p.Ahead))
		},
		Granted: func(ctx context.Context, at string, h *lock.Hold) {
			hear(ctx, at, fmt.Sprint("granted ", h.Cause() == nil))
		},
		Released: func(ctx context.Context, at string) { hear(ctx, at, "released") },
		Lost:     func(ctx context.Context, at string, err *lock.LostError) { hear(ctx, at, "lost "+string(err.Reason())) },
		Refused: func(ctx context.Context, at string, err error) {
			hear(ctx, at, fmt.Sprint("refused, busy ", errors.Is(err, lock.ErrBusy)))
		},
	}
}

// Hooks are told of all that becomes of a lock of any kind, with its path and the caller's context.
func TestHooks(t *testing.T) {
	type taken interface {
		Release(context.Context) error
		Done() <-chan struct{}
	}
	type takes struct {
		lock, try func(context.Context) (taken, error)
		node      func(taken) string
	}
	one := func(f func(context.Context) (*lock.Hold, error)) func(context.Context) (taken, error) {
		return func(ctx context.Context) (taken, error) { return f(ctx) }
	}
	whole := func(f func(context.Context) (*lock.Holds, error)) func(context.Context) (taken, error) {
		return func(ctx context.Context) (taken, error) { return f(ctx) }
	}
	locker := func(l lock.Locker, err error) (takes, error) {
		if err != nil {
			return takes{}, err
		}
		return takes{one(l.Lock), one(l.TryLock), func(h taken) string { return h.(*lock.Hold).Node() }}, nil
	}
	all := func(h taken) string { return h.(*lock.Holds).All()[0].Node() }
	for name, make := range map[string]func(*client.Session, string, lock.Options) (takes, error){
		"mutex": func(s *client.Session, path string, opt lock.Options) (takes, error) {
			return locker(lock.NewMutex(s, path, opt))
		},
		"write": func(s *client.Session, path string, opt lock.Options) (takes, error) {
			m, err := lock.NewRWMutex(s, path, opt)
			must(t, nil, err)
			return locker(m, nil)
		},
		"unfair": func(s *client.Session, path string, opt lock.Options) (takes, error) {
			return locker(lock.NewUnfair(s, path, opt))
		},
		"permit": func(s *client.Session, path string, opt lock.Options) (takes, error) {
			m, err := lock.NewSemaphore(s, path, 1, opt)
			must(t, nil, err)
			return takes{one(m.Acquire), one(m.TryAcquire), func(h taken) string { return h.(*lock.Hold).Node() }}, nil
		},
		"all": func(s *client.Session, path string, opt lock.Options) (takes, error) {
			m, err := lock.NewMutex(s, path, opt)
			must(t, nil, err)
			a, err := lock.NewAll(m)
			return takes{whole(a.Lock), whole(a.TryLock), all}, err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			ours, theirs := srv.Session(t, "ours"), srv.Session(t, "theirs")
			var told, second heard
			only := func(h lock.Hooks) lock.Hooks { return lock.Hooks{Asked: h.Asked, Lost: h.Lost} } // any may be nil
			hooks := lock.JoinHooks(told.hooks(t, "/"+name), only(second.hooks(t, "/"+name)))
			a, err := make(ours, "/"+name, lock.Options{Hooks: hooks})
			must(t, nil, err)
			b, err := make(theirs, "/"+name, lock.Options{})
			must(t, nil, err)
			ctx := t.Context()

			other, err := b.lock(t.Context())
			must(t, nil, err)
			if _, err := a.try(ctx); !errors.Is(err, lock.ErrBusy) {
				t.Fatal(err)
			}
			time.AfterFunc(time.Second, func() { other.Release(t.Context()) })
			h, err := a.lock(ctx)
			must(t, nil, err)
			must(t, nil, h.Release(t.Context()))
			h, err = a.lock(ctx)
			must(t, nil, err)
			time.Sleep(time.Second)
			must(t, nil, theirs.Delete(t.Context(), a.node(h), zk.AnyVersion))
			<-h.Done()
			synctest.Wait()
			want := []string{"asked", "refused, busy true", "asked", "waiting behind 1", "granted true", "released", "asked", "granted true", "lost node-deleted"}
			if !slices.Equal(told.events, want) {
				t.Errorf("%s: told of %q, want %q", name, told.events, want)
			}
			if want := []string{"asked", "asked", "asked", "lost node-deleted"}; !slices.Equal(second.events, want) {
				t.Errorf("%s: the second hooks were told of %q, want %q", name, second.events, want)
			}
		})
	}
}

// A loss is told of after the grant, also if the session has ended by the time at which the hook of the grant returns.
func TestHooksTellOfAGrantBeforeItsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		var granted, lost atomic.Int32
		const permits = 3
		m, err := lock.NewSemaphore(s, "/l/a", permits, lock.Options{Hooks: lock.Hooks{
			Granted: func(context.Context, string, *lock.Hold) {
				go s.Close(context.Background())
				<-s.Done()
				time.Sleep(time.Second) // the losses so far are told of
				granted.Add(1)
			},
			Lost: func(context.Context, string, *lock.LostError) {
				if n := lost.Add(1); n > granted.Load() {
					t.Errorf("%d losses of %d grants are told of", n, granted.Load())
				}
			},
		}})
		must(t, nil, err)
		h, err := m.AcquireN(t.Context(), permits)
		must(t, nil, err)
		time.Sleep(time.Second)
		if n := lost.Load(); n != permits || !errors.Is(h.Cause(), lock.ErrLost) {
			t.Errorf("%d losses are told of, want %d; the holds ended with %v", n, permits, h.Cause())
		}
	})
}

// A grant hook that panics leaves neither a hold nor its node.
func TestAGrantHookThatPanics(t *testing.T) {
	for _, kind := range []string{"mutex", "unfair"} {
		synctest.Test(t, func(t *testing.T) {
			s := zktest.New(t, zktest.Options{}).Session(t, "s")
			var told []string
			var hold *lock.Hold
			opt := lock.Options{Hooks: lock.Hooks{
				Granted: func(_ context.Context, _ string, h *lock.Hold) {
					if hold == nil {
						hold = h
						panic("hook")
					}
				},
				Released: func(context.Context, string) { told = append(told, "released") },
				Lost:     func(context.Context, string, *lock.LostError) { told = append(told, "lost") },
			}}
			var l lock.Locker
			var err error
			if kind == "mutex" {
				l, err = lock.NewMutex(s, "/l/a", opt)
			} else {
				l, err = lock.NewUnfair(s, "/l/a", opt)
			}
			must(t, nil, err)
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic of the hook is not passed on")
					}
				}()
				l.Lock(t.Context())
			}()
			if !errors.Is(hold.Cause(), lock.ErrReleased) {
				t.Errorf("%s: the hold ended with %v", kind, hold.Cause())
			}
			must(t, nil, hold.Release(t.Context()))
			time.Sleep(time.Minute)
			if len(told) > 0 {
				t.Errorf("%s: told of %q", kind, told)
			}
			h, err := l.TryLock(t.Context())
			must(t, h, err)
			must(t, nil, h.Release(t.Context()))
		})
	}
}

// A grant hook that panics for a later one of several permits leaves none of them held.
func TestAGrantHookThatPanicsForTheSecondPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		var granted []*lock.Hold
		lost := 0
		m, err := lock.NewSemaphore(s, "/sem", 3, lock.Options{Hooks: lock.Hooks{
			Granted: func(_ context.Context, _ string, h *lock.Hold) {
				granted = append(granted, h)
				if len(granted) == 2 {
					panic("hook")
				}
			},
			Lost: func(context.Context, string, *lock.LostError) { lost++ },
		}})
		must(t, nil, err)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of the hook is not passed on")
				}
			}()
			m.AcquireN(t.Context(), 3)
		}()
		for i, h := range granted {
			if !errors.Is(h.Cause(), lock.ErrReleased) {
				t.Errorf("permit %d ended with %v", i, h.Cause())
			}
			must(t, nil, h.Release(t.Context()))
		}
		time.Sleep(time.Minute)
		if lost > 0 {
			t.Errorf("%d losses are told of", lost)
		}
		all, err := m.AcquireN(t.Context(), 3)
		must(t, nil, err)
		must(t, nil, all.Release(t.Context()))
	})
}

// A lock keeps a copy of what its znodes say and permit: the caller may use its slices again.
func TestOptionsAreCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		data, acl := []byte("first"), zk.OpenACL()
		m, err := lock.NewMutex(s, "/m", lock.Options{Data: data, ACL: acl})
		must(t, nil, err)
		e, err := election.New(s, "/e", election.Options{Data: data})
		must(t, nil, err)
		copy(data, "later")
		acl[0] = zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}
		h, err := m.Lock(t.Context())
		must(t, h, err)
		said, _, err := s.Get(t.Context(), h.Node())
		must(t, nil, err)
		entries, _, err := s.ACL(t.Context(), h.Node())
		must(t, nil, err)
		if string(said) != "first" || !slices.Equal(entries, zk.OpenACL()) {
			t.Errorf("the znode says %q, its ACL is %v", said, entries)
		}
		must(t, nil, h.Release(t.Context()))
		term, err := e.Campaign(t.Context())
		must(t, nil, err)
		leader, err := e.Leader(t.Context())
		must(t, nil, err)
		if string(leader.Data) != "first" {
			t.Errorf("the candidate says %q", leader.Data)
		}
		must(t, nil, term.Resign(t.Context()))
	})
}

// Hooks of an election are told as well.
func TestHooksOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		var told heard
		e, err := election.New(s, "/e", election.Options{Lock: lock.Options{Hooks: told.hooks(t, "/e")}})
		must(t, nil, err)
		term, err := e.Campaign(t.Context())
		must(t, nil, err)
		must(t, nil, term.Resign(t.Context()))
		if want := []string{"asked", "granted true", "released"}; !slices.Equal(told.events, want) {
			t.Errorf("told of %q, want %q", told.events, want)
		}
	})
}

// The hook of a waiter is told that it waits, with the context of its request, also where it waits on the way into the queue.
func TestWaitersOfACuratorSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		type key struct{}
		var asked int
		var waits []any
		m, err := lock.NewCuratorSemaphore(s, "/l/s", 1, lock.Options{Hooks: lock.Hooks{
			Asked: func(ctx context.Context, _ string) context.Context {
				asked++
				return context.WithValue(ctx, key{}, asked)
			},
			Waiting: func(ctx context.Context, _ string, at lock.Place) { waits = append(waits, ctx.Value(key{})) },
		}})
		must(t, nil, err)
		h, err := m.Acquire(t.Context())
		must(t, h, err)
		for range 2 { // one waits for the permit, the other one for that to get it
			go m.Do(t.Context(), func(context.Context) error { return nil })
			synctest.Wait()
		}
		if len(waits) != 2 || waits[0] != 2 || waits[1] != 3 {
			t.Errorf("told of the waits of %v, want 2 and 3", waits)
		}
		must(t, nil, h.Release(t.Context()))
	})
}

// The claim goes also if the hook has moved it.
func TestAGrantHookThatDowngradesAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		rw, err := lock.NewRWMutex(srv.Session(t, "s"), "/l/a", lock.Options{Hooks: lock.Hooks{
			Granted: func(ctx context.Context, _ string, h *lock.Hold) {
				must(t, nil, h.Downgrade(ctx))
				panic("hook")
			},
		}})
		must(t, nil, err)
		func() {
			defer func() { recover() }()
			rw.Lock(t.Context())
		}()
		time.Sleep(time.Second)
		theirs, err := lock.NewRWMutex(srv.Session(t, "other"), "/l/a", lock.Options{})
		must(t, nil, err)
		h, err := theirs.TryLock(t.Context())
		must(t, h, err)
		must(t, nil, h.Release(t.Context()))
	})
}
