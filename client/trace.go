package client

import "sync/atomic"

// A Trace is told what a session does. Every function may be nil. They run on a goroutine of their
// own, in order, so they may block and may use the session; while one blocks, up to 256
// calls wait, and further ones are dropped (Stats.TraceDropped counts them). What must not be
// missed is in Session.State. The last of them may run after Close has returned.
type Trace struct {
	State   func(State)                    // the state has changed
	Attempt func(server string, err error) // an attempt to connect ended; nil: a session is established
}

// traceQueueMax is how many calls of trace functions may wait behind one that blocks.
const traceQueueMax = 256

// Stats count what a session has done since it was opened.
type Stats struct {
	Requests     uint64 // sent, heartbeats included
	Heartbeats   uint64 // of these, sent only to keep or prove the session
	Writes       uint64 // writes to connections; several requests may share one
	Replies      uint64
	Events       uint64 // of watches
	Connections  uint64 // established
	TraceDropped uint64
}

// A tracer runs the functions of a Trace outside the goroutines that keep the session alive.
type tracer struct {
	trace   Trace
	queue   chan func()
	dropped atomic.Uint64
}

// newTracer starts the goroutine, if it is needed. No call waits for its end, because what it runs is the
// user's, and may itself be waiting for Close.
func newTracer(t Trace) *tracer {
	tr := &tracer{trace: t}
	if t.State != nil || t.Attempt != nil {
		tr.queue = make(chan func(), traceQueueMax)
		go func() {
			for f := range tr.queue {
				f()
			}
		}()
	}
	return tr
}

func (t *tracer) put(f func()) {
	select {
	case t.queue <- f:
	default:
		t.dropped.Add(1)
	}
}

func (t *tracer) state(st State) {
	if t.trace.State != nil {
		t.put(func() { t.trace.State(st) })
	}
}

func (t *tracer) attempt(server string, err error) {
	if t.trace.Attempt != nil {
		t.put(func() { t.trace.Attempt(server, err) })
	}
}

// stop ends the goroutine once it has run what was queued. Nothing may be put afterwards.
func (t *tracer) stop() {
	if t.queue != nil {
		close(t.queue)
	}
}
