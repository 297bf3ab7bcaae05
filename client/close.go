package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Close ends the session. First Done is closed, the holds of its locks end with the loss, and requests that have not been sent fail
// with zk.ErrClosed. Then the ensemble is asked to end the session; when it has answered, every ephemeral znode of the session is gone
// and its locks are free. If no answer comes before ctx ends or Options.CloseTimeout has passed, the session is over on this side all
// the same, and the error says for how long the ensemble may keep it.
//
// Close returns only after all goroutines of the session have ended, those of Session.Go included, whether ctx has ended or not: a
// function of Session.Go that calls it waits for itself. For trace functions, the Logger, and functions that are told of the loss of a
// lock (lock.Hooks.Lost) it waits a tenth of a second at most, because one of them may have called Close. Several calls,
// at once or one after the other, return nil or an error alike: nil says that the ensemble is known to have ended the session.
func (s *Session) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.opt.CloseTimeout)
	defer cancel()
	s.refuseRequests()
	s.watchdogs.Wait()
	why := s.askToClose(ctx)
	s.end(&SessionError{ID: s.ID(), Err: zk.ErrClosed})
	s.wg.Wait()
	select {
	case <-ending.AllEnded(&s.tellers):
	case <-time.After(tellLimit):
	}
	if s.Gone(ctx) {
		return nil
	}
	return fmt.Errorf("close session %v: no answer, the ensemble keeps it for a session timeout (the least granted was %v): %w", s, s.Timeout(), why)
}

// tellLimit is how long Close waits for functions of the user's.
const tellLimit = 100 * time.Millisecond

// Gone waits until the session is over on this side, and reports whether the ensemble is known to have ended it: every
// ephemeral znode of the session is gone then. It reports false as well if ctx ends first.
func (s *Session) Gone(ctx context.Context) bool {
	select {
	case <-s.ctx.Done():
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed || s.mu.over != nil && errors.Is(s.mu.over, zk.ErrSessionExpired) && !s.mu.over.presumed
}

// refuseRequests closes Done, and fails the requests of callers that have not been sent.
func (s *Session) refuseRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Err() == nil { // otherwise no request of a caller is queued but to close
		s.setStateLocked(State{Phase: Closed, Conn: s.mu.state.Conn, Cause: &SessionError{ID: s.mu.id, Err: zk.ErrClosed}})
		s.failAllLocked(&s.mu.queue, s.mu.state.Cause)
	}
}

// askToClose has the ensemble end the session. It returns nil when that has answered, and otherwise why there was no answer.
func (s *Session) askToClose(ctx context.Context) error {
	for {
		k := add(s.Pipeline(), "close session", wire.OpCloseSession, "", nil, func(*wire.Decoder) (none struct{}) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.closed = true
			return none
		})
		s.mu.Lock()
		s.mu.inFlight++
		s.mu.queue = append(s.mu.queue, &k.call)
		if s.mu.over != nil {
			s.failAllLocked(&s.mu.queue, s.mu.over)
		}
		s.mu.Unlock()
		tell(s.wake)
		_, err := k.Wait(ctx)
		if !isConnectionLoss(err) { // otherwise ask again on the next connection; it may turn out that the session is gone
			return cause(err)
		}
	}
}
