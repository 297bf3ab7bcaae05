package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A conn is one connection of a session, from handshake to hang-up. Two goroutines serve it: one
// writes what is queued and keeps the heartbeat, the other reads answers and events.
type conn struct {
	// Fixed when made.
	s       *Session
	nc      net.Conn
	server  server
	number  uint64
	timeout time.Duration // granted

	// Owned by the writer.
	out []byte

	// Guarded by s.mu: what has been sent and not answered, each in the order of sending.
	inFlight fifo                 // ordinary requests
	special  map[int32]*fifo      // credentials and watches, by their fixed xid
	pings    []clock.Instant      // when each was sent
	lastBeat [strengths]time.Time // by strength: when the last heartbeat was sent, or request that was answered like one
}

// newConn makes a connection whose handshake was sent at asked. Heartbeats are counted from then, as the
// age of the session is: a server may have taken most of the timeout for its answer.
func newConn(s *Session, nc net.Conn, srv server, number uint64, timeout time.Duration, asked clock.Instant) *conn {
	c := &conn{s: s, nc: nc, server: srv, number: number, timeout: timeout, special: map[int32]*fifo{}}
	for i := range int(provesSync) {
		c.lastBeat[i] = asked.Time()
	}
	return c
}

// A connection is given up when nothing has been heard for two thirds of the session timeout, so that
// there is time to find another server before the session expires.
func (c *conn) readTimeout() time.Duration { return c.timeout * 2 / 3 }

// serve keeps the connection until it breaks or ctx ends, and says why. When it returns, its goroutines
// have ended.
func (c *conn) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hungUp := make(chan struct{})
	context.AfterFunc(ctx, func() { hangUp(c.nc); close(hungUp) }) // a blocked Read listens to nothing else
	var wg sync.WaitGroup
	wg.Go(func() { cancel(c.readLoop()) })
	wg.Go(func() {
		err := c.writeLoop(ctx)
		select { // what the server said before it hung up, a refusal for instance, may not have been read yet
		case <-ctx.Done():
		case <-time.After(drainTime):
		}
		cancel(err)
	})
	wg.Wait()
	<-hungUp
	return context.Cause(ctx)
}

// drainTime is how long the reader may go on after the writer has failed.
const drainTime = 100 * time.Millisecond

// hangUp closes nc at once. Closing a TLS connection would first say so to the peer, for up to five
// seconds if that one does not listen, and whoever is blocked in Read would wait that long. What has been
// written and has not left is taken back: the kernel would go on sending it when the network is well again,
// and the same server would carry it out, behind what was decided on the next connection.
func hangUp(nc net.Conn) {
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	if tc, ok := nc.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
	nc.Close()
}

// failInFlightLocked completes what was sent: its outcome is unknown.
func (c *conn) failInFlightLocked(err error) {
	for k := c.inFlight.pop(); k != nil; k = c.inFlight.pop() {
		c.s.failLocked(k, err, true)
	}
	for _, f := range c.special {
		for k := f.pop(); k != nil; k = f.pop() {
			c.s.failLocked(k, err, true)
		}
	}
}

// writeLoop sends what is queued, all of it in one write, and heartbeats when they are due.
func (c *conn) writeLoop(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.takeQueue()
		if len(c.out) > 0 {
			if err := c.flush(); err != nil {
				return err
			}
			continue
		}
		wait := c.heartbeat()
		if len(c.out) > 0 {
			if err := c.flush(); err != nil {
				return err
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.s.wake:
		case <-timer.C:
		}
	}
}

// outBytesMax bounds what is written at once: pipelines beyond it come next.
const outBytesMax = 1 << 20

// takeQueue moves what is queued into the write buffer and among what is in flight.
func (c *conn) takeQueue() {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.over != nil {
		return
	}
	if len(s.mu.queue) == 0 {
		return
	}
	now := s.opt.clock.Now()
	n := 0
	for _, k := range s.mu.queue {
		if len(c.out) > outBytesMax && !k.joined { // or the rest could leave on another connection
			break
		}
		n++
		if k.stage == queued { // not withdrawn
			c.sendLocked(k, now)
		}
	}
	rest := copy(s.mu.queue, s.mu.queue[n:])
	clear(s.mu.queue[rest:])
	s.mu.queue = s.mu.queue[:rest]
}

