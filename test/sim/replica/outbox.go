package replica

import (
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// An outbox sends frames on a goroutine of its own, so that the goroutine that adds one need not wait.
type outbox struct {
	nc net.Conn

	mu     sync.Mutex // guards what follows
	cond   sync.Cond
	buf    []byte
	closed bool
}

func newOutbox(nc net.Conn) *outbox {
	o := &outbox{nc: nc}
	o.cond.L = &o.mu
	return o
}

// add adds a frame.
func (o *outbox) add(frame []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, start := wire.BeginFrame(o.buf)
	o.buf = wire.EndFrame(append(b, frame...), start)
	o.cond.Signal()
}

// close lets go what has been added, and then the connection.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.cond.Signal()
}

// run sends until the outbox is closed.
func (o *outbox) run() {
	defer o.nc.Close()
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		for len(o.buf) == 0 && !o.closed {
			o.cond.Wait()
		}
		b := o.buf
		o.buf = nil
		if len(b) == 0 {
			return
		}
		o.mu.Unlock()
		_, err := o.nc.Write(b)
		o.mu.Lock()
		if err != nil {
			return
		}
	}
}

func writeFrame(nc net.Conn, frame []byte) error {
	b, start := wire.BeginFrame(nil)
	_, err := nc.Write(wire.EndFrame(append(b, frame...), start))
	return err
}
