package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
)

// A Member is a claim that can be made together with others, by an All: a Locker, or permits of a Semaphore.
type Member interface{ claim() member }

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
	taker taker
	line  *entrance // in which the claims can be made together with those of other members; nil if there is no line
	count int       // of claims
	err   error
}

// A taker takes one member by itself.
type taker interface {
	lockAll(ctx context.Context, count int) ([]*Hold, error)
	tryAll(ctx context.Context, count int) ([]*Hold, error)
}

// member returns the member of count claims in the entrance's line.
func (e *entrance) member(path string, count int) member {
	if e == nil {
		return member{err: errZero}
	}
	return member{path: path, lock: &e.lockBase, taker: e, line: e, count: count}
}

func (m *Mutex) claim() member { return m.e.member(m.Path(), 1) }

// A side is one side of a read/write lock.
type side struct{ e *entrance }

func (s side) claim() member                              { return s.e.member(s.Path(), 1) }
func (s side) Path() string                               { return s.e.base().path() }
func (s side) Session() *client.Session                   { return s.e.base().session() }
func (s side) Lock(ctx context.Context) (*Hold, error)    { return s.e.lock(ctx) }
func (s side) TryLock(ctx context.Context) (*Hold, error) { return s.e.try(ctx) }

func (s side) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return s.e.do(ctx, f)
}

// Reader returns the read side as a Locker.
func (m *RWMutex) Reader() Locker { return side{m.read} }

// Writer returns the write side as a Locker.
func (m *RWMutex) Writer() Locker { return side{m.write} }

// permits are some permits of a semaphore.
type permits struct {
	m *Semaphore
	k int
}

func (p permits) claim() member {
	m := p.m.e.member(p.m.path, p.k)
	if m.err == nil {
		m.err = p.m.mayAsk(p.k)
	}
	return m
}

// Permits returns k permits, to be held together with other locks.
func (m *Semaphore) Permits(k int) Member { return permits{m, k} }

// alone reports whether the claim is made by itself: more has to happen before or after it than to join the
// line and to find that nobody is ahead.
func (m member) alone() bool {
	return m.line == nil || m.lock.opt.Delay > 0 || m.line.gate != nil || m.line.room.varies() && !m.line.room.agreed.Load()
}