// sendLocked puts k into the write buffer.
func (c *conn) sendLocked(k *call, now clock.Instant) {
	line := &c.inFlight
	switch k.op {
	case wire.OpAuth:
		k.xid, line = wire.XidAuth, c.specialLine(wire.XidAuth)
	case wire.OpSetWatches, wire.OpSetWatches2:
		k.xid, line = wire.XidSetWatches, c.specialLine(wire.XidSetWatches)
	default:
		k.xid = c.s.nextXidLocked()
	}
	binary.BigEndian.PutUint32(k.frame[xidOffset:], uint32(k.xid))
	c.out = append(c.out, k.frame...)
	k.frame = nil
	k.stage, k.sent = inFlight, now
	line.push(k)
	c.s.mu.stats.Requests++
}

func (c *conn) specialLine(xid int32) *fifo {
	f := c.special[xid]
	if f == nil {
		f = new(fifo)
		c.special[xid] = f
	}
	return f
}

// noteBeatLocked notes that the next heartbeat that proves no more than p is due an interval after sent.
func (c *conn) noteBeatLocked(p proof, sent clock.Instant) {
	for i := range int(p) {
		if sent.Time().After(c.lastBeat[i]) {
			c.lastBeat[i] = sent.Time()
		}
	}
}

// flush writes the buffer, in one call unless a pipeline of megabytes is in it. A server that takes nothing for as
// long as it may be silent is given up.
func (c *conn) flush() (err error) {
	for rest := c.out; len(rest) > 0 && err == nil; {
		piece := rest[:min(len(rest), 2*outBytesMax)]
		rest = rest[len(piece):]
		c.nc.SetWriteDeadline(time.Now().Add(c.readTimeout()))
		c.s.mu.Lock()
		c.s.mu.stats.Writes++ // before it, so that whoever has an answer finds the write counted
		c.s.mu.Unlock()
		_, err = c.nc.Write(piece)
	}
	if cap(c.out) > 2*outBytesMax {
		c.out = nil
	}
	c.out = c.out[:0]
	if err != nil {
		return fmt.Errorf("write to %v: %w", c.server, err)
	}
	return nil
}

// readLoop takes what the server sends until the connection ends.
func (c *conn) readLoop() error {
	in := &patientReader{nc: c.nc, timeout: c.readTimeout()}
	r := bufio.NewReaderSize(in, 16<<10)
	var buf []byte
	for {
		var head [4]byte
		in.free()
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return c.readError(in, err)
		}
		n, err := wire.FrameLength(head, c.s.opt.ReplyBytesMax)
		var size *wire.FrameSizeError
		if errors.As(err, &size) && size.Length > 0 {
			in.expect(int64(size.Length) - int64(r.Buffered()))
			if err := c.skipReply(r, int64(size.Length)); err != nil {
				return c.readError(in, err)
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("from %v: %w", c.server, err)
		}
		in.expect(int64(n - r.Buffered()))
		if buf, err = wire.ReadBody(r, buf, n); err != nil {
			return c.readError(in, err)
		}
		if err := c.message(buf); err != nil {
			return err
		}
		if cap(buf) > keepBufferMax {
			buf = nil
		}
	}
}

// keepBufferMax is how large a read buffer may stay between two messages.
const keepBufferMax = 64 << 10

func (c *conn) readError(in *patientReader, err error) error {
	var netErr net.Error
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%v hung up", c.server)
	case errors.As(err, &netErr) && netErr.Timeout():
		if !in.due.IsZero() {
			return fmt.Errorf("%v began a message and sent less than %d bytes a second of it", c.server, slowest)
		}
		return fmt.Errorf("nothing heard from %v for %v", c.server, c.readTimeout())
	}
	return fmt.Errorf("read from %v: %w", c.server, err)
}

// A patientReader gives every Read the same time, and the rest of a message that has begun no more than its length
// deserves: a server that sends a byte now and then is not alive.
type patientReader struct {
	nc      net.Conn
	timeout time.Duration
	due     time.Time // when what is expected has to be there; zero if nothing is
}

// slowest is how many bytes a second are enough to keep a connection.
const slowest = 64 << 10

// expect says that so many more bytes belong to a message.
func (r *patientReader) expect(bytes int64) {
	if bytes > 0 {
		r.due = time.Now().Add(r.timeout + time.Duration(bytes)*time.Second/slowest)
	}
}

// free says that no message has begun.
func (r *patientReader) free() { r.due = time.Time{} }

func (r *patientReader) Read(b []byte) (int, error) {
	due := r.due
	if due.IsZero() {
		due = time.Now().Add(r.timeout)
	}
	r.nc.SetReadDeadline(due)
	return r.nc.Read(b)
}

