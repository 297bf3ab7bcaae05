package locksuite

import (
	"context"
	"errors"
	"testing"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What errors say.
var errorTests = []test{
	{"Errors_NameTheCall", errorsNameTheCall},
	{"LatchTry", latchTry},
}

// An error says what was called, and on which lock.
func errorsNameTheCall(w *World, t *testing.T) {
	a := w.Client("a")
	mutex, rw, unfair, latch, sem := a.Mutex(lock.Options{}), a.RWMutex(), a.Unfair(), a.Latch(), a.Semaphore(2)
	all, permits := w.AllOf(mutex), w.AllOf(sem.Permits(2))
	single := func(f func(context.Context) (*lock.Hold, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx); return err }
	}
	several := func(f func(context.Context, int) (*lock.Holds, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx, 2); return err }
	}
	whole := func(f func(context.Context) (*lock.Holds, error)) func(context.Context) error {
		return func(ctx context.Context) error { _, err := f(ctx); return err }
	}
	calls := []struct {
		op   string
		call func(context.Context) error
	}{
		{"lock", single(mutex.Lock)}, {"try lock", single(mutex.TryLock)},
		{"lock", single(rw.Lock)}, {"try lock", single(rw.TryLock)},
		{"read lock", single(rw.RLock)}, {"try read lock", single(rw.TryRLock)},
		{"lock", single(unfair.Lock)}, {"try lock", single(unfair.TryLock)},
		{"lock", single(latch.Lock)}, {"try lock", single(latch.TryLock)},
		{"acquire", single(sem.Acquire)}, {"try acquire", single(sem.TryAcquire)},
		{"acquire", several(sem.AcquireN)}, {"try acquire", several(sem.TryAcquireN)},
		{"lock", whole(all.Lock)}, {"try lock", whole(all.TryLock)},
		{"acquire", whole(permits.Lock)}, {"try acquire", whole(permits.TryLock)},
	}
	check := func(when string, ctx context.Context, cause error) {
		for i, c := range calls {
			err := c.call(ctx)
			e, ok := errors.AsType[*lock.LockError](err)
			if !ok || e.Op != c.op || e.Path != w.dir || !errors.Is(err, cause) {
				t.Errorf("%s: call %d: %v, want %s %s: %v", when, i, err, c.op, w.dir, cause)
			}
		}
	}
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	check("given up", ctx, context.Canceled)

	w.Create(w.dir, zk.Persistent)
	if _, err := w.admin.Set(w.Context(), w.dir, []byte(`{"permits":3}`), -1); err != nil {
		t.Fatal(err)
	}
	for _, call := range []func(context.Context) error{single(sem.Acquire), single(sem.TryAcquire)} {
		if err := call(w.Context()); !errors.Is(err, lock.ErrPermitsConflict) {
			t.Errorf("another number: %v", err)
		}
	}
	w.Delete(w.dir)
	a.Close(w.Context())
	check("closed", w.Context(), zk.ErrClosed)
}

// TryLock of a latch gets it if no other candidate is there, and otherwise names the leader.
func latchTry(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Latch().TryLock)
	_, err := b.Latch().TryLock(w.Context())
	if busy, ok := errors.AsType[*lock.BusyError](err); !ok || busy.Holder.Owner.Label != "a" {
		t.Errorf("TryLock = %v, want that a has it", err)
	}
	w.WaitQueue(1)
	g := ask(w, b.Latch().Lock)
	w.WaitQueue(2)
	w.MustRelease(h)
	w.MustRelease(g.Granted())
	w.MustRelease(must(w, a.Latch().TryLock))
	w.Clean()
}
