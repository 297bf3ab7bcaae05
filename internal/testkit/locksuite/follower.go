package locksuite

import (
	"context"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A follower stands in front of the real server and answers as a server could that is behind the others,
// cut off from them, or not quite right: states that one healthy server never has, and that an ensemble
// has only by luck.
type follower struct {
	dial faultproxy.Dialer
	wg   sync.WaitGroup // two a connection, which end with it

	// What to do otherwise than the real server; nil is nothing. They are called for one frame at a time.
	handshake func(*wire.ConnectRequest)              // may change it
	swallow   func(conn int, op wire.Op) bool         // reports whether a request is lost
	unknown   func(op wire.Op) bool                   // reports whether it does not know such requests
	listing   func(conn int, names []string) []string // what a listing shows

	mu    sync.Mutex
	conns int // opened; guarded by mu
}

// follower returns one that the test's clients can be connected through; see ClientWith.
func (w *World) follower() *follower {
	f := &follower{dial: w.Dial}
	w.t.Cleanup(f.wg.Wait) // behind that of the proxies, which end the connections
	return f
}

// Dial connects to the real server.
func (f *follower) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	server, err := f.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.conns++
	c := &followed{f: f, number: f.conns, server: server, ops: map[int32]wire.Op{}}
	f.mu.Unlock()
	near, far := net.Pipe()
	c.client = far
	f.wg.Go(c.requests)
	f.wg.Go(c.replies)
	return near, nil
}

// followed is one connection.
type followed struct {
	f              *follower
	number         int
	client, server net.Conn

	mu  sync.Mutex
	ops map[int32]wire.Op // what was asked, by xid; guarded by mu
}

func (c *followed) close() {
	c.client.Close()
	c.server.Close()
}

func (c *followed) requests() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := wire.ReadFrame(c.client, nil, wire.FrameBytesMax)
		if err != nil {
			return
		}
		if first {
			frame = c.shake(frame)
		} else if c.lost(frame) {
			continue
		}
		if writeFrame(c.server, frame) != nil {
			return
		}
	}
}

func (c *followed) shake(frame []byte) []byte {
	var req wire.ConnectRequest
	if c.f.handshake == nil || wire.Unmarshal(frame, &req) != nil {
		return frame
	}
	c.f.handshake(&req)
	return req.AppendTo(nil)
}

// unheardOf is an operation that no server knows.
const unheardOf wire.Op = 99

// lost notes a request and reports whether it goes no further.
func (c *followed) lost(frame []byte) bool {
	var h wire.RequestHeader
	h.DecodeFrom(wire.NewDecoder(frame))
	c.mu.Lock()
	c.ops[h.Xid] = h.Op
	c.mu.Unlock()
	if c.f.unknown != nil && c.f.unknown(h.Op) {
		h.Op = unheardOf
		copy(frame, h.AppendTo(nil))
	}
	return c.f.swallow != nil && c.f.swallow(c.number, h.Op)
}

func (c *followed) replies() {
	defer c.close()
	for first := true; ; first = false {
		frame, err := wire.ReadFrame(c.server, nil, wire.FrameBytesMax)
		if err != nil {
			return
		}
		if !first {
			frame = c.reword(frame)
		}
		if writeFrame(c.client, frame) != nil {
			return
		}
	}
}

// reword changes what a listing shows.
func (c *followed) reword(frame []byte) []byte {
	d := wire.NewDecoder(frame)
	var h wire.ReplyHeader
	h.DecodeFrom(d)
	c.mu.Lock()
	op := c.ops[h.Xid]
	delete(c.ops, h.Xid)
	c.mu.Unlock()
	if c.f.listing == nil || op != wire.OpGetChildren2 || h.Err != zk.OK {
		return frame
	}
	var r wire.ChildrenResponse
	r.DecodeFrom(d)
	r.Children = c.f.listing(c.number, r.Children)
	return r.AppendTo(h.AppendTo(nil))
}

func writeFrame(nc net.Conn, frame []byte) error {
	b, start := wire.BeginFrame(nil)
	_, err := nc.Write(wire.EndFrame(append(b, frame...), start))
	return err
}
