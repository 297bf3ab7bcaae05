package memnet

import (
	"io"
	"net"
	"syscall"
	"time"
)

// A Conn is one end of a connection.
type Conn struct {
	n             *Network
	client        string // label of the one that dialled
	server        Addr   // that was dialled
	local, remote Addr
	in, out       *pipe
	near          *Conn // the end that dialled
	number        int   // of the connection
}

func newConnPair(n *Network, number int, client string, clientAddr, server Addr) (near, far *Conn) {
	up, down := newPipe(), newPipe()
	near = &Conn{n: n, number: number, client: client, server: server, local: clientAddr, remote: server, in: down, out: up}
	far = &Conn{n: n, number: number, client: client, server: server, local: server, remote: clientAddr, in: up, out: down}
	near.near, far.near = near, near
	return near, far
}

// setFaults must be called on the end that dialled.
func (c *Conn) setFaults(f faults) {
	c.out.setFaults(f, ToServer)
	c.in.setFaults(f, ToClient)
}

// Read reads what has arrived, or waits.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF {
		err = c.opError("read", err)
	}
	return n, err
}

// Write queues p, and waits while the buffer is full.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "mem", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. The peer reads what is under way and then the end of the stream;
// what it writes fails.
func (c *Conn) Close() error {
	c.out.closeWrite()
	c.in.closeRead()
	c.forget()
	return nil
}

// CloseWrite ends the outgoing direction only.
func (c *Conn) CloseWrite() error {
	c.out.closeWrite()
	return nil
}

// Cut breaks the connection: whatever is under way is gone, and every Read and Write at both ends
// fails with ECONNRESET, those that wait now included.
func (c *Conn) Cut() {
	c.in.fail(syscall.ECONNRESET)
	c.out.fail(syscall.ECONNRESET)
	c.forget()
}

// forget takes the connection off the network's list once faults can no longer matter to it.
func (c *Conn) forget() {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.in.over() && c.out.over() {
		delete(c.n.conns, c.near.number)
	}
}

// LocalAddr returns this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	c.out.setWriteDeadline(t)
	return nil
}

// SetReadDeadline makes Read fail with os.ErrDeadlineExceeded from t on; zero is never.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

// SetWriteDeadline makes Write fail with os.ErrDeadlineExceeded from t on; zero is never.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}
