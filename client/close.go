package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Close ends the session. First Done is closed, and requests that have not been sent fail with zk.ErrClosed. Then the
// ensemble is asked to end the session; when it has answered, every ephemeral znode of the session is gone and its
// locks are free. If no answer comes before ctx ends or Options.CloseTimeout has passed, the session is over on our
// side all the same, and the error says for how long the ensemble may keep it.
//
// Close returns only after all goroutines of the session have ended, those of Session.Go included; a trace
// function may still be running. Closing again is harmless.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CloseTimeout)
	defer cancel()
	err := s.askToClose(ctx)
	s.mu.Lock()
	closed := s.closedError()
	s.mu.Unlock()
	s.end(closed)
	s.wg.Wait()
	return err
}

// askToClose has the ensemble end the session, and returns nil once it is known to have ended.
func (s *Session) askToClose(ctx context.Context) error {
	for {
		c := s.queueClose()
		if c == nil {
			return nil // over already
		}
		if done := s.await(c); done != nil {
			select {
			case <-done:
			case <-ctx.Done():
				s.forgo(c)
				why := s.endOf(ctx)
				s.withdraw(c, why)
				return fmt.Errorf("close session %v: no answer, the ensemble keeps it for up to %v: %w", s, s.Timeout(), why)
			}
		}
		switch {
		case c.err == nil, errors.Is(c.err, zk.ErrSessionExpired), errors.Is(c.err, zk.ErrClosed):
			return nil
		case lost(c.err): // ask again on the next connection; it may turn out that the session is gone
		default:
			return fmt.Errorf("close session %v: %w", s, c.err)
		}
	}
}

// queueClose fails what has not been sent and puts a closeSession behind what has; nil if the session
// is over, or another Close is about to end it.
func (s *Session) queueClose() *call {
	c := ownCall(wire.OpCloseSession, "close session", "", nil)
	s.mu.Lock()
	if s.mu.over != nil {
		s.mu.Unlock()
		return nil
	}
	if s.mu.closing == nil {
		s.mu.closing = s.closedError()
	}
	log := s.setStateLocked(State{Phase: Closed, Conn: s.mu.state.Conn, Cause: s.mu.closing})
	for _, q := range s.mu.queue {
		if q.op != wire.OpCloseSession {
			s.failLocked(q, s.mu.closing, false)
		}
	}
	s.mu.queue = append(s.mu.queue, c)
	s.mu.Unlock()
	s.wakeWriter()
	log()
	return c
}
