package server

import (
	"errors"
	"fmt"
	"time"
)

// stuckAfter is how long a batch of writes to the transaction log may take before the server counts as sick.
// Healthy disks take milliseconds; clients give up after seconds.
const stuckAfter = 10 * time.Second

// Why a server that has not ended is not healthy.
var (
	errDraining   = errors.New("server: shutting down")
	errNoListener = errors.New("server: no listener: no client can come in")
)

// Health returns nil if the server serves and its disk takes what it is given, else an error that
// says what is wrong: the server has ended or is about to, it has no listener, or the batch of writes
// that is going on has taken ten seconds already. It asks nothing of the disk and never waits
// for it.
func (s *Server) Health() error {
	select {
	case <-s.ending:
		return s.err
	default:
	}
	s.conns.Lock()
	closed, listeners := s.conns.closed, len(s.conns.listeners)
	s.conns.Unlock()
	switch began := s.committing.Load(); {
	case closed:
		return errDraining
	case began != 0 && s.now()-time.Duration(began) >= stuckAfter:
		return fmt.Errorf("server: a batch of writes to the log in %s has been going on for %v",
			s.opts.LogDir, (s.now() - time.Duration(began)).Round(time.Second))
	case listeners == 0:
		return errNoListener
	}
	return nil
}
