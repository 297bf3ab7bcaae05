package client

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An idle session sends a ping every third of its timeout, which keeps it alive and lets a dead
// connection show within two thirds. While vouching is asked for it is every sixth, and what is
// sent proves as much as was asked for.
const (
	idleBeats  = 3
	vouchBeats = 6
)

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
	if level == VouchPing {
		buf, start := wire.BeginFrame(c.out.buf)
		c.out.buf = wire.EndFrame((&wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}).AppendTo(buf), start)
		c.pings = append(c.pings, now)
		s.mu.stats.Requests++
		return interval
	}
	if level == VouchWrite { // a transaction that changes nothing: a write to the node would wake the waiter that watches it
		check := wire.MultiOp{Op: wire.OpCheck, Path: path, Version: -1}
		c.sendLocked(ownCall(wire.OpMulti, "vouch", path, &wire.MultiRequest{Ops: []wire.MultiOp{check}}), now)
	} else {
		c.sendLocked(ownCall(wire.OpSync, "sync", "/", &wire.PathRecord{Path: "/"}), now)
	}
	return interval
}

// rhythmLocked returns how much the next heartbeat has to prove, with which path, and how long after the last one of
// its kind it is due.
func (c *conn) rhythmLocked() (level Vouch, path string, interval time.Duration) {
	level, path, wanted := c.s.mu.demand.strongest()
	interval = c.timeout / idleBeats
	if wanted {
		interval = c.timeout / vouchBeats
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

// greetingLocked returns what goes ahead of everything else on a new connection: the credentials, then the watches that
// were armed on the last one.
//
// A server takes a session that has seen no newer transaction than it has itself, and learns that from the handshake. It does
// not learn there what the session has seen in an event only. An event is not counted in lastZxid, because several events
// belong to one transaction and the connection may break between them. So a sync comes first after an event that no answer
// has followed: without it, reads on a server that lags would be older than what the event told.
func (c *conn) greetingLocked() []*call {
	var calls []*call
	for _, a := range c.s.mu.auth {
		calls = append(calls, greet(a))
	}
	if c.s.mu.ahead {
		calls = append(calls, ownCall(wire.OpSync, "sync", "/", &wire.PathRecord{Path: "/"}))
	}
	return append(calls, c.s.watches.rearm(c.number, c.s.mu.lastZxid, c.s.opt.WatchBytesMax)...)
}

// greet returns the request that shows a credential.
func greet(a Auth) *call {
	return ownCall(wire.OpAuth, "auth", a.Scheme, &wire.AuthRequest{Scheme: a.Scheme, Auth: a.Credential})
}

// refusedWatches reports whether k is a registration of watches that failed. A caller that waits for them
// would be blind, so the connection is not worth keeping.
func refusedWatches(k *call, code zk.Code) bool {
	return (k.op == wire.OpSetWatches || k.op == wire.OpSetWatches2) && code != zk.OK
}
