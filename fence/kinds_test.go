package fence_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fence"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Holds whose tokens do not order the holders are not sent.
func TestSetHeaderOfEachKind(t *testing.T) {
	ctx := t.Context()
	s := zktest.New(t, zktest.Options{}).Session(t, "s")
	check := func(what string, holder fence.Holder, want error) {
		t.Helper()
		h := http.Header{}
		err := fence.SetHeader(h, "a", holder)
		if !errors.Is(err, want) || (len(h) == 0) != (want != nil) {
			t.Errorf("%s: %v, header %v; want %v", what, err, h, want)
		}
	}
	held := func(h *lock.Hold, err error) *lock.Hold {
		t.Helper()
		must(t, err)
		t.Cleanup(func() { h.Release(context.Background()) })
		return h
	}

	mutex, err := lock.NewMutex(s, "/mutex", lock.Options{})
	must(t, err)
	check("mutex", held(mutex.Lock(ctx)), nil)
	unfair, err := lock.NewUnfair(s, "/unfair", lock.Options{})
	must(t, err)
	check("unfair", held(unfair.Lock(ctx)), nil)
	stand, err := election.New(s, "/election", election.Options{})
	must(t, err)
	term, err := stand.Campaign(ctx)
	must(t, err)
	check("term", term, nil)
	must(t, term.Resign(ctx))

	semaphore, err := lock.NewSemaphore(s, "/semaphore", 1, lock.Options{})
	must(t, err)
	check("permit", held(semaphore.Acquire(ctx)), fence.ErrInvalid)
	rw, err := lock.NewRWMutex(s, "/rw", lock.Options{})
	must(t, err)
	write := held(rw.Lock(ctx))
	check("write lock", write, nil)
	must(t, write.Downgrade(ctx))
	check("downgraded", write, fence.ErrInvalid)
	check("read lock", held(rw.RLock(ctx)), fence.ErrInvalid)
	check("none", (*lock.Hold)(nil), (*lock.Hold)(nil).Cause())
}
