package server

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// expirer wakes the goroutine that ends silent sessions. It sleeps until the first
// session can be due, and without sessions for ever.
type expirer struct {
	wakesAt atomic.Int64  // on the server's clock, in nanoseconds
	sooner  chan struct{} // a session can expire before that
	spares  time.Duration // on the server's clock, until when nothing expires; guarded by Server.state
}

func newExpirer() *expirer { return &expirer{sooner: make(chan struct{}, 1)} }

// mind makes the expirer wake by the time at.
func (e *expirer) mind(at time.Duration) {
	if int64(at) < e.wakesAt.Load() {
		select {
		case e.sooner <- struct{}{}:
		default:
		}
	}
}

// lockState keeps readers of the state out. Those that wait for it do not hear their clients. So nothing expires meanwhile,
// nor, if it took long, in the tick after it, in which they hear what has come. It returns the time for unlockState.
func (s *Server) lockState() (locked time.Duration) {
	s.state.Lock()
	return s.now()
}

func (s *Server) unlockState(locked time.Duration) {
	if now := s.now(); now-locked > s.opts.TickTime/2 {
		s.expiry.spares = now + s.opts.TickTime
	}
	s.state.Unlock()
}

// expire marks sessions as closing that have been silent for too long, and returns them, and the moment at which others
// may be due, if there are any.
func (s *Server) expire() (dead []int64, next time.Duration, any bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	s.sessions.Lock()
	defer s.sessions.Unlock()
	table, now := s.sessions.table, s.now()
	table.Renew(s.inlineSession.Load(), now)
	s.renewWaiting(now)
	if now >= s.expiry.spares {
		dead = table.Expire(now)
	}
	next, any = table.NextExpiry()
	return dead, max(next, s.expiry.spares), any
}

// renewWaiting notes that clients live whose connections are not read from for as long as the disk, or what others ask,
// keeps their requests waiting, connect requests included. Server.state and sessions are locked.
func (s *Server) renewWaiting(now time.Duration) {
	s.conns.Lock()
	defer s.conns.Unlock()
	for _, c := range s.conns.byID {
		s.sessions.table.Renew(c.asks.Load(), now)
		if c.waits.Load() && c.out.pending.Load() > 0 {
			s.sessions.table.Touch(c.session, c.id, now)
		}
	}
}

// expiredSaid is how many sessions that expire at the same time have a line in the log.
const expiredSaid = 20

// expireSessions has the sessions closed that have been silent for too long.
func (s *Server) expireSessions() {
	for {
		// Before the table is read, so that a session that enters it from now on wakes this goroutine again.
		s.expiry.wakesAt.Store(math.MaxInt64)
		dead, next, any := s.expire()
		s.counters.expired.Add(int64(len(dead)))
		for i, id := range dead {
			if i < expiredSaid {
				s.log.Info("session expired", "session", sessionID(id))
			}
			s.closeSession(id, nil)
		}
		if n := len(dead) - expiredSaid; n > 0 {
			s.log.Info("more sessions expired at the same time", "sessions", n)
		}
		var due <-chan time.Time
		if any {
			due = time.After(next - s.now())
			s.expiry.wakesAt.Store(int64(next))
		}
		select {
		case <-due:
		case <-s.expiry.sooner:
		case <-s.ctx.Done():
			return
		}
	}
}

// closeSession has a session closed that has been marked as closing, and done closed when that is on disk. It reports false if the server has ended.
func (s *Server) closeSession(id int64, done chan struct{}) bool {
	r := requests.Get().(*request)
	r.session, r.op, r.received, r.done = id, wire.OpCloseSession, s.now(), done
	r.work = s.workOfClose(id)
	return s.queue.put(r)
}

// workOfClose is about how many operations the end of a session is worth: it deletes the ephemerals. Each level of their paths has two
// bytes at least.
func (s *Server) workOfClose(id int64) int {
	s.state.RLock()
	defer s.state.RUnlock()
	znodes, bytes := s.tree.EphemeralSize(id)
	return 1 + znodes + bytes/(2*levelsPerOp)
}

// ExpireSession ends a session as if its client had been silent for too long, and returns when
// that is on disk. It reports whether there was such a session.
func (s *Server) ExpireSession(id int64) bool {
	s.sessions.Lock()
	ok := s.sessions.table.BeginClose(id)
	s.sessions.Unlock()
	done := make(chan struct{})
	if !ok || !s.closeSession(id, done) {
		return false
	}
	<-done
	return true
}