// skipReply fails the request whose answer is larger than we read, and goes on behind it: a listing
// that is too long must not end the connection, again and again.
func (c *conn) skipReply(r *bufio.Reader, length int64) error {
	head := make([]byte, replyHeaderBytes)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, r, length-replyHeaderBytes); err != nil {
		return err
	}
	return c.reply(wire.NewDecoder(head), &SizeError{Bytes: length, Max: c.s.opt.ReplyBytesMax})
}

const replyHeaderBytes = 16

// message takes one message of the server.
func (c *conn) message(b []byte) error {
	if len(b) < replyHeaderBytes {
		return fmt.Errorf("from %v: message of %d bytes is too short for a header", c.server, len(b))
	}
	return c.reply(wire.NewDecoder(b), nil)
}

// reply handles an answer or an event. skipped says that its content was not read.
func (c *conn) reply(d *wire.Decoder, skipped error) error {
	var h wire.ReplyHeader
	h.DecodeFrom(d)
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn != c {
		return nil // the session has ended meanwhile
	}
	if h.Err == zk.ErrConnectionLoss || h.Err == timedOut {
		return fmt.Errorf("%v does not know the outcome of xid %d: %w", c.server, h.Xid, h.Err)
	}
	switch h.Xid {
	case wire.XidEvent:
		return c.eventLocked(&h, d, skipped)
	case wire.XidPing:
		if len(c.pings) == 0 {
			return fmt.Errorf("from %v: answer to a ping that was not sent", c.server)
		}
		s.vouchLocked(provesPing, c.pings[0])
		c.pings = append(c.pings[:0], c.pings[1:]...)
		s.mu.stats.Replies++
		return nil
	case wire.XidAuth, wire.XidSetWatches:
		k := c.specialLine(h.Xid).pop()
		if k == nil {
			return fmt.Errorf("from %v: answer to xid %d, which was not sent", c.server, h.Xid)
		}
		return c.answerLocked(k, &h, d, skipped)
	}
	if k := c.inFlight.peek(); k == nil || k.xid != h.Xid {
		return fmt.Errorf("from %v: answer to xid %d, which is not the next one due", c.server, h.Xid)
	}
	return c.answerLocked(c.inFlight.pop(), &h, d, skipped)
}

// timedOut is what ClickHouse Keeper says, besides zk.ErrConnectionLoss, of a request that it has lost track of, and
// that may yet be carried out. ZooKeeper hangs up instead.
const timedOut zk.Code = -7

func (c *conn) eventLocked(h *wire.ReplyHeader, d *wire.Decoder, skipped error) error {
	var e wire.WatcherEvent
	e.DecodeFrom(d)
	if err := errors.Join(skipped, d.Err()); err != nil {
		return fmt.Errorf("from %v: watch event: %w", c.server, err)
	}
	c.s.mu.stats.Events++
	c.s.watches.fire(zk.Event{Type: e.Type, Path: e.Path, Zxid: h.Zxid}, c.number)
	return nil
}

// answerLocked completes k with what the server said. Its error ends the connection.
func (c *conn) answerLocked(k *call, h *wire.ReplyHeader, d *wire.Decoder, skipped error) error {
	s := c.s
	s.mu.stats.Replies++
	if h.Zxid > s.mu.lastZxid && h.Xid > 0 {
		s.mu.lastZxid = h.Zxid
	}
	s.vouchLocked(k.proves.given(h.Err), k.sent)
	c.noteBeatLocked(k.proves.given(h.Err), k.sent) // no sooner: whoever sees it first may refuse it, which proves less
	failure := skipped
	switch {
	case h.Err != zk.OK:
		failure = h.Err
	case skipped == nil && k.answer != nil:
		failure = k.answer.decode(s, d)
	}
	if err := d.Err(); err != nil {
		s.failLocked(k, fmt.Errorf("answer of %v: %w", c.server, err), true)
		return fmt.Errorf("from %v: answer to %s %s: %w", c.server, k.name, k.path, err)
	}
	if k.answer != nil {
		k.answer.settle(s, c.number, h.Err, true)
	}
	k.conn = c.number
	if failure != nil {
		// An answer that was too large to be read may be that of a write that succeeded.
		k.err = &OpError{Op: k.name, Path: k.path, Err: failure, Maybe: k.write && h.Err == zk.OK && skipped != nil}
	}
	s.completeLocked(k)
	if refusedWatches(k, h.Err) {
		return fmt.Errorf("from %v: %s: %w", c.server, k.name, h.Err)
	}
	if k.op == wire.OpAuth && h.Err != zk.OK {
		return &SessionError{ID: s.mu.id, Err: zk.ErrAuthFailed, Detail: fmt.Sprintf("%v refused the %s credential", c.server, k.path)}
	}
	return nil
}
