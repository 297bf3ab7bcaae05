package client

import "time"

// A reading is who reads a connection. One goroutine does at a time: the connection's reader, or a caller who waits for
// an answer or an event and finds nobody at it (attend). He takes what comes, also for others, until what he waits for
// has come. So where one goroutine does one request after the other, nobody has to be woken but himself. To wake a
// second goroutine costs more than all else that the client does: Go wakes a thread to run it, most often on
// another processor, which the server may need at that moment.
//
// For that the reader rests once it has seen that callers are alone. It reads again as soon as somebody depends on it
// (Session.dependLocked), and when nobody has come for a while.
type reading struct {
	call chan struct{} // for the reader while it rests: look again; one token is enough

	// Guarded by Session.mu.
	who         reader
	turn        uint64 // how often a caller has begun to read
	interrupted bool   // the caller who reads shall stop
	err         error  // of a caller who read: the connection is over

	// What the reader goes by.
	served bool   // what somebody depended on has come while it read
	alone  int    // how often in a row nothing else was on its way then
	called bool   // it shall read although nobody depends on it
	seen   uint64 // the turn at the last tick of its rest
	same   int    // ticks in a row since the same caller reads
}

type reader uint8

const (
	theReader reader = iota // of the connection
	aCaller
	nobody
)

const (
	aloneMin   = 4                     // answers in a row after which the reader rests
	restTick   = 20 * time.Millisecond // how often it looks then whether callers still come
	sleepTicks = 5                     // after so many, if the same caller reads, it looks no more until he leaves
)

func newReading() reading { return reading{call: make(chan struct{}, 1)} }

// restsNow reports whether the reader, which has read, may leave the reading to callers, and if so leaves it to them.
// busy says that somebody depends on it, or something is on its way.
func (r *reading) restsNow(busy bool) bool {
	if !r.served {
		return false
	}
	r.served = false
	if busy {
		r.alone = 0
		return false
	}
	if r.alone++; r.alone < aloneMin {
		return false
	}
	r.who, r.same = nobody, 0
	return true
}

// readsNow reports whether the reader, which rests, is to read again, and if so lets it: because it was called, or
// somebody depends on it, or nobody has come since the last tick.
func (r *reading) readsNow(ticked, depended bool) bool {
	quiet := ticked && r.turn == r.seen
	if ticked {
		r.seen = r.turn
	}
	wanted := r.called || depended
	switch {
	case r.who == aCaller && quiet:
		r.same++
	case r.who == nobody && (wanted || quiet):
		r.who, r.called, r.alone = theReader, false, 0
		if !wanted {
			r.alone = aloneMin - 1
		}
		return true
	case r.who == nobody || ticked:
		r.same = 0
	}
	return false
}

// asleep reports whether the reader does not look by itself any more.
func (r *reading) asleep() bool { return r.same >= sleepTicks }
