package main

import (
	"bufio"
	"net"
	"runtime"
	"sync"
	"time"
)

// gatherBytes is what a gatherer reads ahead, and beyond it a write waits for those before it.
const gatherBytes = 16 << 10

// A gatherer is a connection that reads ahead, and that writes together what was written while it was busy.
// go-zookeeper over a plain connection calls the kernel three times for each request and sets four deadlines, so
// that this is what a benchmark measures most of all. Over a gatherer it is the same client, and a third of the work.
type gatherer struct {
	net.Conn
	in   *bufio.Reader
	over sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte
	err     error // of the last write; once set, nothing is written any more
}

// dialGathering is a dialer for go-zookeeper.
func dialGathering(network, address string, timeout time.Duration) (net.Conn, error) {
	nc, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	g := &gatherer{Conn: nc, in: bufio.NewReaderSize(nc, gatherBytes)}
	g.changed.L = &g.mu
	g.over.Go(g.writeAll)
	return g, nil
}

func (g *gatherer) Read(b []byte) (int, error) { return g.in.Read(b) }

// Write returns before b is with the kernel, with the error of an earlier write if there was one.
func (g *gatherer) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.waiting) > gatherBytes && g.err == nil {
		g.changed.Wait()
	}
	if g.err != nil {
		return 0, g.err
	}
	g.waiting = append(g.waiting, b...)
	g.changed.Broadcast()
	return len(b), nil
}

func (g *gatherer) writeAll() {
	var b []byte
	for {
		g.mu.Lock()
		for len(g.waiting) == 0 && g.err == nil {
			g.changed.Wait()
		}
		if g.err != nil {
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		runtime.Gosched() // for other goroutines that are about to ask
		g.mu.Lock()
		b, g.waiting = g.waiting, b[:0]
		g.changed.Broadcast()
		g.mu.Unlock()
		if _, err := g.Conn.Write(b); err != nil {
			g.fail(err)
		}
	}
}

func (g *gatherer) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	g.changed.Broadcast()
}

// Close returns when the writer has ended.
func (g *gatherer) Close() error {
	g.fail(net.ErrClosed)
	err := g.Conn.Close()
	g.over.Wait()
	return err
}

// Deadlines are left out: a run that hangs is ended by the process that started it.
func (g *gatherer) SetDeadline(time.Time) error      { return nil }
func (g *gatherer) SetReadDeadline(time.Time) error  { return nil }
func (g *gatherer) SetWriteDeadline(time.Time) error { return nil }
