package guides

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

func outer(ctx context.Context, m *lock.Mutex) error {
	return m.Do(ctx, func(ctx context.Context) error {
		return inner(ctx, m) // this ctx says that we have the lock
	})
}

func inner(ctx context.Context, m *lock.Mutex) error {
	return m.Do(ctx, func(ctx context.Context) error { return ctx.Err() })
}

func refresh(ctx context.Context, m *lock.RWMutex, write, read func(context.Context) error) (err error) {
	h, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Release(ctx)) }()
	if err := write(h.Context()); err != nil {
		return err
	}
	if err := h.Downgrade(ctx); err != nil { // no other writer comes in between
		return err
	}
	return read(h.Context())
}

func download(ctx context.Context, s *client.Session, work func(context.Context) error) error {
	permits, err := lock.NewCuratorSemaphore(s, "/limits/downloads", 3, lock.Options{})
	if err != nil {
		return err
	}
	return permits.Do(ctx, work)
}

func move(ctx context.Context, from, to *lock.Mutex, work func(context.Context) error) error {
	both, err := lock.NewAll(from, to) // taken in the order of their paths
	if err != nil {
		return err
	}
	return both.Do(ctx, work)
}

func writeLock(ctx context.Context, k *client.Keeper, acquired func(context.Context), released func(cause error)) error {
	return k.Run(ctx, func(ctx context.Context, s *client.Session) error {
		m, err := lock.NewMutex(s, "/locks/writer", lock.Options{})
		if err != nil {
			return err
		}
		h, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		acquired(h.Context()) // returns when the lock is to be given back; its context ends when the lock is lost
		err = h.Release(ctx)
		released(h.Cause())
		return err
	})
}

func TestReentering(t *testing.T) {
	s, _ := session(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	m, err := lock.NewMutex(s, "/locks/twice", lock.Options{Reentrant: true})
	must(t, err)
	must(t, outer(ctx, m))
}

func TestRefresh(t *testing.T) {
	s, _ := session(t)
	m, err := lock.NewRWMutex(s, "/locks/cache", lock.Options{})
	must(t, err)
	must(t, refresh(t.Context(), m,
		func(ctx context.Context) error {
			if _, err := m.TryRLock(t.Context()); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("a reader beside the writer: %v, want lock.ErrBusy", err)
			}
			return ctx.Err()
		},
		func(ctx context.Context) error {
			h, err := m.TryRLock(t.Context())
			must(t, err)
			return errors.Join(ctx.Err(), h.Release(t.Context()))
		}))
}

func TestDownload(t *testing.T) {
	s, _ := session(t)
	must(t, download(t.Context(), s, func(ctx context.Context) error {
		names, _, err := s.Children(t.Context(), "/limits/downloads/leases")
		if len(names) != 1 {
			t.Errorf("leases %q, want one", names)
		}
		return errors.Join(err, ctx.Err())
	}))
}

func TestMove(t *testing.T) {
	s, _ := session(t)
	a, b := mutex(t, s, "/locks/a"), mutex(t, s, "/locks/b")
	must(t, move(t.Context(), b, a, func(ctx context.Context) error {
		for _, m := range []*lock.Mutex{a, b} {
			if _, err := m.TryLock(t.Context()); !errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s: %v, want lock.ErrBusy", m.Path(), err)
			}
		}
		return ctx.Err()
	}))
}

func TestWriteLock(t *testing.T) {
	_, servers := session(t)
	k, err := client.Keep(t.Context(), servers, client.Options{})
	must(t, err)
	var said []string
	must(t, writeLock(t.Context(), k,
		func(ctx context.Context) { said = append(said, "acquired") },
		func(cause error) { said = append(said, cause.Error()) }))
	if want := []string{"acquired", lock.ErrReleased.Error()}; !slices.Equal(said, want) {
		t.Errorf("called back with %q, want %q", said, want)
	}
	must(t, k.Close(t.Context()))
}
