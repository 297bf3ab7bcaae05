package client

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/socket"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A writeTurn decides which goroutine writes a connection, as a readTurn does for reading. One does at a time: the connection's
// writer, or a caller. The writer sends what callers have queued, as much at once as has gathered. A caller whose requests find nothing
// queued and nothing on its way sends them itself (inline): nothing could gather, and waking the writer takes longer than sending.
type writeTurn struct {
	buf []byte // owned by the goroutine that has set busy

	// Guarded by Session.mu.
	busy   bool          // a goroutine sends
	err    error         // of a write: the connection is over
	inline uint64        // how often a caller has sent
	look   clock.Instant // when the writer is going to look again, unless it is woken
}

const (
	outBytesMax   = 1 << 20 // are written at once: pipelines beyond it come next
	aloneBytesMax = 4 << 10 // a caller writes inline: the kernel has room for so much, if all that was sent before has been answered
)

// sendAloneLocked sends calls that have just been queued, if there is nothing else and the write cannot block: the caller's
// context could not end it. Otherwise it reports false. It releases s.mu while it writes.
func (s *Session) sendAloneLocked(calls []*call) bool {
	c := s.mu.conn
	if c == nil || !c.kernel || c.out.busy || c.out.err != nil || len(s.mu.queue) > len(calls) || !c.quietLocked() {
		return false
	}
	bytes := 0
	for _, k := range calls {
		bytes += len(k.frame)
	}
	if bytes > aloneBytesMax {
		return false
	}
	c.out.inline++
	c.takeQueueLocked(s.opt.clock.Now())
	c.writeLocked(true)
	if c.out.err != nil || len(s.mu.queue) > 0 {
		tell(s.wake)
	}
	return true
}

// quietLocked reports whether everything that was sent has been answered, but for pings.
func (c *conn) quietLocked() bool {
	return !slices.ContainsFunc(c.sent, func(k *call) bool { return k.op != wire.OpPing })
}

// writeLoop sends what is queued, all of it in one write, and heartbeats when they are due.
func (c *conn) writeLoop(ctx context.Context) error {
	timer := time.NewTimer(c.timeout)
	defer timer.Stop()
	for {
		wait, err := c.sendDue()
		if err != nil {
			return err
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.s.wake:
		case <-timer.C:
		}
	}
}

// sendDue sends what is queued, and a heartbeat if one is due. It returns how long to wait before the next look.
func (c *conn) sendDue() (wait time.Duration, err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if c.out.err != nil {
			return 0, c.out.err
		}
		if c.out.busy {
			return time.Millisecond, nil // a caller sends, which takes microseconds; it wakes the writer if more is queued by then
		}
		now := s.opt.clock.Now()
		wait = c.heartbeatLocked(now) // also if something is queued: something always is where writes take longer than answers
		c.takeQueueLocked(now)
		if len(c.out.buf) == 0 {
			c.out.look = now.Add(wait)
			return wait, nil
		}
		c.writeLocked(false)
	}
}

// An idle session sends a ping every third of its timeout, which keeps it alive and lets a dead connection show within two thirds.
// While vouching is asked for it is every lease.Beat, and what is sent proves as much as was asked for.
const idleBeats = 3

// heartbeatLocked queues a heartbeat if one is due, and returns how long to wait before the next look: until the next one, but no
// longer than a glance, because a timer stands still while the machine is suspended.
func (c *conn) heartbeatLocked(now clock.Instant) time.Duration {
	s := c.s
	proves, interval := c.rhythmLocked()
	if wait := interval - now.Sub(c.lastBeat[proves]); wait > 0 || s.mu.over != nil {
		return max(min(wait, lease.Glance(c.timeout)), time.Millisecond)
	}
	s.mu.stats.Heartbeats++
	c.noteBeatLocked(proves, now)
	var beat *call
	switch proves {
	case provesPing:
		beat = ownCall(wire.OpPing, "ping", "", nil)
	case provesWrite:
		beat = ownCall(wire.OpMulti, "vouch", "/", noChange)
	default:
		beat = ownCall(wire.OpSync, "sync", "/", &wire.PathRecord{Path: "/"})
	}
	s.mu.queue = append(s.mu.queue, beat)
	return min(interval, lease.Glance(c.timeout))
}

// rhythmLocked returns how much the next heartbeat has to prove, and how long after the last one of its kind it is due.
func (c *conn) rhythmLocked() (proves strength, interval time.Duration) {
	proves, interval = provesPing, c.timeout/idleBeats
	for p, demands := range c.s.mu.demand {
		if demands > 0 {
			proves, interval = strength(p), lease.Beat(c.timeout)
		}
	}
	return proves, max(interval, time.Millisecond)
}

// noteBeatLocked records a request sent then as a heartbeat that proves p, and what is weaker.
func (c *conn) noteBeatLocked(p strength, sent clock.Instant) {
	for i := range c.lastBeat[:p+1] {
		if sent.After(c.lastBeat[i]) {
			c.lastBeat[i] = sent
		}
	}
}

// takeQueueLocked moves what is queued into the write buffer and among what is in flight.
func (c *conn) takeQueueLocked(now clock.Instant) {
	s, n := c.s, 0
	for _, k := range s.mu.queue {
		if len(c.out.buf) > outBytesMax && !k.joined { // or the rest could leave on another connection
			break
		}
		n++
		c.sendLocked(k, now)
	}
	s.mu.queue = slices.Delete(s.mu.queue, 0, n)
}

// sendLocked puts k into the write buffer.
func (c *conn) sendLocked(k *call, now clock.Instant) {
	switch k.op {
	case wire.OpAuth:
		k.xid = wire.XidAuth
	case wire.OpSetWatches, wire.OpSetWatches2:
		k.xid = wire.XidSetWatches
	case wire.OpPing:
		k.xid = wire.XidPing
	default:
		// The count goes on from connection to connection: servers of an ensemble find the request of a commit by session and xid,
		// so one with the xid of a request that is still on its way from the old connection could be given the other's answer.
		c.s.mu.xid = max(c.s.mu.xid+1, 1) // it wraps, and the special xids are negative
		k.xid = c.s.mu.xid
	}
	binary.BigEndian.PutUint32(k.frame[xidOffset:], uint32(k.xid))
	c.out.buf = append(c.out.buf, k.frame...)
	k.frame, k.sent = nil, now
	if k.own { // no caller waits for the answer, and so none reads it
		k.s = c.s
		k.observeLocked()
	}
	c.sent = append(c.sent, k)
	c.s.mu.stats.Requests++
}

// writeLocked writes the buffer, in one call unless a pipeline of megabytes is in it, and releases s.mu meanwhile. A server that
// does not take a piece of it within the time for which it may be silent is given up. A caller's few bytes (alone) need no deadline.
func (c *conn) writeLocked(alone bool) {
	c.out.busy = true
	for piece := range slices.Chunk(c.out.buf, 2*outBytesMax) {
		c.s.mu.stats.Writes++ // before it, so that a caller with an answer finds the write counted
		c.s.mu.Unlock()
		if !alone {
			c.nc.SetWriteDeadline(time.Now().Add(c.in.patience))
		}
		_, err := c.rw.Write(piece)
		if !alone {
			c.nc.SetWriteDeadline(time.Time{})
		}
		c.s.mu.Lock()
		if err != nil {
			c.out.err = fmt.Errorf("write to %v: %w", c.server, socket.WithoutAddress(err))
			break
		}
	}
	if cap(c.out.buf) > 2*outBytesMax {
		c.out.buf = nil
	}
	c.out.buf, c.out.busy = c.out.buf[:0], false
}
