package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
)

// A Member is a claim that can be made together with others, by an All: a Locker, or permits of a Semaphore.
type Member interface{ resolve() member }

// A Locker is a lock that one hold is taken of at a time: a *Mutex, a side of an RWMutex or an *Unfair. Functions that work
// with any of them take a Locker, and so does NewAll. A wrapper is a Locker if it embeds one; an All takes the lock that is
// embedded, without the wrapper's methods.
type Locker interface {
	Member
	Path() string
	Session() *client.Session
	Lock(ctx context.Context) (*Hold, error)
	TryLock(ctx context.Context) (*Hold, error)
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// member is the resolved form of a Member.
type member struct {
	path  string // of the lock
	lock  *lockBase
	taker lockTaker
	core  *core // in which the claims can be made together with those of other members; nil if there is no queue
	count int   // of claims
	err   error
}

// member returns the member of count claims in the lock's queue.
func (c *core) member(path string, count int) member {
	if c == nil {
		return member{err: errZero}
	}
	return member{path: path, lock: &c.lockBase, taker: c, core: c, count: count}
}

func (m *Mutex) resolve() member { return m.core.member(m.Path(), 1) }

// A coreLocker is one way into a queue: a side of a read/write lock, or the lock under an election.
type coreLocker struct{ core *core }

func (l coreLocker) resolve() member                            { return l.core.member(l.Path(), 1) }
func (l coreLocker) Path() string                               { return l.core.base().path() }
func (l coreLocker) Session() *client.Session                   { return l.core.base().session() }
func (l coreLocker) Lock(ctx context.Context) (*Hold, error)    { return takeOne(ctx, l.core, false) }
func (l coreLocker) TryLock(ctx context.Context) (*Hold, error) { return takeOne(ctx, l.core, true) }

func (l coreLocker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, l.core, f)
}

// semaphorePermits are some permits of a semaphore.
type semaphorePermits struct {
	m *Semaphore
	k int
}

func (p semaphorePermits) resolve() member {
	m := p.m.core.member(p.m.path, p.k)
	if m.err == nil {
		m.err = p.m.mayAsk(p.k)
	}
	return m
}

// Permits returns k permits, to be held together with other locks.
func (m *Semaphore) Permits(k int) Member { return semaphorePermits{m, k} }

// isSeparate reports whether the claim is made by itself: more has to happen before or after it than to join the
// queue and to find that no claim is ahead.
func (m member) isSeparate() bool {
	return m.core == nil || m.lock.opt.Delay > 0 || m.core.gate != nil || m.core.permits.varies() && !m.core.permits.agreed.Load()
}
