package client

import (
	"slices"
	"time"

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
	// VouchPing: the server we are connected to has answered. A follower passes the news on to the leader up to half
	// a tick later, and one that is cut off goes on answering for a while, although the leader may have expired the
	// session.
	VouchPing
	// VouchWrite: a quorum has answered. Neither a follower nor a leader that is cut off can give it.
	VouchWrite
)

func (v Vouch) String() string {
	switch v {
	case VouchPing:
		return "ping"
	case VouchSync:
		return "sync"
	case VouchWrite:
		return "write"
	}
	return "invalid"
}

// Valid reports whether v is one of the levels.
func (v Vouch) Valid() bool { return v >= VouchSync && v <= VouchWrite }

// strength orders the levels: 0 ping, 1 sync, 2 write.
func (v Vouch) strength() int {
	switch v {
	case VouchPing:
		return 0
	case VouchSync:
		return 1
	default:
		return 2
	}
}

const strengths = 3

// proof returns what an answer has to prove for this level.
func (v Vouch) proof() proof { return proof(v.strength()) + 1 }

// A proof is what an answer proves of the session: nothing, or a level and those below it. As a number it is how many
// levels that are.
type proof int

const (
	provesNothing proof = iota
	provesPing
	provesSync
	provesWrite
)

// writes reports whether a request of this type changes something.
func writes(op wire.Op) bool { return provenBy(op) == provesWrite || op == wire.OpCloseSession }

// provenBy returns what an answer to a request of this type proves. A write is answered by a quorum
// even if it fails, because its failure goes through the log too. Credentials do not count as a sign
// of life with any server, and a session that is being closed is as good as gone.
func provenBy(op wire.Op) proof {
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

// limitTo returns how much of p is left if the answer has this code. Some codes can only come from where
// transactions are decided, so that they prove what a success would; some say that the session is
// gone; all others may come from the first server that sees a request.
func (p proof) limitTo(code zk.Code) proof {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNoChildrenForEphemerals:
		return p
	case zk.ErrSessionExpired, zk.ErrUnknownSession, zk.ErrSessionMoved:
		return provesNothing
	}
	return min(p, provesPing)
}

// A vouching asks for heartbeats of a level until it is stopped.
type vouching struct {
	s     *Session
	level Vouch
	path  string // the znode whose version is checked, for VouchWrite; as the server names it
}

// vouch is what bridge.Session calls Vouch.
func (s *Session) vouch(level Vouch, path string) *vouching {
	if !level.Valid() {
		level = VouchWrite
	}
	if zk.ValidatePath(path) != nil {
		path = "/"
	}
	v := &vouching{s: s, level: level, path: s.serverPath(path)}
	s.mu.Lock()
	s.mu.demand[level.strength()][v] = struct{}{}
	sooner := s.mu.conn != nil && s.mu.conn.beatsSoonerLocked()
	s.mu.Unlock()
	if sooner {
		s.wakeWriter()
	}
	return v
}

// Stop withdraws the demand. It may be called more than once.
func (v *vouching) Stop() {
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	delete(v.s.mu.demand[v.level.strength()], v)
}

// A demand has the vouchings of a session that have not been stopped, by strength.
type demand [strengths]map[*vouching]struct{}

// strongest returns one of the strongest; nil if there is none.
func (d *demand) strongest() *vouching {
	for _, all := range slices.Backward(d[:]) {
		for v := range all {
			return v
		}
	}
	return nil
}

// age is what bridge.Session calls Age.
func (s *Session) age(level Vouch) time.Duration {
	s.mu.Lock()
	at := s.mu.leases[level.strength()].newest // once the session is over, the zero Instant: for ever ago
	s.mu.Unlock()
	return s.opt.clock.Since(at)
}

// A sessionLease is what the answered requests of one level amount to. Guarded by Session.mu.
type sessionLease struct {
	lease  lease.Lease
	newest clock.Instant // when the newest proof was sent; zero once the session is over
	number uint64        // of the lease: it changes when a proof comes after the end of the lease before
}

