package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A readTurn decides which goroutine reads a connection. One does at a time: the connection's reader, or a caller that waits
// for an answer or an event and finds the turn free. The goroutine that reads takes all messages, those for others too.
//
// A caller that reads inline needs no other goroutine to wake it. Waking one costs more than all else that the client does: Go
// wakes a thread, most often on another processor, which the server may need at that moment. So the reader rests once it has
// seen that callers are alone. It reads again when something waits that does not read (Session.dependLocked), and when no
// caller has come for a while.
type readTurn struct {
	call chan struct{} // for the reader while it rests: look again; one token is enough

	// Guarded by Session.mu.
	held        turnHolder
	number      uint64 // how often a caller has begun to read
	interrupted bool   // the caller that reads shall stop
	err         error  // of a caller that has read: the connection is over

	// What the reader goes by.
	served bool   // a call or watch that a goroutine waited for was completed while it read
	alone  int    // how often in a row nothing else was on its way then
	called bool   // it shall read although nothing depends on it
	seen   uint64 // number at the last tick of its rest
	same   int    // ticks in a row since the same caller reads
}

type turnHolder uint8

const (
	heldByReader turnHolder = iota // the connection's reader
	heldByCaller
	turnFree
)

const (
	aloneMin   = 4                     // answers in a row after which the reader rests
	restTick   = 20 * time.Millisecond // how often it looks then whether callers still come
	sleepTicks = 5                     // after so many, if the same caller reads, it waits until that caller leaves
)

func newReadTurn() readTurn { return readTurn{call: make(chan struct{}, 1)} }

// restsNow reports whether the reader, which has read, may leave the reading to callers, and if so gives the turn back. busy says
// that something depends on the reader, or is on its way.
func (r *readTurn) restsNow(busy bool) bool {
	if !r.served {
		return false
	}
	r.served = false
	if busy {
		r.alone = 0
		return false
	}
	r.alone++
	if r.alone < aloneMin {
		return false
	}
	r.held, r.same = turnFree, 0
	return true
}

// readsNow reports whether the reader, which rests, is to read again, and if so gives it the turn: it was called, or something
// depends on it, or no caller has come since the last tick.
func (r *readTurn) readsNow(ticked, depended bool) bool {
	quiet := ticked && r.number == r.seen
	if ticked {
		r.seen = r.number
	}
	wanted := r.called || depended
	switch {
	case r.held == heldByCaller && quiet:
		r.same++
	case r.held == turnFree && (wanted || quiet):
		r.held, r.called, r.alone = heldByReader, false, 0
		if !wanted {
			r.alone = aloneMin - 1
		}
		return true
	case r.held == turnFree || ticked:
		r.same = 0
	}
	return false
}

// asleep reports whether the reader no longer looks by itself.
func (r *readTurn) asleep() bool { return r.same >= sleepTicks }

// readLoop is the connection's reader: it reads while it has the turn, until the connection ends.
func (c *conn) readLoop(ctx context.Context) error {
	for {
		err := c.takeArrived()
		for err == nil && !c.mayRest() {
			c.nc.SetReadDeadline(c.in.deadline())
			if err = c.in.fill(); err != nil {
				return c.readError(err)
			}
			err = c.takeArrived()
		}
		if err != nil {
			return err
		}
		if err := c.rest(ctx); err != nil {
			return err
		}
	}
}

// takeArrived takes all messages that have arrived as a whole.
func (c *conn) takeArrived() error {
	for {
		m, skipped, ok, err := c.in.next()
		if err != nil {
			return fmt.Errorf("from %v: %w", c.server, err)
		}
		if !ok {
			return nil
		}
		if err := c.message(m, skipped); err != nil {
			return err
		}
	}
}

// mayRest reports whether the reader leaves the reading to callers.
func (c *conn) mayRest() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.turn.restsNow(c.s.dependLocked() || !c.quietLocked())
}

