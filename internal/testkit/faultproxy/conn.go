package faultproxy

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// queueChunks bounds how many reads may wait in one direction of a connection, as the buffers of
// two sockets would: beyond it the sender blocks.
const queueChunks = 256

// chunkBytesMax bounds one read.
const chunkBytesMax = 64 << 10

// A Conn is one client's connection, carried to a server. Four goroutines carry it, two for each
// direction: one reads what arrives into a queue, the other takes frames from the queue, lets the
// rules act on them and sends them on.
type Conn struct {
	Number int    // from 1, in the order in which clients opened them
	Server string // address of the server

	proxy          *Proxy
	client, server net.Conn
	flows          [2]*gate      // by Direction
	cut            chan struct{} // closed by Cut
	cutOnce        sync.Once

	mu struct {
		sync.Mutex
		pending []*exchange   // taken on, and the answer not yet delivered; oldest first
		idle    chan struct{} // if not nil, to be closed when nothing is pending
		opaque  bool          // not a session: a four-letter word and its answer
	}
}

// An exchange is a request on its way.
type exchange struct {
	req      Request
	rules    []*Rule
	answered bool // guarded by Conn.mu
}

// A chunk is what one read returned.
type chunk struct {
	bytes []byte
	err   error // the end
}

func newConn(p *Proxy, number int, address string, client, server net.Conn) *Conn {
	c := &Conn{Number: number, Server: address, proxy: p, client: client, server: server, cut: make(chan struct{})}
	for d, g := range p.flows {
		f, _ := g.get()
		c.flows[d] = newGate(f)
	}
	return c
}

// SetFlow sets what becomes of everything that travels in the given direction on this connection.
func (c *Conn) SetFlow(d Direction, f Flow) { c.flows[d].set(f) }

// Cut breaks the connection: both halves are closed at once, whatever the flows are.
func (c *Conn) Cut() {
	c.cutOnce.Do(func() {
		close(c.cut)
		c.client.Close()
		c.server.Close()
	})
}

// run carries the connection until it ends or ctx does.
func (c *Conn) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.Cut)
	defer stop()
	defer c.Cut()
	requests, replies := make(chan chunk, queueChunks), make(chan chunk, queueChunks)
	var wg sync.WaitGroup
	wg.Go(func() { c.read(c.client, requests) })
	wg.Go(func() { c.read(c.server, replies) })
	wg.Go(func() { c.carryRequests(requests) })
	wg.Go(func() { c.carryReplies(replies) })
	wg.Wait()
}

// read queues what arrives on nc; the error that ends it is queued as well.
func (c *Conn) read(nc net.Conn, queue chan<- chunk) {
	buf := make([]byte, chunkBytesMax)
	for {
		n, err := nc.Read(buf)
		select {
		case queue <- chunk{slices.Clone(buf[:n]), err}:
		case <-c.cut:
			return
		}
		if err != nil {
			return
		}
	}
}

// gone passes on that the side which sends in the given direction has ended, as soon as the network lets it pass.
func (c *Conn) gone(d Direction) {
	if c.flows[d].wait(c.cut) {
		c.Cut()
	}
}

// next returns the next chunk of a queue; ok is false once the connection has been cut.
func (c *Conn) next(queue <-chan chunk) (ch chunk, ok bool) {
	select {
	case ch = <-queue:
		return ch, true
	case <-c.cut:
		return chunk{}, false
	}
}

// carryRequests takes what the client sent to the server.
func (c *Conn) carryRequests(queue <-chan chunk) {
	s := stream{frameBytesMax: wire.FrameBytesMax}
	out := outbox{to: c.server}
	for read := 1; ; read++ {
		ch, ok := c.next(queue)
		if !ok {
			return
		}
		s.push(ch.bytes)
		for frame := range s.frames {
			if !c.carryRequest(frame, s.count, read, &out) {
				return
			}
		}
		if s.err != nil && !c.carryRaw(&s, &out, ToServer) {
			return
		}
		if out.flush() != nil {
			c.gone(ToClient)
			return
		}
		if ch.err != nil {
			c.gone(ToServer)
			return
		}
	}
}

// carryRaw passes on bytes that are not frames: a connection may begin with a four-letter word
// instead of a handshake. Anywhere else such bytes end the connection, as they do at a server.
func (c *Conn) carryRaw(s *stream, out *outbox, d Direction) bool {
	c.mu.Lock()
	c.mu.opaque = c.mu.opaque || d == ToServer && s.count == 0
	opaque := c.mu.opaque
	c.mu.Unlock()
	if !opaque {
		c.Cut()
		return false
	}
	if !c.flows[d].wait(c.cut) {
		return false
	}
	out.add(s.takeAll())
	return true
}

