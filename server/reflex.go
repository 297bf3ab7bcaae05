package server

import (
	"sync/atomic"
	"time"
)

// Who waits for a lock is told of its turn by an event. If it needs the lock for a blink only, the next that comes of it
// is a write, which gives the lock back; and with it comes another of whoever had the lock before and joins the line
// again. Each on its own they would be two syncs for one hand-over, and the write that others wait for would wait for
// the sync of the one that nobody does. So what has gathered waits for a connection that has just been told
// of an event, and that has lately always written at once when it was.

const (
	// reflexStreak is how many times in a row a connection must have written at once before
	// anything waits for it: who does so only at times is not worth waiting for.
	reflexStreak = 8
	// A write is at once if it comes within as many syncs as this, but never later than reflexMax: a
	// write of somebody else that waits for it may be the one that matters.
	reflexSyncs = 3
	reflexMax   = time.Millisecond
)

// A reflex is a connection's habit of writing when it has been told of an event. Whoever commits tells
// it, and the connection's reader writes. The times are on the server's clock.
type reflex struct {
	told   atomic.Int64 // when; 0 if it has written since
	streak atomic.Int32 // how many times in a row it has written at once, up to reflexStreak
}

// tell notes that the connection is told of something at now, and reports whether it is going to write at
// once. Several events of one moment are one.
func (x *reflex) tell(now time.Duration) bool {
	if before := x.told.Swap(int64(now)); before != 0 && before != int64(now) {
		x.streak.Store(0)
	}
	return x.streak.Load() == reflexStreak
}

// write notes that it writes at now; within is what counts as at once.
func (x *reflex) write(now, within time.Duration) {
	switch told := x.told.Swap(0); {
	case told == 0:
	case now-time.Duration(told) > within:
		x.streak.Store(0)
	case x.streak.Load() < reflexStreak:
		x.streak.Add(1)
	}
}

// A pulse is how long syncs have taken lately, each counting for an eighth.
type pulse struct{ mean atomic.Int64 }

func (p *pulse) note(took time.Duration) { p.mean.Store((7*p.mean.Load() + int64(took)) / 8) }

// atOnce returns how late a write may come that is at once.
func (p *pulse) atOnce() time.Duration {
	return min(reflexSyncs*time.Duration(p.mean.Load()), reflexMax)
}
