package client

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A call is one request on its way. It is completed exactly once: by its answer, by the end of the
// connection it was sent on, by the end of the session, or by being withdrawn before it was sent.
type call struct {
	// Fixed when the call is made.
	op     wire.Op
	name   string // of the operation, for errors
	path   string // as the caller named it
	write  bool   // changes something, so that a lost answer leaves a doubt
	frame  []byte // the request with its length, room for the xid at xidOffset
	proves proof  // what its answer proves of the session
	answer answer // decodes the response; nil if there is nothing to decode
	arm    *Watch // the watch that the request registers, if any
	own    bool   // the session's own: no caller waits for it, and it does not count against InFlightMax
	joined bool   // leaves with the one before it in its pipeline
	refuse error  // why it must not be sent; nil if it may

	// Guarded by Session.mu.
	stage      stage
	next       *call // in the line of those that have been sent
	xid        int32
	sent       clock.Instant
	dependents int             // how many goroutines wait for it and do not read
	observed   bool            // the caller of Done is one of them
	done       chan struct{}   // closed when the call is completed; nil until it is needed
	told       chan<- struct{} // gets a token when the call is completed; may be nil

	// Written before the call is completed, read after.
	err  error // a *OpError
	conn uint64
}

// xidOffset is where a request's xid stands in its frame.
const xidOffset = 4

// A stage is how far a call has come.
type stage uint8

const (
	unsent stage = iota // not handed over yet
	queued
	inFlight
	completed
)

// An answer takes the response to a call, on the goroutine that reads the connection, before any later message is looked
// at, with Session.mu held. What the decoder cannot read is the decoder's error; what the response says has failed is the
// one returned.
type answer interface {
	decode(s *Session, d *wire.Decoder) error
}

// ownCall makes a request of the session's own.
func ownCall(op wire.Op, name, path string, req wire.Record) *call {
	k := &call{op: op, name: name, path: path, write: writes(op), proves: provenBy(op), own: true, stage: queued}
	k.encode(req)
	return k
}

// encode makes the frame of the request.
func (c *call) encode(r wire.Record) {
	buf, start := wire.BeginFrame(make([]byte, 0, frameSizeHint(c.path)))
	buf = (&wire.RequestHeader{Op: c.op}).AppendTo(buf)
	if r != nil {
		buf = r.AppendTo(buf)
	}
	c.frame = wire.EndFrame(buf, start)
}

func frameSizeHint(path string) int { return 96 + len(path) }

// A Pending is a request that has been added to a Pipeline, and whose outcome may not be known yet.
type Pending[T any] struct {
	call
	s     *Session
	value T
	read  func(*Session, *wire.Decoder, *T) error
}

// Done is closed when the outcome is known. From the first call on, another goroutine has to read the answer; a caller that does
// nothing else meanwhile spends less time with Wait, which reads it.
func (p *Pending[T]) Done() <-chan struct{} {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.observeLocked(p.s)
	return p.doneLocked()
}

func (c *call) observeLocked(s *Session) {
	if !c.observed {
		c.observed = true
		c.dependLocked(s, 1)
	}
}

func (c *call) doneLocked() <-chan struct{} {
	if c.done == nil {
		c.done = make(chan struct{})
		if c.stage == completed {
			close(c.done)
		}
	}
	return c.done
}

// dependLocked notes that one more goroutine, or one fewer, waits for c and does not read.
func (c *call) dependLocked(s *Session, n int) {
	if c.stage != completed {
		c.dependents += n
		s.addDependentsLocked(n)
	}
}

// await waits until c is completed, and reports false if ctx ends first. The goroutine does not read meanwhile.
func (s *Session) await(ctx context.Context, c *call) bool {
	s.mu.Lock()
	if c.stage == completed {
		s.mu.Unlock()
		return true
	}
	c.dependLocked(s, 1)
	done := c.doneLocked()
	s.mu.Unlock()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.dependLocked(s, -1)
	return false
}

// Wait returns the outcome as soon as it is known. If ctx ends first, that depends on how far the request has come:
//
//   - not handed over yet by Pipeline.Send: it still can be;
//   - handed over, not sent: it is withdrawn and does nothing;
//   - sent: it goes on, and a later Wait can learn what became of it. Of a write, MaybeApplied is true of the error.
func (p *Pending[T]) Wait(ctx context.Context) (T, error) {
	if ctx.Err() == nil {
		p.s.readInline(ctx, func() bool { return p.stage == completed })
	}
	var none T
	if !p.s.await(ctx, &p.call) {
		why := p.s.endOf(ctx)
		if !p.s.withdraw(&p.call, why) {
			return none, &OpError{Op: p.name, Path: p.path, Err: why, Maybe: p.write}
		}
	}
	if p.err != nil {
		return none, p.err
	}
	return p.value, nil
}

func (p *Pending[T]) decode(s *Session, d *wire.Decoder) error {
	if p.read == nil {
		return nil
	}
	return p.read(s, d, &p.value)
}

// failLocked completes c without an answer.
func (s *Session) failLocked(c *call, err error, maybe bool) {
	if c.stage == completed {
		return
	}
	if c.arm != nil {
		s.watches.settle(c.arm, 0, zk.OK, false)
	}
	c.err = &OpError{Op: c.name, Path: c.path, Err: err, Maybe: maybe && c.write}
	s.completeLocked(c)
	if s.mu.conn != nil {
		s.mu.conn.interruptLocked() // the reading goroutine may be waiting for c, which will get no answer
	}
}

func (s *Session) completeLocked(c *call) {
	c.stage = completed
	if c.dependents > 0 {
		s.addDependentsLocked(-c.dependents)
		if s.mu.conn != nil {
			s.mu.conn.turn.served = true
		}
	}
	c.frame = nil
	if !c.own {
		s.mu.inFlight--
		s.wakeNextLocked()
	}
	if c.done != nil {
		close(c.done)
	}
	tell(c.told)
}

// withdraw completes c if it has been handed over and not been sent. It reports whether c is completed.
func (s *Session) withdraw(c *call, cause error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.stage == queued {
		s.failLocked(c, cause, false)
		if i := slices.Index(s.mu.queue, c); i >= 0 { // or the queue would grow for as long as there is no server
			s.mu.queue = slices.Delete(s.mu.queue, i, i+1)
		}
	}
	return c.stage == completed
}

// tell puts a token into told, if that is not nil and there is none in it.
func tell(told chan<- struct{}) {
	select {
	case told <- struct{}{}:
	default:
	}
}

// A fifo is a line of calls, each of which is in one line at most.
type fifo struct{ oldest, newest *call }

func (f *fifo) push(k *call) {
	if f.oldest == nil {
		f.oldest = k
	} else {
		f.newest.next = k
	}
	f.newest = k
}

// pop takes the oldest call out of the line, nil if there is none.
func (f *fifo) pop() *call {
	k := f.oldest
	if k != nil {
		f.oldest, k.next = k.next, nil
	}
	return k
}