// carryRequest takes one frame, the nth of its connection, to the server; it returns false if
// nothing may follow it.
func (c *Conn) carryRequest(frame []byte, nth, read int, out *outbox) bool {
	if !c.flows[ToServer].wait(c.cut) {
		return false
	}
	req := decodeHandshake(frame[4:])
	if nth > 1 {
		req = decodeRequest(frame[4:])
	}
	req.Conn, req.Server = c.Number, c.Server
	entry := Entry{Conn: c.Number, Kind: Asked, Op: req.Op, Xid: req.Xid, Path: req.Path,
		Steps: req.Steps, Watch: req.Watch, Read: read}
	ex := &exchange{req: req, rules: c.proxy.claim(req)}
	entry.Lost = slices.ContainsFunc(ex.rules, func(r *Rule) bool { return r.cutBefore })
	c.proxy.record(entry)
	for _, r := range ex.rules {
		if r.before == nil && !r.cutBefore {
			continue // it acts on the answer
		}
		if out.flush() != nil {
			c.gone(ToClient)
			return false
		}
		if r.before != nil {
			r.before(req)
			continue
		}
		if c.awaitIdle() {
			c.Cut()
		}
		return false
	}
	c.mu.Lock()
	c.mu.pending = append(c.mu.pending, ex)
	c.mu.Unlock()
	out.add(frame)
	return true
}

// awaitIdle waits until the answers to all requests that went before have been delivered, and
// returns false if the connection was cut before.
func (c *Conn) awaitIdle() bool {
	c.mu.Lock()
	if len(c.mu.pending) == 0 {
		c.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	c.mu.idle = idle
	c.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-c.cut:
		return false
	}
}

// carryReplies takes what the server sent to the client.
func (c *Conn) carryReplies(queue <-chan chunk) {
	s := stream{frameBytesMax: replyBytesMax}
	out := outbox{to: c.client}
	for read := 1; ; read++ {
		ch, ok := c.next(queue)
		if !ok {
			return
		}
		s.push(ch.bytes)
		c.mu.Lock()
		opaque := c.mu.opaque
		c.mu.Unlock()
		if opaque {
			s.err = errOpaque
		}
		for frame := range s.frames {
			if !c.carryReply(frame, s.count, read, &out) {
				return
			}
		}
		if s.err != nil && !c.carryRaw(&s, &out, ToClient) {
			return
		}
		if !c.deliver(&out) {
			return
		}
		if ch.err != nil {
			c.gone(ToClient)
			return
		}
	}
}

// deliver sends what has been gathered for the client, and returns false if nothing may follow.
func (c *Conn) deliver(out *outbox) bool {
	err := out.flush()
	c.mu.Lock()
	c.mu.pending = slices.DeleteFunc(c.mu.pending, func(ex *exchange) bool { return ex.answered })
	if len(c.mu.pending) == 0 && c.mu.idle != nil {
		close(c.mu.idle)
		c.mu.idle = nil
	}
	c.mu.Unlock()
	if err != nil {
		c.gone(ToServer)
		return false
	}
	return true
}

// carryReply takes one frame, the nth of its connection, to the client; it returns false if nothing
// may follow it.
func (c *Conn) carryReply(frame []byte, nth, read int, out *outbox) bool {
	if !c.flows[ToClient].wait(c.cut) {
		return false
	}
	entry := Entry{Conn: c.Number, Kind: Answered, Read: read}
	reply := Reply{Body: frame[4:]}
	if nth > 1 {
		reply = decodeReply(frame[4:])
	}
	entry.Xid, entry.Zxid, entry.Err = reply.Xid, reply.Zxid, reply.Err
	if nth > 1 && reply.Xid == wire.XidEvent {
		var ev wire.WatcherEvent
		ev.DecodeFrom(wire.NewDecoder(reply.Body))
		entry.Kind, entry.Path, entry.EventType = Notified, ev.Path, ev.Type
		c.proxy.record(entry)
		out.add(frame)
		return true
	}

	ex := c.exchangeOf(reply.Xid)
	entry.Op, entry.Path, entry.Steps, entry.Watch = ex.req.Op, ex.req.Path, ex.req.Steps, ex.req.Watch
	cut := slices.ContainsFunc(ex.rules, func(r *Rule) bool { return r.cutAfter })
	entry.Lost = cut
	c.proxy.record(entry)
	for _, r := range ex.rules {
		if r.after == nil && r.hold == 0 {
			continue // it has acted on the request, or cuts
		}
		if !c.deliver(out) {
			return false
		}
		if r.after != nil {
			r.after(ex.req, reply)
		}
		if !c.sleep(r.hold) {
			return false
		}
	}
	if !cut {
		out.add(frame)
	}
	c.mu.Lock()
	ex.answered = true
	c.mu.Unlock()
	if cut && c.deliver(out) {
		c.Cut()
	}
	return !cut
}

// exchangeOf returns the oldest exchange without an answer that has the given xid; an empty one if
// the server has made the answer up. Answers come in the order of the requests, but pings and
// authentications, which share an xid of their own, may overtake.
func (c *Conn) exchangeOf(xid int32) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ex := range c.mu.pending {
		if ex.req.Xid == xid && !ex.answered {
			return ex
		}
	}
	return &exchange{}
}

// sleep waits for d, and returns false if the connection was cut before it was over.
func (c *Conn) sleep(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.cut:
		return false
	}
}
