package memnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// Limits of every Network.
const (
	bufferBytes = 64 << 10 // that a connection takes in each direction before its writer waits
	backlogMax  = 128      // connections that wait for Accept; beyond it Dial waits
)

// A Network connects clients with listeners. Its methods may be called from any goroutine.
type Network struct {
	mu   sync.Mutex
	cond sync.Cond // a listener, a link or a backlog changed; for Dial and Accept

	// Guarded by mu. Lock order: mu, then the mutex of a pipe.
	listeners map[string]*listener
	links     map[linkKey]*Link
	conns     map[int]*Conn // client ends that are neither closed nor cut, by number: seeds must decide in what order they are cut
	nextPort  int
}

// New returns a network without listeners and without faults.
func New() *Network {
	n := &Network{
		listeners: make(map[string]*listener),
		links:     make(map[linkKey]*Link),
		conns:     make(map[int]*Conn),
	}
	n.cond.L = &n.mu
	return n
}

// Addr is the address of a listener, or of a client's end of a connection ("label:port").
type Addr string

// Network returns "mem".
func (Addr) Network() string { return "mem" }

func (a Addr) String() string { return string(a) }

func opError(op string, addr Addr, err error) error {
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}

// Listen announces name. A name can be announced again once its listener is closed.
func (n *Network) Listen(name string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[name] != nil {
		return nil, opError("listen", Addr(name), syscall.EADDRINUSE)
	}
	l := &listener{n: n, addr: Addr(name)}
	n.listeners[name] = l
	n.cond.Broadcast()
	return l, nil
}

// Dial connects as a client without a label.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.DialAs(ctx, "", addr)
}

// Dialer returns a function in the shape of net.Dialer.DialContext that dials as the client with
// the given label, whatever the network it is asked for.
func (n *Network) Dialer(client string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) { return n.DialAs(ctx, client, addr) }
}

// DialAs connects the client with this label to the listener called addr. Like a TCP connect it
// is done before the listener accepts, hangs while the link between the two is muted or loses
// bytes, and fails at once if nothing listens. The connection is a *Conn.
func (n *Network) DialAs(ctx context.Context, client, addr string) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.cond.Broadcast()
	})
	defer stop()

	n.mu.Lock()
	defer n.mu.Unlock()
	trip := 2 * n.faultsLocked(client, addr).latency
	arrive := time.Now().Add(trip)
	if trip > 0 {
		wake := time.AfterFunc(trip, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.cond.Broadcast()
		})
		defer wake.Stop()
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, opError("dial", Addr(addr), err)
		}
		f, l := n.faultsLocked(client, addr), n.listeners[addr]
		switch {
		case f.stopped() || time.Now().Before(arrive):
		case f.refuse || l == nil:
			return nil, opError("dial", Addr(addr), syscall.ECONNREFUSED)
		case len(l.backlog) < backlogMax:
			n.nextPort++
			label := client
			if label == "" {
				label = "client"
			}
			near, far := newConnPair(n, n.nextPort, client, Addr(fmt.Sprintf("%s:%d", label, n.nextPort)), Addr(addr))
			near.setFaults(f)
			n.conns[near.number] = near
			l.backlog = append(l.backlog, far)
			n.cond.Broadcast()
			return near, nil
		}
		n.cond.Wait()
	}
}

type listener struct {
	n    *Network
	addr Addr

	// Guarded by n.mu.
	backlog []*Conn
	closed  bool
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	for !l.closed && len(l.backlog) == 0 {
		l.n.cond.Wait()
	}
	if l.closed {
		return nil, opError("accept", l.addr, net.ErrClosed)
	}
	c := l.backlog[0]
	l.backlog = l.backlog[1:]
	l.n.cond.Broadcast()
	return c, nil
}

// Close ends the listener; connections that were not accepted are cut.
func (l *listener) Close() error {
	l.n.mu.Lock()
	if l.closed {
		l.n.mu.Unlock()
		return opError("close", l.addr, net.ErrClosed)
	}
	l.closed = true
	delete(l.n.listeners, string(l.addr))
	orphans := l.backlog
	l.backlog = nil
	l.n.cond.Broadcast()
	l.n.mu.Unlock()
	for _, c := range orphans {
		c.Cut()
	}
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }
