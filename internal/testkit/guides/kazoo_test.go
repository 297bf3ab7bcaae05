package guides

import (
	"context"
	"errors"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

func ifFree(ctx context.Context, m *lock.Mutex, work func(context.Context) error) error {
	h, err := m.TryLock(ctx)
	if busy := (*lock.BusyError)(nil); errors.As(err, &busy) {
		return errors.New("not now, it is held by " + busy.Holder.Describe())
	}
	if err != nil {
		return err
	}
	return errors.Join(work(h.Context()), h.Release(ctx))
}

func contenders(ctx context.Context, s *client.Session, path string) ([]string, error) {
	line, err := inspect.Contenders(ctx, s, path)
	if err != nil {
		return nil, err
	}
	var who []string
	for _, c := range line { // the holder first
		who = append(who, c.Describe()) // for kazoo's its identifier and its session
	}
	return who, nil
}

func sharedDirectory(ctx context.Context, s *client.Session, path string) error {
	return s.EnsurePath(ctx, path, nil) // a container that is there already stays one
}

func readUnderLock(ctx context.Context, s *client.Session, read func(context.Context) error) error {
	m, err := lock.NewRWMutex(s, "/config-lock", lock.Options{})
	if err != nil {
		return err
	}
	return m.RDo(ctx, read)
}

func TestIfFree(t *testing.T) {
	s, _ := session(t)
	m := mutex(t, s, "/lock")
	must(t, ifFree(t.Context(), m, func(ctx context.Context) error {
		if err := ifFree(t.Context(), m, nil); err == nil {
			t.Error("two have the lock")
		}
		who, err := contenders(ctx, s, "/lock")
		if len(who) != 1 || who[0] == "" {
			t.Errorf("contenders %q, want one that is known", who)
		}
		return err
	}))
}

func TestSharedDirectory(t *testing.T) {
	s, _ := session(t)
	for range 2 {
		must(t, sharedDirectory(t.Context(), s, "/shared"))
	}
}

func TestReadUnderLock(t *testing.T) {
	s, _ := session(t)
	must(t, readUnderLock(t.Context(), s, func(ctx context.Context) error {
		return readUnderLock(t.Context(), s, func(context.Context) error { return ctx.Err() })
	}))
}
