package client

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A call is one request on its way. It is completed exactly once: by its answer, by the end of the
// connection it was sent on, by the end of the session, or by being withdrawn before it was sent.
type call struct {
	// Fixed when the call is made.
	op    wire.Op
	name  string // of the operation, for errors
	path  string // as the caller named it
	frame []byte // the request with its length, room for the xid at xidOffset; nil once it has been sent

	// decode takes the response, on the goroutine that reads the connection, before any later message is looked at. Session.mu is not
	// held: a long listing takes a while, and would hold up the ends of holds. What cannot be read is the error of d; what the
	// response says has failed is the one returned. Nil if there is nothing to decode.
	decode func(d *wire.Decoder) error

	arm    *Watch // the watch that the request registers, if any
	writes bool   // it may change something, so that a lost answer leaves a doubt
	own    bool   // the session's own: no caller waits for it, and it does not count against InFlightMax
	joined bool   // leaves with the one before it in its pipeline
	refuse error  // why it must not be sent; nil if it may

	// Guarded by Session.mu.
	signal // given when the call is completed
	xid    int32
	sent   clock.Instant

	// Written before the call is completed, read after.
	err error // a *OpError
}

// xidOffset is where a request's xid stands in its frame.
const xidOffset = 4

func newCall(op wire.Op, name, path string, req wire.Record) call {
	buf, start := wire.BeginFrame(make([]byte, 0, 256)) // room for most requests
	buf = (&wire.RequestHeader{Op: op}).AppendTo(buf)
	if req != nil {
		buf = req.AppendTo(buf)
	}
	return call{op: op, name: name, path: path, frame: wire.EndFrame(buf, start), writes: provenBy(op) == provesWrite}
}

// ownCall makes a request of the session's own.
func ownCall(op wire.Op, name, path string, req wire.Record) *call {
	k := newCall(op, name, path, req)
	k.own = true
	return &k
}

// A Pending is a request that has been added to a Pipeline, and whose outcome may not be known yet.
type Pending[T any] struct {
	call
	value T
}

// Done is closed when the outcome is known. From the first call on, another goroutine has to read the answer; a caller that does
// nothing else meanwhile spends less time with Wait, which reads it.
func (p *Pending[T]) Done() <-chan struct{} { return p.observe() }

// Wait returns the outcome as soon as it is known. If ctx ends first, that depends on how far the request has come:
//
//   - not handed over yet by Pipeline.Send: it still can be;
//   - handed over, not sent: it is withdrawn, with all others of its pipeline, and they do nothing;
//   - sent: it goes on, and a later Wait can learn what became of it. Of a write, MaybeApplied is true of the error.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	if ctx.Err() == nil {
		p.s.readInline(ctx, func() bool { return p.over })
	}
	var none T
	if done := p.observe(); done != given { // otherwise ctx.Done would set a timer for nothing (ending.Within)
		select {
		case <-done:
		case <-ctx.Done():
			why := p.s.cutOff(ending.Of(ctx))
			if !p.s.withdraw(&p.call, why) {
				return none, &OpError{Op: p.name, Path: p.path, Err: why, Maybe: p.writes}
			}
		}
	}
	if p.err != nil {
		return none, p.err
	}
	return p.value, nil
}

// failLocked completes c without an answer.
func (s *Session) failLocked(c *call, err error) {
	if c.arm != nil {
		s.watches.noteOutcome(c, zk.ErrConnectionLoss)
	}
	c.err = &OpError{Op: c.name, Path: c.path, Err: err, Maybe: c.writes && c.frame == nil}
	s.completeLocked(c)
	if s.mu.conn != nil {
		s.mu.conn.interruptLocked() // the reading goroutine may be waiting for c, which will get no answer
	}
}

// failAllLocked completes what is queued, or what has been sent, without answers.
func (s *Session) failAllLocked(calls *[]*call, err error) {
	for _, c := range *calls {
		s.failLocked(c, err)
	}
	*calls = nil
}

func (s *Session) completeLocked(c *call) {
	c.frame = nil
	if !c.own {
		s.mu.inFlight--
		s.wakeNextLocked()
	}
	c.giveLocked()
}

// withdraw completes c, and the others of its pipeline, if they are queued and not sent. It reports whether c is completed.
func (s *Session) withdraw(c *call, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := slices.Index(s.mu.queue, c); first >= 0 {
		end := first + 1
		for s.mu.queue[first].joined {
			first--
		}
		for end < len(s.mu.queue) && s.mu.queue[end].joined {
			end++
		}
		pipeline := slices.Clone(s.mu.queue[first:end])
		s.mu.queue = slices.Delete(s.mu.queue, first, end) // or it would grow for as long as there is no server
		s.failAllLocked(&pipeline, cause)
	}
	return c.over
}
