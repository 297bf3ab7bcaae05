package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

// A Dialer opens a connection to a server, as net.Dialer.DialContext does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// ErrRefused is the error of a connection that was turned away on purpose.
var ErrRefused = errors.New("connection refused by the fault proxy")

// ErrClosed is the error of using a proxy after Close.
var ErrClosed = errors.New("fault proxy closed")

// entriesMax bounds the record of what passed: a proxy is for tests that look at some hundred
// requests; what a longer run needs to know, it asks as it goes.
const entriesMax = 1 << 20

// A Proxy carries connections between clients and servers, and breaks them as told. Its methods
// may be called from any goroutine, hooks included.
type Proxy struct {
	dial   Dialer
	closed context.Context // ends with Close
	close  context.CancelFunc
	wg     sync.WaitGroup // connections and what serves them

	flows [2]*gate // by Direction: of connections that are being opened

	mu struct {
		sync.Mutex
		rules     []*Rule
		conns     map[int]*Conn // open ones, by number
		opened    int           // connections numbered so far
		refuse    bool
		listeners map[net.Listener]struct{}
		entries   []Entry
		ended     bool // Close has been called; nothing is added to wg any more
	}
}

// New returns a proxy that reaches servers through dial. The caller closes it.
func New(dial Dialer) *Proxy {
	p := &Proxy{dial: dial, flows: [2]*gate{newGate(Pass), newGate(Pass)}}
	p.closed, p.close = context.WithCancel(context.Background())
	p.mu.conns = map[int]*Conn{}
	p.mu.listeners = map[net.Listener]struct{}{}
	return p
}

// Serve carries every connection that ln accepts to the server at address, until ln is closed or
// the proxy is; in the latter case it returns ErrClosed. It closes ln.
func (p *Proxy) Serve(ln net.Listener, network, address string) error {
	defer ln.Close()
	if !p.begin() {
		return ErrClosed
	}
	defer p.wg.Done()
	p.mu.Lock()
	p.mu.listeners[ln] = struct{}{}
	ended := p.mu.ended
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.mu.listeners, ln)
		p.mu.Unlock()
	}()
	if ended {
		return ErrClosed
	}
	for {
		nc, err := ln.Accept()
		switch {
		case p.closed.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return ErrClosed
		case err != nil:
			return fmt.Errorf("fault proxy accepts no more: %w", err)
		case p.refuses() || !p.begin():
			nc.Close()
			continue
		}
		go func() {
			defer p.wg.Done()
			p.join(nc, network, address)
		}()
	}
}

// Listen is Serve in a goroutine of its own that ends with the proxy, on a TCP port of the loopback
// address that it chooses. It returns the port's address.
func (p *Proxy) Listen(network, address string) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	if !p.begin() {
		ln.Close()
		return "", ErrClosed
	}
	go func() {
		defer p.wg.Done()
		p.Serve(ln, network, address) // ends with ErrClosed, when Close closes ln
	}()
	return ln.Addr().String(), nil
}

// Dial opens a connection to a server through the proxy without any listener: give it to a client
// as its dial function. The client's half is a net.Pipe. While a flow does not pass, Dial blocks,
// as it would in a network that loses packets.
func (p *Proxy) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.closed, func() { cancel(ErrClosed) })()
	for _, g := range p.flows {
		if !g.wait(ctx.Done()) {
			return nil, context.Cause(ctx)
		}
	}
	if p.refuses() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: ErrRefused}
	}
	server, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if !p.begin() {
		server.Close()
		return nil, ErrClosed
	}
	near, far := net.Pipe()
	go func() {
		defer p.wg.Done()
		p.carry(far, server, address)
	}()
	return near, nil
}

// begin adds one to wg, unless the proxy is closed.
func (p *Proxy) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.ended {
		return false
	}
	p.wg.Add(1)
	return true
}

func (p *Proxy) refuses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.refuse
}

// join opens the server's half of an accepted connection and carries the connection to its end.
// If the server is out of reach, the client's half is closed.
func (p *Proxy) join(client net.Conn, network, address string) {
	for _, g := range p.flows {
		if !g.wait(p.closed.Done()) {
			client.Close()
			return
		}
	}
	server, err := p.dial(p.closed, network, address)
	if err != nil {
		client.Close()
		return
	}
	p.carry(client, server, address)
}

// carry numbers a connection and carries it to its end.
func (p *Proxy) carry(client, server net.Conn, address string) {
	p.mu.Lock()
	p.mu.opened++
	c := newConn(p, p.mu.opened, address, client, server)
	p.mu.conns[c.Number] = c
	p.mu.Unlock()
	p.record(Entry{Conn: c.Number, Kind: Opened})
	c.run(p.closed)
	p.mu.Lock()
	delete(p.mu.conns, c.Number)
	p.mu.Unlock()
	p.record(Entry{Conn: c.Number, Kind: Closed})
}

// Refuse turns new connections away, or no longer does. Dial fails with ErrRefused; a connection to
// a listener is closed as soon as it has been accepted.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.refuse = refuse
}

// SetFlow sets what becomes of everything that travels in the given direction, on every connection
// that is open or will be.
func (p *Proxy) SetFlow(d Direction, f Flow) {
	p.flows[d].set(f)
	for _, c := range p.Conns() {
		c.SetFlow(d, f)
	}
}

// SetFlows is SetFlow for both directions.
func (p *Proxy) SetFlows(f Flow) {
	p.SetFlow(ToServer, f)
	p.SetFlow(ToClient, f)
}

// Conns returns the open connections, in no particular order.
func (p *Proxy) Conns() []*Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*Conn, 0, len(p.mu.conns))
	for _, c := range p.mu.conns {
		conns = append(conns, c)
	}
	return conns
}

// CutAll breaks every open connection.
func (p *Proxy) CutAll() {
	for _, c := range p.Conns() {
		c.Cut()
	}
}

// Close breaks all connections, ends all listeners and waits until every goroutine of the proxy is
// over. A hook that is running is waited for.
func (p *Proxy) Close() {
	p.close() // before the listeners close, for Serve to know why they do
	p.mu.Lock()
	p.mu.ended = true
	listeners := slices.Collect(maps.Keys(p.mu.listeners))
	p.mu.Unlock()
	for _, ln := range listeners {
		ln.Close()
	}
	p.wg.Wait()
}

// record adds an entry, with the time of now.
func (p *Proxy) record(e Entry) {
	e.At = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.entries) < entriesMax {
		p.mu.entries = append(p.mu.entries, e)
	}
}

// Mark returns the present end of the record.
func (p *Proxy) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(len(p.mu.entries))
}

// Since returns what has been recorded after m was taken; Since(0) is everything. The record holds
// the first entriesMax entries of the proxy's life; to ask beyond is an error of the test and
// panics.
func (p *Proxy) Since(m Mark) Log {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.entries) == entriesMax {
		panic(fmt.Sprintf("faultproxy: the record is full at %d entries", entriesMax))
	}
	return append(Log(nil), p.mu.entries[m:]...)
}
