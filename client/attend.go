package client

import (
	"context"
	"time"
)

// An awaited is what a caller waits for.
type awaited interface {
	// overLocked reports whether the waiting is over. It is called with Session.mu held.
	overLocked() bool
}

func (c *call) overLocked() bool { return c.stage == completed }

// attend reads the connection until a is over, unless somebody else reads it. It may also return sooner: when ctx ends,
// or the connection or the session does.
func (s *Session) attend(ctx context.Context, a awaited) {
	s.mu.Lock()
	c := s.mu.conn
	if c == nil || c.reading.who != nobody || c.reading.err != nil || a.overLocked() || s.mu.state.Phase.Final() {
		s.mu.Unlock()
		return
	}
	c.reading.who, c.reading.interrupted = aCaller, false
	c.reading.turn++
	turn := c.reading.turn
	s.mu.Unlock()
	if ctx.Done() != nil {
		stop := context.AfterFunc(ctx, func() { c.interrupt(turn) })
		defer stop()
	}
	c.leave(c.readFor(a))
}

// readFor reads until a is over, or the caller who reads is interrupted.
func (c *conn) readFor(a awaited) error {
	for {
		if err := c.takeArrived(); err != nil {
			return err
		}
		c.s.mu.Lock()
		if a.overLocked() || c.reading.interrupted {
			c.s.mu.Unlock()
			return nil
		}
		c.nc.SetReadDeadline(c.in.deadline()) // with the lock, or it could undo what interrupt does
		c.s.mu.Unlock()
		if err := c.in.fill(); err != nil {
			c.s.mu.Lock()
			interrupted := c.reading.interrupted
			c.s.mu.Unlock()
			if interrupted && isTimeout(err) {
				return nil
			}
			return c.readError(err)
		}
	}
}

// leave ends the reading of a caller.
func (c *conn) leave(err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	c.reading.who, c.reading.err = nobody, err
	if err != nil || c.reading.asleep() || s.dependLocked() {
		c.wakeReader()
	}
}

// interrupt has a caller stop reading, if it is still his turn.
func (c *conn) interrupt(turn uint64) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.reading.turn == turn {
		c.interruptLocked()
	}
}

func (c *conn) interruptLocked() {
	if c.reading.who == aCaller {
		c.reading.interrupted = true
		c.nc.SetReadDeadline(time.Unix(1, 0)) // a blocked Read listens to nothing else
	}
}

// dependLocked reports whether somebody waits who does not read himself.
func (s *Session) dependLocked() bool { return s.mu.dependents > 0 || len(s.watches.streams) > 0 }

// addDependentsLocked notes that so many more, or fewer, wait.
func (s *Session) addDependentsLocked(n int) {
	s.mu.dependents += n
	if c := s.mu.conn; c != nil && n > 0 && c.reading.who == nobody {
		c.wakeReader()
	}
}
