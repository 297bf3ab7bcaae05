package lock

import "time"

// A loan is the arithmetic of a hold's deadline, for one granted session timeout.
//
// The ensemble frees our lock no earlier than the timeout after it last heard from us, and it heard
// from us no earlier than we sent the last request that it answered. So from the sending of that
// request we may go on for two thirds of the timeout and be done while nobody else can hold the lock;
// the last third is for whatever has to stop working, and for clocks that do not run alike.
type loan struct {
	timeout time.Duration // granted
}

// term is how long after the last proof of life was sent a hold is good.
func (l loan) term() time.Duration { return l.timeout * 2 / 3 }

// left returns how much of the term remains, given the age of the last proof of life; 0 or less means
// that the hold is over.
func (l loan) left(age time.Duration) time.Duration { return l.term() - age }

// fresh reports whether a proof of life of that age is good enough to begin a hold on: at least half
// of the term must remain.
func (l loan) fresh(age time.Duration) bool { return age <= l.term()/2 }

// settling is how much longer to wait until the leader has heard of what began a chain of answered requests
// so long ago: half a tick, and the timeout is two ticks at least.
func (l loan) settling(age time.Duration) time.Duration { return l.timeout/4 - age }

// glance is how often at least the deadline is looked at, because timers stand still while the machine
// is suspended and fire late after it.
func (l loan) glance() time.Duration { return min(max(l.timeout/6, time.Millisecond), time.Second) }
