// Package lease is the arithmetic of a hold's deadline. It is pure: it reads no clock and knows no session, so that the client,
// the locks and the model in test/model use the same rule.
//
// T is the session timeout: the least that the ensemble ever granted to the session, because a new leader or a restarted
// server counts with the timeout of the session's creation, and the last handshake may have granted more.
//
// A proof is a request that was answered. It counts from the moment at which it was sent. The leader frees the session's
// ephemeral znodes no earlier than T after it last heard of the session. It hears of a session at a handshake, and then by the
// relay that a follower adds to its answer to the leader's ping, up to half a tick after the follower heard of it. Requests
// that a follower forwards do not count (LeaderSessionTracker: they are checked and not touched). So an answer proves that
// the leader knew the session when it was given, but not that the leader has heard of this request: if follower and client
// are cut off within half a tick, the leader counts from an earlier one. ZooKeeper grants at least two ticks unless
// minSessionTimeout says otherwise, so half a tick is at most T/4.
//
// Three conditions bound the deadline after the newest proof n:
//
//   - n + 2/3 T: the last third of the timeout is for work that has to stop, and for clocks of different rates.
//   - k + T, where k is the newest proof whose answer had come T/4 or more before n was sent: the leader knows of k for
//     certain, because the follower heard of k by then and n was answered on the same connection. It is not enough that k was
//     sent so long before n: k may have reached the follower late.
//   - n + 5/6 T - G, where G is the longest silence between two proofs from k to n: the leader may know no proof after that
//     silence began. With heartbeats T/6 apart this is n + 2/3 T as well.
//
// From the deadline to the earliest moment at which the leader can free the session remain T/6 less half a tick, and never
// less than nothing.
package lease

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
)

// Term is how long a lease lasts at most after its newest proof was sent.
func Term(timeout time.Duration) time.Duration { return timeout * 2 / 3 }

// Beat is the longest time between two heartbeats while a lease is wanted.
func Beat(timeout time.Duration) time.Duration { return timeout / 6 }

// Enough reports whether a lease with so much left is worth beginning a hold on.
func Enough(timeout, left time.Duration) bool { return left >= timeout/4 }

// Glance is how often a deadline is looked at at least: timers stand still while the machine is suspended.
func Glance(timeout time.Duration) time.Duration {
	return min(max(timeout/6, time.Millisecond), time.Second)
}

// relay is the longest time until the leader has heard of a request that a follower has answered.
func relay(timeout time.Duration) time.Duration { return timeout / 4 }

// plenty is how much a lease has to have left when its newest proof is sent, so that Enough is left when the answer comes.
func plenty(timeout time.Duration) time.Duration { return timeout / 3 }

// grain is the distance below which proofs are merged, so that a history stays short. A session that proves itself all the time
// keeps proofs of at most twice this distance, so k is no older than T/3 and a round trip.
func grain(timeout time.Duration) time.Duration { return timeout / 24 }

// A Lease is what the proofs of one level amount to. The zero value has no time left.
type Lease struct {
	silence time.Duration // G: the longest silence that the leader may not know the end of
	known   time.Duration // n - k: how much older than the newest proof the one is that the leader knows
	valid   bool
}

// Remaining returns how much of the lease is left when its newest proof was sent so long ago; 0 or less means that it is over.
func (l Lease) Remaining(timeout, age time.Duration) time.Duration {
	if !l.valid {
		return 0
	}
	return min(Term(timeout), timeout*5/6-l.silence, timeout-l.known) - age
}

// A History is the answered requests of one session, as far back as a lease depends on them. The zero value has none.
type History struct {
	proofs []proof // in the order of sending; the leader knows the oldest
}

// A proof is a request that was answered.
type proof struct {
	sent, answered clock.Instant
	handshake      bool // the leader heard of it at once
}

// Restart notes a handshake, which the leader hears of at once, and returns the lease that it makes.
func (h *History) Restart(sent clock.Instant) Lease {
	h.proofs = append(h.proofs[:0], proof{sent, sent, true})
	return Lease{valid: true}
}

// Add notes an answered request.
func (h *History) Add(timeout time.Duration, sent, answered clock.Instant) {
	last := len(h.proofs) - 1
	if last < 0 || !sent.After(h.proofs[last].sent) {
		return
	}
	g := grain(timeout)
	if last > 0 && sent.Sub(h.proofs[last].sent) < g && h.proofs[last].sent.Sub(h.proofs[last-1].sent) < g {
		h.proofs[last] = proof{sent, answered, false}
	} else {
		h.proofs = append(h.proofs, proof{sent, answered, false})
		last++
	}
	known := last
	for known > 0 && sent.Sub(h.proofs[known].answered) < relay(timeout) {
		known--
	}
	h.proofs = append(h.proofs[:0], h.proofs[known:]...)
}

// Lease returns the lease whose newest proof was sent at newest. It is not valid if the history does not go back far enough to tell
// what the leader knew then: proofs that were sent later have been added before.
func (h *History) Lease(timeout time.Duration, newest clock.Instant) Lease {
	l, later := Lease{valid: true}, newest
	for i := len(h.proofs) - 1; i >= 0; i-- {
		p := h.proofs[i]
		if !later.After(p.sent) && !p.handshake {
			continue
		}
		l.silence = max(l.silence, later.Sub(p.sent))
		l.known = newest.Sub(p.sent)
		if p.handshake || newest.Sub(p.answered) >= relay(timeout) {
			return l
		}
		later = p.sent
	}
	return Lease{}
}

// Valid reports whether the lease is one.
func (l Lease) Valid() bool { return l.valid }

// ReadyIn returns how long to wait before another proof makes a lease that is worth beginning a hold on; 0 if a proof at this
// moment does, or if there has to be one first. After a long silence the leader has to hear of the session again.
func (h *History) ReadyIn(timeout time.Duration, now clock.Instant) time.Duration {
	last := len(h.proofs) - 1
	if last < 0 || h.Lease(timeout, now).Remaining(timeout, 0) >= plenty(timeout) {
		return 0
	}
	return max(relay(timeout)-now.Sub(h.proofs[last].answered), 0)
}
