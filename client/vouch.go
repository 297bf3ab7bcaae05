package client

import (
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Vouch says how much the answer to a heartbeat proves about the session.
type Vouch int

// The levels. VouchPing is the weakest and VouchWrite the strongest; each proves what a weaker one does. The zero value
// is VouchSync, the default.
const (
	// VouchSync: the leader has answered. Its answer travels behind all that it has committed, so if it had ended
	// the session, that would have been heard first. A follower that is cut off from its leader cannot give it; a
	// leader that is cut off from its quorum still can, until it notices.
	VouchSync Vouch = iota
	// VouchPing: the server we are connected to has answered. A follower passes the news on to the leader up to half a tick later,
	// and one that is cut off goes on answering for a while, although the leader may have expired the session.
	VouchPing
	// VouchWrite: a quorum has answered. Neither a follower nor a leader that is cut off can give it.
	VouchWrite
)

func (v Vouch) String() string {
	if !v.Valid() {
		return "invalid"
	}
	return [...]string{"sync", "ping", "write"}[v]
}

// Valid reports whether v is one of the levels.
func (v Vouch) Valid() bool { return v >= VouchSync && v <= VouchWrite }

// strength returns what an answer has to prove for this level.
func (v Vouch) strength() strength {
	if !v.Valid() {
		return provesWrite
	}
	return [...]strength{VouchPing: provesPing, VouchSync: provesSync, VouchWrite: provesWrite}[v]
}

// A strength is what an answer proves of the session: nothing, or a level and those below it.
type strength int

const (
	provesNothing strength = iota
	provesPing
	provesSync
	provesWrite
	strengths
)

// provenBy returns what an answer to a request of this type proves. A write is answered by a quorum
// even if it fails, because its failure goes through the log too. Credentials do not count as a sign
// of life with any server, and a session that is being closed is as good as gone.
func provenBy(op wire.Op) strength {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		return provesWrite
	case wire.OpSync:
		return provesSync
	case wire.OpAuth, wire.OpCloseSession:
		return provesNothing
	}
	return provesPing
}

// limitTo returns what an answer with this code proves, where a success would prove p. Some codes can only come from where
// transactions are decided, so that they prove what a success would; some say that the session is
// gone; all others may come from the first server that sees a request.
func (p strength) limitTo(code zk.Code) strength {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNoChildrenForEphemerals:
		return p
	case zk.ErrSessionExpired, zk.ErrUnknownSession, zk.ErrSessionMoved:
		return provesNothing
	}
	return min(p, provesPing)
}

func (b lockSession) Vouch(level, more int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.demand[Vouch(level).strength()] += more
	if c := b.mu.conn; c != nil {
		proves, interval := c.rhythmLocked()
		if c.out.look.After(c.lastBeat[proves].Add(interval)) { // the next heartbeat is due before the writer looks
			tell(b.wake)
		}
	}
}

// A sessionLease is what the answered requests of one level amount to. Guarded by Session.mu.
type sessionLease struct {
	lease  lease.Lease
	newest clock.Instant // when the newest proof was sent; zero once the session is over
	number uint64        // of the lease: it changes when a proof comes after the end of the lease before
}

func (b lockSession) Lease(level int) bridge.Lease {
	now := b.opt.clock.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.mu.leases[Vouch(level).strength()]
	age := now.Sub(l.newest) // for ever once the session is over
	return bridge.Lease{
		At:        now,
		Age:       age,
		Remaining: l.lease.Remaining(b.mu.timeout, age),
		Number:    l.number,
		Settles:   b.mu.history.Settles(b.mu.timeout, now),
	}
}

// noteProofLocked records an answered request that proves p: when it was sent, and when the answer had come.
func (s *Session) noteProofLocked(p strength, sent, answered clock.Instant) {
	if p == provesNothing {
		return
	}
	s.mu.history.Add(s.mu.timeout, sent, answered)
	if l := s.mu.history.Lease(s.mu.timeout, sent); l.Valid() {
		s.renewLeasesLocked(p, sent, answered, l)
	}
}

// renewLeasesLocked renews the leases of level p and of those below, by an answered request as noteProofLocked has it.
func (s *Session) renewLeasesLocked(p strength, sent, answered clock.Instant, renewed lease.Lease) {
	if s.mu.state.Phase.Final() {
		return
	}
	for i := range s.mu.leases[:p+1] {
		l := &s.mu.leases[i]
		if !sent.After(l.newest) {
			continue
		}
		if l.lease.Remaining(s.mu.timeout, answered.Sub(l.newest)) <= 0 {
			l.number++
		}
		l.lease, l.newest = renewed, sent
	}
}
