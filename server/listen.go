package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/threads"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
)

// Serve answers connections from l until the server is closed or fails, and closes l. It may be
// called for several listeners. The error is never nil; after Close or Shutdown it is ErrClosed,
// after a failure of the disk it says which.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	if s.opts.Secure && isExposed(l) {
		return fmt.Errorf("server: %v: other machines can reach it without TLS (listen at a loopback address, or with TLS, or without Options.Secure)", l.Addr())
	}
	if !s.addListener(l) {
		return s.reason()
	}
	defer s.removeListener(l)
	for wait := time.Duration(0); ; {
		nc, err := l.Accept()
		switch {
		case err == nil:
			s.accept(nc)
			wait = 0
		case s.isDraining():
			return s.reason()
		case !passes(err):
			return fmt.Errorf("server: %w", err)
		default: // out of descriptors or the like
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			s.log.Warn("no connection can be accepted for now", "listener", l.Addr().String(), "err", err, "retry", wait)
			select {
			case <-time.After(wait):
			case <-s.ending:
			}
		}
	}
}

// isExposed reports whether clients on other machines can reach a listener without TLS.
func isExposed(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback() && reflect.TypeOf(l) != tlsListener
}

// passes reports whether an error of Accept is one that goes away.
func passes(err error) bool {
	for _, e := range []error{syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// reason is why Serve returns.
func (s *Server) reason() error {
	select {
	case <-s.ending:
		return s.err
	default:
		return ErrClosed // a Shutdown that is still waiting for its last answers
	}
}

func (s *Server) addListener(l net.Listener) bool {
	s.conns.Lock()
	defer s.conns.Unlock()
	if !s.conns.closed {
		s.conns.listeners[l] = struct{}{}
	}
	return !s.conns.closed
}

func (s *Server) removeListener(l net.Listener) {
	s.conns.Lock()
	defer s.conns.Unlock()
	delete(s.conns.listeners, l)
}

// accept takes a connection in, or hangs up if there are too many.
func (s *Server) accept(nc net.Conn) {
	address := addressOf(nc.RemoteAddr())
	short := takesLast(nc)
	s.conns.Lock()
	defer s.conns.Unlock()
	perAddress := s.opts.ConnectionsPerAddressMax
	switch {
	case s.conns.closed:
		nc.Close()
		return
	case short, s.opts.ConnectionsMax > 0 && len(s.conns.byID) >= s.opts.ConnectionsMax,
		address != "" && perAddress > 0 && s.conns.perAddress[address] >= perAddress, s.isCrowded(address):
		nc.Close()
		s.counters.rejected.Add(1)
		if unsaid, ok := s.floodLog.due(s.now()); ok {
			s.log.Warn("too many connections", "remote", nc.RemoteAddr().String(), "open", len(s.conns.byID),
				"of its address", s.conns.perAddress[address], "descriptors short", short, "unsaid", unsaid)
		}
		return
	}
	s.conns.lastID++
	c := s.newConn(s.conns.lastID, nc)
	c.address = address
	s.conns.perAddress[address]++
	s.conns.byID[c.id] = c
	if len(s.conns.byID) == 1 {
		s.conns.idleSince = time.Time{}
		s.tellIdleLocked()
	}
	s.conns.running.Go(c.serve)
}

// detach forgets a connection that is over.
func (s *Server) detach(c *conn) {
	if c.session != 0 {
		s.state.Lock()
		watches := s.fence(c)
		s.state.Unlock()
		if watches {
			s.dropWatches(c)
		}
	}
	s.conns.Lock()
	defer s.conns.Unlock()
	delete(s.conns.byID, c.id)
	s.conns.perAddress[c.address]--
	if s.conns.perAddress[c.address] == 0 {
		delete(s.conns.perAddress, c.address)
	}
	if len(s.conns.byID) == 0 {
		s.conns.idleSince = time.Now()
		s.tellIdleLocked()
	}
}

// dropWatches takes away the watches that a connection still has when it is over: in pieces, as there may be a million, and
// those of one connection at a time. Many connections that lock the state by turns, for one piece each, keep every
// other request waiting for all of them.
func (s *Server) dropWatches(c *conn) {
	threads.Need()
	s.large <- struct{}{}
	defer func() { <-s.large }()
	for more := true; more; {
		s.state.RLock()
		s.watchMu.Lock()
		more = s.watches.RemoveSome(watch.Watcher(c.id), pieceReads)
		s.watchMu.Unlock()
		s.state.RUnlock()
	}
}

// connection returns the connection with this number, or nil.
func (s *Server) connection(id uint64) *conn {
	s.conns.Lock()
	defer s.conns.Unlock()
	return s.conns.byID[id]
}

// stopAccepting closes the listeners and lets the readers of all connections come to an end.
func (s *Server) stopAccepting() {
	s.conns.Lock()
	defer s.conns.Unlock()
	s.conns.closed = true
	for l := range s.conns.listeners {
		l.Close()
	}
	for _, c := range s.conns.byID {
		c.nc.SetReadDeadline(time.Now())
	}
}

// isDraining reports whether stopAccepting has been called.
func (s *Server) isDraining() bool {
	s.conns.Lock()
	defer s.conns.Unlock()
	return s.conns.closed
}

// hangUp breaks all connections.
func (s *Server) hangUp() {
	s.conns.Lock()
	var all []*conn
	for _, c := range s.conns.byID {
		all = append(all, c)
	}
	s.conns.Unlock()
	for _, c := range all {
		c.out.hangUp()
	}
}

// tellIdleLocked makes each WaitIdle look again.
func (s *Server) tellIdleLocked() {
	close(s.conns.idleChanged)
	s.conns.idleChanged = make(chan struct{})
}

// WaitIdle returns nil once there has been no connection for d without interruption, or ctx's
// error if that ends first, or ErrClosed or the failure if the server does. A four-letter word is a
// connection too.
func (s *Server) WaitIdle(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		s.conns.Lock()
		since, changed := s.conns.idleSince, s.conns.idleChanged
		s.conns.Unlock()
		var enough <-chan time.Time
		if !since.IsZero() {
			timer.Reset(time.Until(since.Add(d)))
			enough = timer.C
		}
		select {
		case <-enough:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ending:
			return s.err
		}
	}
}
