package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Semaphore is a lock that up to so many hold at a time, in the order of arrival: whoever has fewer
// claims ahead than there are permits holds one. There is nothing to count and nothing to guard, so a
// permit is never lost and never given out twice.
//
// A waiter watches the claims nearest ahead of it, as many as there are permits. If permits come back in the order in
// which they were got, each wakes one waiter, the one that gets it. A permit that comes back out of turn wakes as
// many as its place among those held, the oldest being the first: at most as many as there are permits, however
// many wait. One of them gets it, and the others look once (one listing, one new watch). No waiting that is done by
// watching alone can do with fewer; docs/guarantees.md has the proof.
//
// Each permit is a Hold of its own, with its own znode and its own loss. The tokens of a semaphore name
// its holders but do not order them: one with a lower token may hold a permit as rightfully as one with
// a higher. Nothing re-enters: a context derived from a Hold's asks for another permit.
type Semaphore struct {
	e    *entrance
	path string
}

// NewSemaphore returns the semaphore of n permits, at most PermitsMax, of the directory at path. The number
// is stored in the directory's data by whoever uses it first, and the directory stays. If another number is
// stored when this Semaphore is used for the first time, the error is a *ConflictError; from then on it
// follows what is stored. If n is 0 it takes what is stored, and nothing stored is ErrNoPermits.
func NewSemaphore(s *client.Session, path string, n int, opt Options) (*Semaphore, error) {
	opt, err := opt.withDefaults(path)
	if err == nil && n != 0 {
		err = validPermits(path, n)
	}
	if err = errors.Join(err, opt.withoutDelay(path)); err != nil {
		return nil, err
	}
	e := newEntrance(s, path, opt, &permitRecipe)
	e.room = &room{n: n, stored: true}
	return &Semaphore{e, path}, nil
}

// NewCuratorSemaphore returns a semaphore that is shared with Curator's InterProcessSemaphoreV2 of the same
// path and number of permits: the number is agreed upon elsewhere, claims are in "leases" below path, and
// whoever wants to join them holds the lock in "locks" while it waits. Curator needs that lock, for it takes
// everybody in "leases" for a holder: two that wait there at once could wait for each other. To us it is
// only that; the place in line decides.
func NewCuratorSemaphore(s *client.Session, path string, n int, opt Options) (*Semaphore, error) {
	opt, err := opt.withDefaults(path)
	if err == nil {
		err = validPermits(path, n)
	}
	if err = errors.Join(err, opt.withoutDelay(path)); err != nil {
		return nil, err
	}
	e := newEntrance(s, zk.Join(path, "leases"), opt, &permitRecipe)
	e.room = &room{n: n}
	e.gate = newEntrance(s, zk.Join(path, "locks"), opt, &mutexRecipe)
	return &Semaphore{e, path}, nil
}

func validPermits(path string, n int) error {
	if n < 1 || n > PermitsMax {
		return fmt.Errorf("semaphore %s: %d permits, want 1 to %d", path, n, PermitsMax)
	}
	return nil
}

// SetPermits stores another number of permits with the semaphore at path, made if it is not there. Those
// who wait notice. A smaller number takes nothing from those who hold permits, or are being granted one
// just now: it is kept to once as many have left.
func SetPermits(ctx context.Context, s *client.Session, path string, n int) error {
	opt, err := Options{}.withDefaults(path)
	if err == nil {
		err = validPermits(path, n)
	}
	if err != nil {
		return err
	}
	e := newEntrance(s, path, opt, &permitRecipe)
	if _, err := storeRoom(ctx, e, func(int) (int, error) { return n, nil }); err != nil {
		return &LockError{"set permits", path, err}
	}
	return nil
}

// Path returns the path of the semaphore's directory.
func (m *Semaphore) Path() string { return m.path }

// Acquire waits for a permit and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one of
// hold and error is not nil.
func (m *Semaphore) Acquire(ctx context.Context) (*Hold, error) { return m.e.lock(ctx) }

// AcquireN waits for k permits and returns k holds, or none. It keeps its place in line until there are as
// many, so those who want fewer do not pass it. More than there are is a *TooManyError, also if there are
// fewer only later, while it waits.
func (m *Semaphore) AcquireN(ctx context.Context, k int) ([]*Hold, error) {
	if err := m.mayAsk(k); err != nil {
		return nil, &LockError{m.e.recipe.op(false), m.path, err}
	}
	return m.e.lockAll(ctx, k)
}

// TryAcquire is Acquire if that takes no waiting, and otherwise returns a *BusyError that names the one who
// has held a permit for longest.
func (m *Semaphore) TryAcquire(ctx context.Context) (*Hold, error) { return m.e.try(ctx) }

// TryAcquireN is AcquireN if that takes no waiting, and otherwise returns a *BusyError, as TryAcquire does. It passes
// nobody who waits: that fewer than k are held does not help while somebody ahead wants more than are free.
func (m *Semaphore) TryAcquireN(ctx context.Context, k int) ([]*Hold, error) {
	if err := m.mayAsk(k); err != nil {
		return nil, &LockError{m.e.recipe.op(true), m.path, err}
	}
	return m.e.tryAll(ctx, k)
}

// mayAsk refuses numbers that no semaphore can grant at once.
func (m *Semaphore) mayAsk(k int) error {
	switch {
	case k < 1:
		return fmt.Errorf("%d permits asked for, want at least 1", k)
	case k > PermitsMax:
		return &TooManyError{Asked: k, Permits: PermitsMax}
	}
	return nil
}

// Do runs f while holding a permit; see Mutex.Do.
func (m *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.e.do(ctx, f)
}