// rest returns when the reader is to read again.
func (c *conn) rest(ctx context.Context) error {
	tick := time.NewTicker(restTick)
	defer tick.Stop()
	for {
		ticked := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.turn.call:
		case <-tick.C:
			ticked = true
		}
		c.s.mu.Lock()
		err, slept := c.turn.err, c.turn.asleep()
		reads := err == nil && c.turn.readsNow(ticked, c.s.dependLocked())
		sleeps := c.turn.asleep()
		c.s.mu.Unlock()
		switch {
		case reads || err != nil:
			return err
		case sleeps:
			tick.Stop()
		case slept:
			tick.Reset(restTick)
		}
	}
}

// callReader has the reader read, unless the turn is taken.
func (c *conn) callReader() {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.callReaderLocked()
}

func (c *conn) callReaderLocked() {
	if c.turn.held == turnFree {
		c.turn.called = true
		tell(c.turn.call)
	}
}

// A condition is what a caller waits for.
type condition interface {
	// overLocked reports whether the waiting is over. It is called with Session.mu held.
	overLocked() bool
}

func (c *call) overLocked() bool { return c.stage == completed }

// readInline reads the connection on the caller's goroutine until until is over, unless the turn is taken. It may also return
// sooner: when ctx ends, or the connection or the session does.
func (s *Session) readInline(ctx context.Context, until condition) {
	s.mu.Lock()
	c := s.mu.conn
	if c == nil || c.turn.held != turnFree || c.turn.err != nil || until.overLocked() || s.mu.state.Phase.Final() {
		s.mu.Unlock()
		return
	}
	c.turn.held, c.turn.interrupted = heldByCaller, false
	c.turn.number++
	number := c.turn.number
	s.mu.Unlock()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { c.interrupt(number) })
		defer stop()
	}
	c.giveTurnBack(c.readUntil(until))
}

// readUntil reads until until is over, or the caller that reads is interrupted.
func (c *conn) readUntil(until condition) error {
	for {
		if err := c.takeArrived(); err != nil {
			return err
		}
		c.s.mu.Lock()
		if until.overLocked() || c.turn.interrupted {
			c.s.mu.Unlock()
			return nil
		}
		c.nc.SetReadDeadline(c.in.deadline()) // with the lock, or it could undo what interrupt does
		c.s.mu.Unlock()
		if err := c.in.fill(); err != nil {
			c.s.mu.Lock()
			interrupted := c.turn.interrupted
			c.s.mu.Unlock()
			if interrupted && isTimeout(err) {
				return nil
			}
			return c.readError(err)
		}
	}
}

// giveTurnBack ends the turn of a caller.
func (c *conn) giveTurnBack(err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.turn.held, c.turn.err = turnFree, err
	if err != nil || c.turn.asleep() || s.dependLocked() {
		tell(c.turn.call)
	}
}

// interrupt has a caller stop reading, if the turn still has this number.
func (c *conn) interrupt(number uint64) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.turn.number == number {
		c.interruptLocked()
	}
}

func (c *conn) interruptLocked() {
	if c.turn.held == heldByCaller {
		c.turn.interrupted = true
		c.nc.SetReadDeadline(time.Unix(1, 0)) // a blocked Read listens to nothing else
	}
}

// dependLocked reports whether something waits that does not read.
func (s *Session) dependLocked() bool { return s.mu.dependents > 0 || len(s.watches.streams) > 0 }

// addDependentsLocked notes that so many more, or fewer, wait and do not read.
func (s *Session) addDependentsLocked(n int) {
	s.mu.dependents += n
	if c := s.mu.conn; c != nil && n > 0 && c.turn.held == turnFree {
		tell(c.turn.call)
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func (c *conn) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%v hung up", c.server)
	case isTimeout(err):
		if c.in.overdue() {
			return fmt.Errorf("%v began a message and sent less than %d bytes a second of it", c.server, slowest)
		}
		return fmt.Errorf("nothing heard from %v for %v", c.server, c.readTimeout())
	}
	return fmt.Errorf("read from %v: %w", c.server, withoutAddress(err))
}