// leaseOf is what bridge.Session calls Lease.
func (s *Session) leaseOf(level Vouch) bridge.Lease {
	now := s.opt.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.mu.leases[level.strength()]
	return bridge.Lease{
		Remaining: l.lease.Remaining(s.mu.timeout, now.Sub(l.newest)),
		Number:    l.number,
		Settles:   s.mu.history.Settles(s.mu.timeout, now),
	}
}

// vouchLocked notes that a request which proves so much was sent, and had been answered, at these moments.
func (s *Session) vouchLocked(p proof, sent, answered clock.Instant) {
	if s.mu.state.Phase.Final() || p == provesNothing {
		return
	}
	s.mu.history.Add(s.mu.timeout, sent, answered)
	if l := s.mu.history.Lease(s.mu.timeout, sent); l.Valid() {
		s.leaseLocked(p, sent, answered, l)
	}
}

// vouchHandshakeLocked notes that a handshake which proves so much, sent at that moment, has been answered.
func (s *Session) vouchHandshakeLocked(p proof, sent clock.Instant) {
	if !s.mu.state.Phase.Final() {
		s.leaseLocked(p, sent, s.opt.clock.Now(), s.mu.history.Restart(sent))
	}
}

// leaseLocked renews the leases of a level and of those below by a proof that was sent, and had come, at these moments.
func (s *Session) leaseLocked(p proof, sent, answered clock.Instant, renewed lease.Lease) {
	for i := range int(p) {
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

// An idle session sends a ping every third of its timeout, which keeps it alive and lets a dead
// connection show within two thirds. While vouching is asked for it is every lease.Beat, and what is
// sent proves as much as was asked for.
const idleBeats = 3

// heartbeatLocked puts a heartbeat into the write buffer if one is due, and returns how long it is until the
// next.
func (c *conn) heartbeatLocked() time.Duration {
	s := c.s
	level, path, interval := c.rhythmLocked()
	if wait := interval - time.Since(c.lastBeat[level.strength()]); wait > 0 || s.mu.over != nil {
		return max(wait, time.Millisecond)
	}
	s.mu.stats.Heartbeats++
	now := s.opt.clock.Now()
	c.noteBeatLocked(level.proof(), now)
	switch level {
	case VouchPing:
		c.sendLocked(ownCall(wire.OpPing, "ping", "", nil), now)
	case VouchWrite: // a transaction that changes nothing: a write to the node would wake the waiter that watches it
		check := wire.MultiOp{Op: wire.OpCheck, Path: path, Version: -1}
		c.sendLocked(ownCall(wire.OpMulti, "vouch", path, &wire.MultiRequest{Ops: []wire.MultiOp{check}}), now)
	default:
		c.sendLocked(ownCall(wire.OpSync, "sync", "/", &wire.PathRecord{Path: "/"}), now)
	}
	return interval
}

// rhythmLocked returns how much the next heartbeat has to prove, with which path, and how long after the last one of
// its kind it is due.
func (c *conn) rhythmLocked() (level Vouch, path string, interval time.Duration) {
	level, interval = VouchPing, c.timeout/idleBeats
	if v := c.s.mu.demand.strongest(); v != nil {
		level, path, interval = v.level, v.path, lease.Beat(c.timeout)
	}
	return level, path, max(interval, time.Millisecond)
}

// beatsSoonerLocked reports whether the next heartbeat is due before the writer is going to look.
func (c *conn) beatsSoonerLocked() bool {
	level, _, interval := c.rhythmLocked()
	return c.lastBeat[level.strength()].Add(interval).Before(c.out.look)
}

// noteBeatLocked notes that the next heartbeat that proves no more than p is due an interval after sent.
func (c *conn) noteBeatLocked(p proof, sent clock.Instant) {
	for i := range int(p) {
		if sent.Time().After(c.lastBeat[i]) {
			c.lastBeat[i] = sent.Time()
		}
	}
}
