package lock

// A Member is a claim that can be made together with others, by an All: a *Mutex, one side of an RWMutex,
// permits of a Semaphore, or an *Unfair.
type Member interface{ claim() member }

// A member is what a Member comes down to.
type member struct {
	path  string // of the lock
	e     *entrance
	count int // of claims
	err   error
}

func (m *Mutex) claim() member { return member{path: m.e.dir, e: m.e, count: 1} }

// A side is one side of a read/write lock.
type side struct{ e *entrance }

func (s side) claim() member { return member{path: s.e.dir, e: s.e, count: 1} }

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
	return member{path: p.m.path, e: p.m.e, count: p.k, err: p.m.mayAsk(p.k)}
}

// Permits returns k permits, to be held together with other locks.
func (m *Semaphore) Permits(k int) Member { return permits{m, k} }

func (u *Unfair) claim() member { return member{path: u.e.dir, e: u.e, count: 1} }

// alone reports whether the claim is made by itself: more has to happen before or after it than to join the
// line and to find that nobody is ahead.
func (m member) alone() bool {
	return m.e.recipe.lone || m.e.opt.Delay > 0 || m.e.gate != nil || m.e.room.varies() && !m.e.room.agreed.Load()
}
