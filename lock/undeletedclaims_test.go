package lock

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A claim that an ensemble has brought back, after its session had removed it, does not block the queue: the session removes it
// when an attempt of it waits behind. It leaves the claims of others: of another session of the same process, of another process,
// and of a hold.
func TestUndeletedClaimsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, other := srv.Session(t, "s"), srv.Session(t, "other")
		m, err := NewMutex(s, "/locks/a", Options{})
		must(t, err)
		u, err := NewUnfair(s, "/locks/u", Options{})
		must(t, err)

		h, err := m.Lock(t.Context())
		must(t, err)
		must(t, h.Release(t.Context()))
		back := func(s *client.Session, id queue.ID) string {
			made, err := s.Create(t.Context(), "/locks/a/"+id.Prefix(queue.LockWord), nil, zk.EphemeralSequential, nil)
			must(t, err)
			return made.Path
		}
		back(s, h.g.id)
		again, err := m.Lock(within(t, time.Minute))
		must(t, err)
		for name, left := range map[string]string{
			"another session's": back(other, h.g.id),
			"another process's": back(s, queue.ID(strings.Repeat("01", queue.IDDigits/2))),
			"the hold's":        again.Node(),
		} {
			if _, err := m.TryLock(t.Context()); !errors.Is(err, ErrBusy) {
				t.Errorf("TryLock = %v, want ErrBusy", err)
			}
			synctest.Wait()
			if _, ok, err := s.Exists(t.Context(), left); err != nil || !ok {
				t.Errorf("%s claim is gone: %v", name, err)
			}
		}

		free, err := u.Lock(t.Context())
		must(t, err)
		must(t, free.Release(t.Context()))
		_, err = s.Create(t.Context(), u.Path(), free.g.data, zk.Ephemeral, nil)
		must(t, err)
		free, err = u.Lock(within(t, time.Minute))
		must(t, err)
		if _, err := u.TryLock(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("TryLock = %v, want ErrBusy", err)
		}
		must(t, free.Release(t.Context()))
		must(t, again.Release(t.Context()))
	})
}

// No id is kept when nothing stands for it any more, whatever has become of its attempt and hold, also if a hook has
// panicked.
func TestIDsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, other := srv.Session(t, "s"), srv.Session(t, "other")
		attemptIDs.mu.Lock()
		before := maps.Clone(attemptIDs.uses)
		attemptIDs.mu.Unlock()
		for _, path := range []string{"/locks/a", "/locks/b"} {
			m, err := NewMutex(s, path, Options{CleanupTimeout: time.Second})
			must(t, err)
			u, err := NewUnfair(s, path+"u", Options{CleanupTimeout: time.Second})
			must(t, err)
			for _, l := range []Locker{m, u} {
				h, err := l.Lock(t.Context())
				must(t, err)
				if _, err := l.TryLock(t.Context()); !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
				if _, err := l.Lock(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				must(t, h.Release(t.Context()))
				h, err = l.Lock(t.Context())
				must(t, err)
				must(t, other.Delete(t.Context(), h.Node(), zk.AnyVersion))
				<-h.Done()
				h, err = l.Lock(t.Context())
				must(t, err)
				srv.Link("s").Freeze()
				if err := h.Release(t.Context()); !errors.Is(err, ErrReleasePending) {
					t.Error(err)
				}
				srv.Link("s").Heal()
				time.Sleep(10 * time.Second)
				h, err = l.Lock(t.Context())
				must(t, err)
				defer h.Cause()
			}
		}
		sem, err := NewSemaphore(s, "/locks/s", 3, Options{})
		must(t, err)
		permits, err := sem.AcquireN(t.Context(), 3)
		must(t, err)
		must(t, permits.Release(t.Context()))
		for _, hooks := range []Hooks{
			{Asked: func(ctx context.Context, _ string) context.Context { panic("hook") }},
			{Granted: func(context.Context, string, *Hold) { panic("hook") }},
			{Released: func(context.Context, string) { panic("hook") }},
		} {
			m, err := NewMutex(s, "/locks/p", Options{Hooks: hooks})
			must(t, err)
			u, err := NewUnfair(s, "/locks/pu", Options{Hooks: hooks})
			must(t, err)
			for _, l := range []Locker{m, u} {
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic of a hook is not passed on")
						}
					}()
					l.Do(t.Context(), func(context.Context) error { return nil })
				}()
			}
		}
		must(t, s.Close(t.Context())) // with holds and leftovers
		synctest.Wait()
		attemptIDs.mu.Lock()
		defer attemptIDs.mu.Unlock()
		for id, uses := range attemptIDs.uses {
			if _, ok := before[id]; !ok {
				t.Errorf("%s is kept, with %d uses", id, uses)
			}
		}
	})
}

// An id is in use until the last of its uses has ended.
func TestIDsInUse(t *testing.T) {
	ids := idRegistry{uses: map[queue.ID]int{}}
	want := func(id queue.ID, used bool) {
		t.Helper()
		if got := ids.has(id); got != used {
			t.Errorf("%q is in use: %v, want %v", id, got, used)
		}
	}
	want("", false)
	want("a", false)
	ids.add("a")
	ids.add("a")
	ids.drop("a")
	want("a", true)
	ids.drop("a")
	want("a", false)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
