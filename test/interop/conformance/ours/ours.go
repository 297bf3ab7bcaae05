// Package ours runs our server in the process of a test, at an address that clients of any kind can
// connect to.
package ours

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/server"
)

// Tick is the servers' unit of time, as that of the Apache servers that tests compare with.
const Tick = 300 * time.Millisecond

// A Server is one of our servers. Its methods are for the goroutine of the test.
type Server struct {
	*server.Server
	addr   string
	served chan error
	t      testing.TB
	closed bool
}

// Start runs a server that lives no longer than the test. What is zero in o gets the values of
// package apache, and a directory of the test.
func Start(t testing.TB, o server.Options) *Server {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	if o.TickTime == 0 {
		o.TickTime = Tick
	}
	if o.MaxSessionTimeout == 0 {
		o.MaxSessionTimeout = 10 * time.Minute
	}
	if o.ConnectionsPerAddressMax == 0 {
		o.ConnectionsPerAddressMax = -1
	}
	if len(o.Words) == 0 {
		o.Words = []string{"*"}
	}
	o.PreAllocBytes = 1 << 20
	srv, err := server.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Server: srv, addr: l.Addr().String(), served: make(chan error, 1), t: t}
	go func() { s.served <- srv.Serve(l) }()
	t.Cleanup(s.Stop)
	return s
}

// Addr returns host and port for clients.
func (s *Server) Addr() string { return s.addr }

// Stop closes the server and returns when its files are closed.
func (s *Server) Stop() {
	if s.closed {
		return
	}
	s.closed = true
	if err := s.Close(); err != nil {
		s.t.Errorf("close the server: %v", err)
	}
	if err := <-s.served; !errors.Is(err, server.ErrClosed) {
		s.t.Errorf("serve: %v", err)
	}
}
