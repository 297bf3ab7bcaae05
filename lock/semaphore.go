package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Semaphore is a lock that up to N hold at a time, in the order of arrival: N is its number of permits, and a claim with fewer
// than N ahead holds one. No counter is kept anywhere, so a permit is never lost and never given out twice.
//
// Each permit is a Hold of its own, with its own znode and its own loss. Its token does not order the holders. Nothing re-enters: with
// a context derived from a Hold's, the caller asks for another permit.
//
// What it costs: a waiter watches the N znodes nearest ahead of it. A permit that is given back wakes one waiter if it is the one
// that was got first, two if it was the second, and so on; never more than N, however many wait. One of those woken gets the
// permit, and each of the others asks for the queue once more. It cannot be fewer: waitForPermits in lock/internal/queue says why.
type Semaphore struct {
	fair *fairLock
	one  locker // the same, as a lock that gives one permit at a time
}

// NewSemaphore returns the semaphore of n permits, at most PermitsMax, of the directory at path. The number is stored in the
// directory's data by its first user, and the directory stays for ever; where the directory is there already, a refused caller
// stores nothing. If another number is stored when this Semaphore is first asked for a permit, the error is a *ConflictError; from
// then on it follows what is stored, which SetPermits changes. With Options.AdoptPermits it follows that from the beginning. If n
// is 0 it takes the number that is stored, and the error is ErrNoPermits if there is none.
//
// A directory that a lock of another kind has made, such as a Mutex, is deleted by the server when it has become empty,
// and a number that has been stored there goes with it: give a semaphore a path of its own.
func NewSemaphore(s *client.Session, path string, n int, opt Options) (*Semaphore, error) {
	return newSemaphore(s, path, path, &permitCount{n: n, stored: true, adopts: opt.AdoptPermits}, opt)
}

// NewCuratorSemaphore returns a semaphore that is shared with Curator's InterProcessSemaphoreV2 of the same path. All clients must
// be made with the same number of permits, for it is not stored. Permits are znodes in "leases" below path, and a contender that
// waits for one holds the lock in "locks" below path meanwhile. Only Curator needs that lock, because it takes all claims in
// "leases" for holders and could otherwise deadlock; among clients of this package the place in the queue decides.
func NewCuratorSemaphore(s *client.Session, path string, n int, opt Options) (*Semaphore, error) {
	m, err := newSemaphore(s, path, zk.Join(path, queue.LeasesName), &permitCount{n: n}, opt)
	if err != nil {
		return nil, err
	}
	opt = m.fair.opt
	opt.Hooks = Hooks{Waiting: opt.Hooks.Waiting} // the gate is no lock of the caller's
	m.fair.gate = newFairLock(s, zk.Join(path, queue.GateName), opt, &queue.MutexRules)
	m.fair.gate.path = path
	return m, nil
}

// newSemaphore returns the semaphore that is known by path, and has its claims in dir.
func newSemaphore(s *client.Session, path, dir string, permits *permitCount, opt Options) (*Semaphore, error) {
	opt, err := opt.forLock(s, path)
	switch {
	case err != nil:
		return nil, err
	case opt.Delay != 0:
		return nil, fmt.Errorf("lock %s: option Delay: a semaphore has none", path)
	case permits.n != 0 || !permits.stored:
		if err := validPermits(permits.n); err != nil {
			return nil, fmt.Errorf("semaphore %s: %w", path, err)
		}
	}
	c := newFairLock(s, dir, opt, &queue.PermitRules)
	c.path, c.permits = path, permits
	return &Semaphore{c, locker{&c.lockBase}}, nil
}

func validPermits(n int) error {
	if n < 1 || n > PermitsMax {
		return fmt.Errorf("%d permits, want 1 to %d", n, PermitsMax)
	}
	return nil
}

