package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/socket"
)

// A readTurn says which goroutine reads a connection. It is in one of three states:
//
//   - The connection's reader has the turn. After aloneMin answers in a row with nothing else under way it gives it up (yieldLocked).
//   - The turn is free. The next caller that waits takes it (readInline). The reader takes it back (takeTurn) when something waits
//     that does not read (dependLocked), or when no caller has come while it rested.
//   - A caller has the turn, and reads messages for others too, until it has its own. Then the turn is free.
//
// A caller that reads wakes no other goroutine, which would cost more than all else that the client does (docs/speed.md).
type readTurn struct {
	wake chan struct{} // for the reader while it rests: look again; one token is enough

	// Guarded by Session.mu.
	held        turnHolder
	came        bool  // a caller has begun to read since the reader last looked
	interrupted bool  // the caller that reads shall stop
	err         error // of a caller that has read: the connection is over

	// Many callers come with the same context. The reader, at rest, waits for the end of the one that the last caller had when it looked.
	ends   <-chan struct{} // Done of the last caller's context
	heeded <-chan struct{} // what the reader waits for; nil if for none

	// What the reader goes by.
	served bool // something that a goroutine waited for has come while it read
	alone  int  // how often in a row nothing else was on its way then
	asleep bool // it does not look by itself: the caller that reads calls it when it stops
}

type turnHolder uint8

const (
	heldByReader turnHolder = iota // the connection's reader
	heldByCaller
	turnFree
)

const (
	aloneMin = 4                     // answers in a row after which the reader rests
	restTime = 20 * time.Millisecond // how long it rests if no caller comes
	restMax  = 8 * restTime          // how long it rests in the end while callers come
)

// takeTurn gives the reader, which rests, the turn if something depends on it, or no caller has come meanwhile. It reports whether.
func (r *readTurn) takeTurn(ticked, depended bool) bool {
	quiet := ticked && !r.came
	r.came, r.asleep = false, quiet && r.held == heldByCaller
	if r.held != turnFree || !depended && !quiet {
		return false
	}
	r.held, r.interrupted, r.served, r.heeded = heldByReader, false, false, nil
	if depended { // otherwise it rests again as soon as a caller comes
		r.alone = 0
	}
	return true
}

// readLoop is the connection's reader: it reads while it has the turn, until the connection ends.
func (c *conn) readLoop(ctx context.Context) error {
	for {
		if err := c.readUntil(time.Time{}, c.yieldLocked); err != nil {
			return err
		}
		if err := c.rest(ctx); err != nil {
			return err
		}
	}
}

// yieldLocked gives the turn back if the reader, which has read, may leave the reading to callers, and reports whether it has.
func (c *conn) yieldLocked() bool {
	if !c.turn.served {
		return false
	}
	c.turn.served = false
	c.turn.alone++
	if c.dependLocked() || !c.quietLocked() {
		c.turn.alone = 0
	}
	if c.turn.alone < aloneMin {
		return false
	}
	c.turn.held = turnFree
	return true
}

// rest returns when the reader is to read again.
func (c *conn) rest(ctx context.Context) error {
	timer := time.NewTimer(restTime)
	defer timer.Stop()
	for pause := restTime; ; {
		ticked := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.turn.wake:
		case <-c.turn.heeded: // which no other goroutine sets
			c.s.mu.Lock()
			if c.turn.ends == c.turn.heeded {
				c.interruptLocked()
			}
			c.turn.heeded = nil // the context of the next caller may end as soon
			c.s.mu.Unlock()
			continue // it is no look: the pause goes on
		case <-timer.C:
			ticked = true
		}
		c.s.mu.Lock()
		if ticked {
			c.turn.heeded = c.turn.ends
		}
		reads, err := c.turn.takeTurn(ticked, c.dependLocked()), c.turn.err
		asleep := c.turn.asleep
		c.s.mu.Unlock()
		if reads || err != nil {
			return err
		}
		if !asleep {
			timer.Reset(pause)
			pause = min(2*pause, restMax)
		}
	}
}

