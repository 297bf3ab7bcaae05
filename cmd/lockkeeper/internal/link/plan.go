package link

import (
	"fmt"
	"time"
)

// A Plan says when the child gets the signal to end and when it has to die, so that it is dead before
// the lock can be granted to another contender. With T, the session timeout that the server granted:
//
//   - the server keeps the session, and with it the lock, for at least T from the moment at which the
//     last answered heartbeat was sent;
//   - the deadline of the lock is 2/3 T after that moment; heartbeats are at most T/6 apart;
//   - Margin before the deadline the child's processes are killed, and Grace before that they are
//     asked to end.
//
// Grace and Margin together may take a third of T. What is left then for a heartbeat to be late by
// is 2/3 T - T/6 - T/3 = T/6.
type Plan struct {
	Grace  time.Duration
	Margin time.Duration
}

const (
	graceDefaultMax = 5 * time.Second
	marginMin       = 20 * time.Millisecond
	marginMax       = time.Second
)

// NewPlan makes the plan for a session timeout. GraceAuto takes what there is, 5 seconds at most.
// The error says which numbers do not fit together.
func NewPlan(timeout, grace time.Duration) (Plan, error) {
	p := Plan{Grace: grace, Margin: min(max(timeout/30, marginMin), marginMax)}
	room := timeout/3 - p.Margin
	if grace == GraceAuto {
		p.Grace = min(max(room, 0), graceDefaultMax)
	}
	if room < 0 || p.Grace > room {
		return p, fmt.Errorf("a grace of %v does not fit a session timeout of %v: "+
			"a third of it, less %v to kill in, leaves %v (shorten --grace; this one takes a session timeout of %v)",
			p.Grace, timeout, p.Margin.Round(time.Millisecond), max(room, 0).Round(time.Millisecond), (3*p.Grace + 3*marginMax).Round(time.Second))
	}
	return p, nil
}

// TermAt returns when the child is told to end, for a lock with this deadline.
func (p Plan) TermAt(deadline Instant) Instant { return p.KillAt(deadline).Add(-p.Grace) }

// KillAt returns when the child's processes are killed.
func (p Plan) KillAt(deadline Instant) Instant { return deadline.Add(-p.Margin) }
