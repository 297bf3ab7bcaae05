package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
)

// Crash takes the server down as a power failure would: connections break, new ones are refused, and
// the disk keeps what was synced, which is everything that was acknowledged. It stays down until
// Restart. A server that is down already stays as it is.
func (s *Server) Crash() {
	defer s.turn()()
	s.crash()
}

// Restart brings the server back on what its disk has kept; one that is running crashes first. Znodes
// and sessions are there again, each session with its full timeout from now on. Links are as they
// were. After Close it does nothing.
func (s *Server) Restart() {
	defer s.turn()()
	s.mu.Lock()
	closed := s.mu.closed
	s.mu.Unlock()
	if closed {
		return
	}
	s.crash()
	// Ids of sessions are made of the millisecond in which a server started. Two starts in one would
	// give a new session the id of one that has ended.
	time.Sleep(time.Millisecond)
	if err := s.open(); err != nil {
		s.failed(err)
		return
	}
	s.allLinks().Heal()
}

// crash is Crash. It takes a turn.
func (s *Server) crash() {
	s.mu.Lock()
	running, disk := s.mu.running, s.mu.disk
	s.mu.Unlock()
	if !running {
		return
	}
	// First nothing is acknowledged any more, then the disk is taken as it is: so nothing that was
	// acknowledged is missing from it.
	s.allLinks().Refuse()
	s.allLinks().Cut()
	left := disk.CrashClone(nil)
	s.mu.Lock()
	s.mu.disk = left
	s.mu.Unlock()
	s.stop()
}

// allLinks is the way between all links and the server.
func (s *Server) allLinks() *memnet.Link { return s.network.Link("", address) }
