package server

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/measure"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// Stats describes a server at one moment. What is counted is counted since the start or the
// last ResetStats.
type Stats struct {
	Zxid        int64 // of the last transaction
	Znodes      int   // as the word srvr counts them: the root twice
	Ephemerals  int
	DataBytes   int64 // of all data and all paths, as mntr counts them: the root, again, is "" and "/"
	Watches     int
	Sessions    int
	Connections int
	Outstanding int           // requests not yet answered
	Received    int64         // requests, connect requests and four-letter words included
	Sent        int64         // answers and events
	Latency     Latency       // of all answers but those to pings
	SlowSyncs   int64         // of the transaction log, that took Options.SlowSync or longer
	Uptime      time.Duration // since Open
	IdleSince   time.Time     // when the last connection ended; zero while there is one
}

// Latency sums up how long answers took, in milliseconds, as the word srvr does: the mean is
// rounded to four places, the others are cut off.
type Latency struct {
	Min, Max int64
	Mean     float64
}

// Stats says how the server is doing.
func (s *Server) Stats() Stats {
	st := Stats{
		Received: s.counters.received.Load(), Sent: s.counters.sent.Load(),
		Latency: s.counters.latency(s.now()), SlowSyncs: s.counters.slowSyncs.Load(), Uptime: s.now(),
	}
	s.state.RLock()
	st.Zxid, st.Znodes, st.Ephemerals = s.tree.LastZxid(), s.tree.Count()+1, s.tree.EphemeralCount()
	st.DataBytes = s.tree.DataBytes() + int64(len("/"))
	s.watchMu.Lock()
	st.Watches = s.watches.Count()
	s.watchMu.Unlock()
	s.state.RUnlock()
	s.sessions.Lock()
	st.Sessions = s.sessions.table.Len()
	s.sessions.Unlock()
	s.conns.Lock()
	defer s.conns.Unlock()
	st.Connections, st.IdleSince = len(s.conns.byID), s.conns.idleSince
	for _, c := range s.conns.byID {
		st.Outstanding += int(c.out.pending.Load())
	}
	return st
}

// ResetStats makes all counts and all that is known about times begin anew, as the word srst does.
// What is there at the moment, like znodes or connections, is not counted but looked at.
func (s *Server) ResetStats() {
	k := &s.counters
	for _, n := range []*atomic.Int64{&k.received, &k.sent, &k.connects, &k.rejected, &k.expired, &k.slowSyncs} {
		n.Store(0)
	}
	for _, d := range []*measure.Distribution{&k.reads, &k.updates, &k.syncs, &k.batches, &k.snapshots} {
		d.Reset()
	}
}

// counters count what the whole server does. Times are in nanoseconds.
type counters struct {
	received, sent     atomic.Int64
	reads, updates     measure.Distribution // times from a request to its answer
	connects, rejected atomic.Int64         // connect requests; connections hung up on because there were too many
	expired            atomic.Int64         // sessions

	syncs     measure.Distribution // times
	batches   measure.Distribution // requests that shared a sync
	snapshots measure.Distribution // times
	slowSyncs atomic.Int64         // that took Options.SlowSync or longer
}

// latency is that of reads and updates together.
func (k *counters) latency(now time.Duration) Latency {
	reads, updates := k.reads.Summary(now), k.updates.Summary(now)
	all := latencySum{n: reads.Count + updates.Count, sum: reads.Sum + updates.Sum, least: reads.Min, max: max(reads.Max, updates.Max)}
	if reads.Count == 0 || updates.Count > 0 && updates.Min < reads.Min {
		all.least = updates.Min
	}
	return all.millis()
}

// connCounters count what one connection does.
type connCounters struct {
	received, sent atomic.Int64
	n, sum, max    atomic.Int64 // latencies, in nanoseconds
	least          atomic.Int64 // nanoseconds plus one; 0 is none yet
	last           struct {     // answer
		op, xid        atomic.Int32
		zxid, at, took atomic.Int64 // at is on the server's clock; both times in nanoseconds
	}
}

// reset makes the counters as they are before the first answer.
func (k *connCounters) reset() {
	for _, n := range []*atomic.Int64{&k.received, &k.sent, &k.n, &k.sum, &k.max, &k.least, &k.last.at, &k.last.took} {
		n.Store(0)
	}
	k.last.op.Store(0)
	k.last.xid.Store(-1)
	k.last.zxid.Store(-1)
}

func (k *connCounters) latency() Latency {
	all := latencySum{n: k.n.Load(), sum: k.sum.Load(), least: max(k.least.Load()-1, 0), max: k.max.Load()}
	return all.millis()
}

// countAnswer counts an answer, sent at now, and notes how long it took.
func (c *conn) countAnswer(h wire.RequestHeader, zxid int64, received, now time.Duration) {
	c.s.counters.sent.Add(1)
	c.counters.sent.Add(1)
	c.took(h, zxid, received, now)
}

// took notes how long an answer that has been counted took.
func (c *conn) took(h wire.RequestHeader, zxid int64, received, now time.Duration) {
	took := max(int64(now-received), 0)
	k := &c.counters
	k.last.op.Store(int32(h.Op))
	k.last.xid.Store(h.Xid)
	k.last.zxid.Store(zxid)
	k.last.at.Store(int64(now))
	k.last.took.Store(took)
	switch {
	case h.Op == wire.OpPing: // which would make every mean look good
		return
	case isWrite(h.Op) || h.Op == wire.OpCreateSession:
		c.s.counters.updates.Add(took)
	default:
		c.s.counters.reads.Add(took)
	}
	k.n.Add(1)
	k.sum.Add(took)
	// Only the goroutine that has the connection's turn comes here, but the counters may be reset meanwhile.
	k.max.Store(max(k.max.Load(), took))
	if least := k.least.Load(); least == 0 || took+1 < least {
		k.least.Store(took + 1)
	}
}

// latencySum are times in nanoseconds.
type latencySum struct{ n, sum, least, max int64 }

func (a latencySum) millis() Latency {
	const ms = int64(time.Millisecond)
	l := Latency{Min: a.least / ms, Max: a.max / ms}
	if a.n > 0 {
		l.Mean = roundMean(float64(a.sum) / float64(a.n) / float64(ms))
	}
	return l
}

// roundMean rounds to the four places that ZooKeeper shows.
func roundMean(mean float64) float64 { return math.Round(mean*1e4) / 1e4 }
