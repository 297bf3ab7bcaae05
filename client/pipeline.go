package client

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Pipeline collects requests that are to leave together: on one connection, in one write unless they take
// megabytes, in the order in which they were added, with no other request of the session between them. Nothing
// happens before Send. A Pipeline is used by one goroutine, once.
type Pipeline struct {
	s     *Session
	calls []*call
}

// Pipeline returns an empty pipeline.
func (s *Session) Pipeline() *Pipeline { return &Pipeline{s: s} }

// Send hands the requests over. It waits while the session has no room for them (InFlightMax), in turn with other callers
// that wait for room, at most until ctx ends. It returns no error: what became of each request, its Pending says,
// also if it could not be handed over. Sending again hands over nothing twice.
func (p *Pipeline) Send(ctx context.Context) {
	s, calls := p.s, p.calls
	p.calls = nil
	if len(calls) == 0 {
		return
	}
	ended := ctx.Err() != nil // before the mutex is locked, since a nil context panics
	s.mu.Lock()
	reason := s.refusalLocked(calls)
	switch {
	case reason != nil:
	case ended:
		reason = s.endOfLocked(ctx)
	case len(s.mu.line) > 0 || !s.roomLocked(len(calls)):
		reason = s.waitForRoomLocked(ctx, calls)
	}
	s.mu.inFlight += len(calls)
	for _, c := range calls {
		if c.arm != nil {
			s.watches.expect(c.arm)
		}
		if reason != nil {
			s.failLocked(c, reason, false)
		} else {
			s.mu.queue = append(s.mu.queue, c)
		}
	}
	sent := reason != nil || s.sendAloneLocked(calls)
	s.mu.Unlock()
	if !sent {
		tell(s.wake)
	}
}

// check notes the error if path is not valid: below a chroot, such a string could name a znode outside. The name
// of a sequential znode ends with what the server appends.
func (c *call) check(path string, mode zk.Mode) {
	if mode.Sequential() {
		path += "0"
	}
	if c.refuse == nil {
		c.refuse = zk.ValidatePath(path)
	}
}

// add makes a call and returns its Pending. Every kind of request comes through here.
func add[T any](p *Pipeline, name string, op wire.Op, path string, req wire.Record, read func(*Session, *wire.Decoder, *T) error) *Pending[T] {
	k := &Pending[T]{call: newCall(op, name, path, req)}
	k.s = p.s
	if read != nil {
		k.decode = func(d *wire.Decoder) error { return read(k.s, d, &k.value) }
	}
	switch op {
	case wire.OpAuth, wire.OpWhoAmI: // have none
	case wire.OpMulti, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL: // look at theirs themselves
	default:
		k.check(path, zk.Persistent)
	}
	k.joined = len(p.calls) > 0
	p.calls = append(p.calls, &k.call)
	return k
}

// roomLocked reports whether there is room for n more calls. More than InFlightMax at once go alone.
func (s *Session) roomLocked(n int) bool {
	return s.mu.inFlight == 0 || s.mu.inFlight+n <= s.opt.InFlightMax
}

// waitForRoomLocked returns nil once there is room for the calls and it is their turn. Otherwise it returns why they cannot be taken.
// Without turns, pipelines would wait for ever while enough single requests come.
func (s *Session) waitForRoomLocked(ctx context.Context, calls []*call) (reason error) {
	turn := make(chan struct{}, 1)
	s.mu.line = append(s.mu.line, turn)
	s.addDependentsLocked(1) // the answers that make room have to be read
	for reason == nil && (s.mu.line[0] != turn || !s.roomLocked(len(calls))) {
		s.mu.Unlock()
		select {
		case <-turn:
		case <-s.done: // refused below
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			reason = s.endOf(ctx)
		}
		s.mu.Lock()
		if reason == nil {
			reason = s.refusalLocked(calls)
		}
	}
	s.addDependentsLocked(-1)
	i := slices.Index(s.mu.line, turn)
	s.mu.line = slices.Delete(s.mu.line, i, i+1)
	s.wakeNextLocked() // there may be room for the next one too
	return reason
}

// wakeNextLocked wakes the first caller that waits for room.
func (s *Session) wakeNextLocked() {
	if len(s.mu.line) > 0 {
		tell(s.mu.line[0])
	}
}

// refusalLocked returns why the calls cannot be taken at all, or nil.
func (s *Session) refusalLocked(calls []*call) error {
	if err := s.errLocked(); err != nil {
		return err
	}
	for _, c := range calls {
		if c.refuse != nil {
			return c.refuse
		}
		n := len(c.frame) - 4
		if c.op == wire.OpAddWatch || c.arm != nil {
			n += rearmBytes // or no later connection would get past it
		}
		if n > s.opt.RequestBytesMax {
			return &SizeError{Bytes: int64(n), Max: s.opt.RequestBytesMax}
		}
	}
	return nil
}

// wait is Send and Wait for a pipeline of one request.
func wait[T any](ctx context.Context, p *Pipeline, k *Pending[T]) (T, error) {
	p.Send(ctx)
	return k.Wait(ctx)
}
