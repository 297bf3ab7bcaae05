package lock

import "context"

// A Member is a claim that can be made together with others, by an All: a *Mutex, one side of an RWMutex,
// permits of a Semaphore, or an *Unfair.
type Member interface{ claim() member }

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
	return member{path: path, lock: &e.lockBase, taker: e, line: e, count: count}
}

func (m *Mutex) claim() member { return m.e.member(m.e.dir, 1) }

// A side is one side of a read/write lock.
type side struct{ e *entrance }

func (s side) claim() member { return s.e.member(s.e.dir, 1) }

// Reader returns the read side, to be held together with other locks.
func (m *RWMutex) Reader() Member { return side{m.read} }

// Writer returns the write side, to be held together with other locks.
func (m *RWMutex) Writer() Member { return side{m.write} }

// permits are some permits of a semaphore.
type permits struct {
	m *Semaphore
	k int
}

func (p permits) claim() member {
	m := p.m.e.member(p.m.path, p.k)
	m.err = p.m.mayAsk(p.k)
	return m
}

// Permits returns k permits, to be held together with other locks.
func (m *Semaphore) Permits(k int) Member { return permits{m, k} }

// alone reports whether the claim is made by itself: more has to happen before or after it than to join the
// line and to find that nobody is ahead.
func (m member) alone() bool {
	return m.line == nil || m.lock.opt.Delay > 0 || m.line.gate != nil || m.line.room.varies() && !m.line.room.agreed.Load()
}