// readInline reads the connection on the caller's goroutine until over reports true, unless the turn is taken. It may also
// return sooner: when ctx ends, or the connection or the session does. over is called with Session.mu held. The
// socket's read deadline keeps that of ctx, so that a limit of ending.Within needs no timer.
func (s *Session) readInline(ctx context.Context, over func() bool) {
	untimed := ending.Untimed(ctx)
	ends := untimed.Done()
	s.mu.Lock()
	c := s.mu.conn
	if c == nil || c.turn.held != turnFree || c.turn.err != nil || over() || s.mu.state.Phase.Final() {
		s.mu.Unlock()
		return
	}
	c.turn.held, c.turn.interrupted, c.turn.came, c.turn.ends = heldByCaller, false, true, ends
	heeded := ends == c.turn.heeded
	s.mu.Unlock()
	if ends != nil && !heeded { // to register takes a fourteenth of the client's time for the request
		stop := context.AfterFunc(untimed, func() { // if it runs late it may interrupt another caller, which then waits without reading
			s.mu.Lock()
			defer s.mu.Unlock()
			c.interruptLocked()
		})
		defer stop()
	}
	limit, _ := ctx.Deadline()
	err := c.readUntil(limit, over)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.turn.held, c.turn.err = turnFree, err
	if err != nil || c.turn.asleep || c.dependLocked() {
		tell(c.turn.wake)
	}
}

// readUntil reads until over, called with Session.mu held, reports true, the caller that reads is interrupted, or limit (not 0) has passed.
func (c *conn) readUntil(limit time.Time, over func() bool) error {
	for {
		message, skipped, err := c.in.next()
		if err != nil {
			return fmt.Errorf("from %v: %w", c.server, err)
		}
		if message != nil {
			if err := c.message(message, skipped); err != nil {
				return err
			}
			continue
		}
		c.s.mu.Lock()
		if over() || c.turn.interrupted {
			c.s.mu.Unlock()
			return nil
		}
		deadline := c.in.deadline()
		if !limit.IsZero() && limit.Before(deadline) {
			deadline = limit
		}
		c.nc.SetReadDeadline(deadline) // with the lock, or it could undo what interruptLocked does
		c.s.mu.Unlock()
		if err := c.in.fill(); err != nil {
			c.s.mu.Lock()
			interrupted := c.turn.interrupted
			c.s.mu.Unlock()
			if socket.IsTimeout(err) && (interrupted || deadline == limit) { // if the server is silent as well, the next read shows it
				return nil
			}
			return c.readError(err)
		}
	}
}

// interruptLocked has the caller that reads, if one does, stop.
func (c *conn) interruptLocked() {
	if c.turn.held == heldByCaller {
		c.turn.interrupted = true
		c.nc.SetReadDeadline(time.Unix(1, 0)) // a blocked Read listens to nothing else
	}
}

// dependLocked reports whether something waits that does not read. What the server has said before it hung up is to be read, too.
func (c *conn) dependLocked() bool {
	return c.s.mu.dependents > 0 || len(c.s.watches.persistent) > 0 || c.out.err != nil
}

// addDependentsLocked notes that so many more, or fewer, wait and do not read.
func (s *Session) addDependentsLocked(n int) {
	s.mu.dependents += n
	switch c := s.mu.conn; {
	case c == nil:
	case n < 0:
		c.turn.served = true
	case c.turn.held == turnFree:
		tell(c.turn.wake)
	}
}

func (c *conn) readError(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%v hung up", c.server)
	case socket.IsTimeout(err):
		if due := c.in.due; !due.IsZero() && !time.Now().Before(due) {
			return fmt.Errorf("%v began a message and sent less than %d bytes a second of it", c.server, slowest)
		}
		return fmt.Errorf("nothing heard from %v for %v", c.server, c.in.patience)
	}
	return fmt.Errorf("read from %v: %w", c.server, socket.WithoutAddress(err))
}
