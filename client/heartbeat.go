package client

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An idle session sends a ping every third of its timeout, which keeps it alive and lets a dead
// connection show within two thirds. While somebody asks for vouching it is every sixth, and what is
// sent proves as much as was asked for.
const (
	idleBeats  = 3
	vouchBeats = 6
)

// heartbeat puts a heartbeat into the write buffer if one is due, and returns how long it is until the
// next.
func (c *conn) heartbeat() time.Duration {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	level, path, wanted := s.mu.demand.strongest()
	interval := c.timeout / idleBeats
	if wanted {
		interval = c.timeout / vouchBeats
	}
	interval = max(interval, time.Millisecond)
	if wait := interval - time.Since(c.lastBeat[level.strength()]); wait > 0 || s.mu.over != nil {
		return max(wait, time.Millisecond)
	}
	s.mu.stats.Heartbeats++
	now := s.opt.clock.Now()
	c.noteBeatLocked(level.proof(), now)
	if level == VouchPing {
		buf, start := wire.BeginFrame(c.out)
		c.out = wire.EndFrame((&wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}).AppendTo(buf), start)
		c.pings = append(c.pings, now)
		s.mu.stats.Requests++
		return interval
	}
	if level == VouchWrite {
		check := wire.MultiOp{Op: wire.OpCheck, Path: path, Version: -1}
		c.sendLocked(ownCall(wire.OpMulti, "vouch", path, &wire.MultiRequest{Ops: []wire.MultiOp{check}}), now)
	} else {
		c.sendLocked(ownCall(wire.OpSync, "sync", "/", &wire.PathRecord{Path: "/"}), now)
	}
	return interval
}

// greetingLocked returns what goes ahead of everything else on a new connection: the credentials, then
// the watches that were armed on the last one.
func (c *conn) greetingLocked() []*call {
	var calls []*call
	for _, a := range c.s.mu.auth {
		calls = append(calls, greet(a))
	}
	return append(calls, c.s.watches.rearm(c.number, c.s.mu.lastZxid, c.s.opt.WatchBytesMax)...)
}

// greet returns the request that shows a credential.
func greet(a Auth) *call {
	return ownCall(wire.OpAuth, "auth", a.Scheme, &wire.AuthRequest{Scheme: a.Scheme, Auth: a.Credential})
}

// refusedWatches reports whether k is a registration of watches that failed. Whoever waits for them
// would be blind, so the connection is not worth keeping.
func refusedWatches(k *call, code zk.Code) bool {
	return (k.op == wire.OpSetWatches || k.op == wire.OpSetWatches2) && code != zk.OK
}