// SetPermits changes the number of permits that is stored with the semaphore, whatever number it was made with, and makes its
// directory if that is not there. It takes effect at once for the waiters. A smaller number takes no permit from the holders, nor from
// a waiter that is being granted one just now; it is reached when enough of them have released theirs. The path must not be that of a
// lock of another kind: its directory would become a semaphore's. The number of Curator's semaphores is stored nowhere.
func (m *Semaphore) SetPermits(ctx context.Context, n int) error {
	if m.fair == nil {
		return errZero
	}
	err := validPermits(n)
	switch {
	case err != nil:
	case !m.fair.permits.stored:
		err = errors.New("the number of permits of Curator's semaphore is not stored")
	default:
		_, err = updateStoredPermits(ctx, m.fair, func(int, bool) (int, error) { return n, nil })
	}
	if err != nil {
		return &LockError{"set permits", m.fair.path, err}
	}
	return nil
}

// Path returns the path of the semaphore's directory.
func (m *Semaphore) Path() string { return m.one.Path() }

// Session returns the session that the semaphore belongs to.
func (m *Semaphore) Session() *client.Session { return m.one.Session() }

// Acquire waits for a permit and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one of
// hold and error is not nil. Under a hold of the same semaphore it takes another permit: with the last one held by the caller it
// waits for itself, which Options.Deadlock finds where it takes the semaphore into account; see DeadlockError.
func (m *Semaphore) Acquire(ctx context.Context) (*Hold, error) { return m.one.Lock(ctx) }

// AcquireN waits for k permits and returns their holds, or none. It keeps its place in the queue until k are free, so those
// behind that want fewer do not pass it. If the semaphore has fewer than k permits, or comes to have fewer while
// AcquireN waits, the error is a *TooManyError. Holds.Of(Path()) returns the single holds.
func (m *Semaphore) AcquireN(ctx context.Context, k int) (*Holds, error) {
	return m.acquireN(ctx, k, false)
}

// TryAcquire is Acquire if that takes no waiting, and otherwise returns a *BusyError that names the holder that has held a permit
// for longest. A semaphore of NewCuratorSemaphore is busy too while another contender is on the way in; the error names that one.
func (m *Semaphore) TryAcquire(ctx context.Context) (*Hold, error) { return m.one.TryLock(ctx) }

// TryAcquireN is AcquireN if that takes no waiting, and otherwise returns a *BusyError, as TryAcquire does. It passes
// no contender: while one waits for more permits than are free, it fails even if k are free.
func (m *Semaphore) TryAcquireN(ctx context.Context, k int) (*Holds, error) {
	return m.acquireN(ctx, k, true)
}

func (m *Semaphore) acquireN(ctx context.Context, k int, try bool) (*Holds, error) {
	if m.fair == nil {
		return nil, errZero
	}
	permits := m.Permits(k).resolve()
	if permits.err != nil {
		return nil, m.fair.tellRefused(m.fair.tellAsked(ctx), &LockError{m.fair.op(try), m.fair.path, permits.err})
	}
	return (&All{[]member{permits}}).take(ctx, try)
}

// Permits returns k permits, to be held together with other locks.
func (m *Semaphore) Permits(k int) Member {
	if m == nil || m.fair == nil {
		return member{lock: noLock}
	}
	return member{&m.fair.lockBase, k, m.mayAsk(k)}
}

// mayAsk refuses numbers that the semaphore can never grant at once.
func (m *Semaphore) mayAsk(k int) error {
	switch {
	case k < 1:
		return fmt.Errorf("%d permits asked for, want at least 1", k)
	case k > PermitsMax:
		return &TooManyError{Asked: k, Permits: PermitsMax}
	case !m.fair.permits.stored && k > m.fair.permits.n: // before the lock on the way in is waited for
		return &TooManyError{Asked: k, Permits: m.fair.permits.n}
	}
	return nil
}

// Do runs f while holding a permit; see Mutex.Do.
func (m *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.one.Do(ctx, f)
}
