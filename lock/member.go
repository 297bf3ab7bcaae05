package lock

// A Member is a claim that can be made together with others, by an All: a Locker, or permits of a Semaphore.
type Member interface{ resolve() member }

// member is the resolved form of a Member.
type member struct {
	path  string // of the lock
	lock  *lockBase
	taker lockTaker
	core  *core // in which the claims can be made together with those of other members; nil if there is no queue
	count int   // of claims
	err   error
}

func (m member) resolve() member { return m }

func (l locker) resolve() member {
	if l.from == nil {
		return member{err: errZero}
	}
	core, _ := l.from.(*core)
	return member{path: l.Path(), lock: l.from.base(), taker: l.from, core: core, count: 1}
}

// isSeparate reports whether the claim is made by itself: more has to happen before or after it than to join the
// queue and to find that no claim is ahead.
func (m member) isSeparate() bool {
	return m.core == nil || m.lock.opt.Delay > 0 || m.core.gate != nil || m.core.permits.varies() && !m.core.permits.agreed.Load()
}
