package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/serverlist"
	"github.com/lockkeeper/lockkeeper/internal/socket"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A conn is one connection of a session, from handshake to hang-up. Two goroutines serve it: one writes what is queued and keeps the
// heartbeat (writer.go), the other reads answers and events (reader.go). A caller that is alone does either on its own goroutine.
type conn struct {
	// Fixed when made.
	s       *Session
	nc      net.Conn
	rw      io.ReadWriter // reads and writes nc
	kernel  bool          // nc is a socket of the kernel's: a few kilobytes never wait for the other end
	server  serverlist.Server
	number  uint64
	timeout time.Duration // of the session
	asked   clock.Instant // when the handshake was sent

	out     writeTurn
	in      frameReader  // owned by the goroutine that reads, but for what is fixed
	decoder wire.Decoder // likewise
	turn    readTurn

	// Guarded by s.mu.
	sent     []*call                  // and not answered, in the order of sending
	resuming bool                     // the handshake resumes the session, and no answer behind it has shown yet that it was carried out
	lastBeat [strengths]clock.Instant // by strength: when the newest request was sent that counts as a heartbeat
}

// newConnLocked makes the session's next connection, whose handshake was sent at asked.
func (s *Session) newConnLocked(nc net.Conn, srv serverlist.Server, asked clock.Instant) *conn {
	s.mu.stats.Connections++
	nc.SetWriteDeadline(time.Time{}) // Options.Dial may have left one
	c := &conn{s: s, nc: nc, rw: nc, server: srv, number: s.mu.stats.Connections, timeout: s.mu.timeout, asked: asked}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.kernel, c.rw = true, socket.Direct(nc)
	}
	// A connection is given up when nothing has been heard for two thirds of the session timeout, so that
	// there is time to find another server before the session expires.
	c.in = frameReader{from: c.rw, clock: *s.opt.clock, patience: c.timeout * 2 / 3, bytesMax: s.opt.ReplyBytesMax}
	c.in.hear(time.Now())
	c.turn.wake = make(chan struct{}, 1)
	return c
}

// serve keeps the connection until it breaks or ctx ends, and says why. When it returns, its goroutines have ended.
func (c *conn) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Add(1)
	context.AfterFunc(ctx, func() { hangUp(c.nc); wg.Done() }) // a blocked Read listens to nothing else
	wg.Go(func() { cancel(c.readLoop(ctx)) })
	wg.Go(func() {
		err := c.writeLoop(ctx)
		tell(c.turn.wake)
		select { // what the server said before it hung up, a refusal for instance, may not have been read yet
		case <-ctx.Done():
		case <-time.After(drainTime):
		}
		cancel(err)
	})
	wg.Wait()
	return context.Cause(ctx)
}

// drainTime is how long the reader may go on after the writer has failed.
const drainTime = 100 * time.Millisecond

// hangUp closes nc at once. Closing a TLS connection would first say so to the peer, for up to five seconds if that one does not listen,
// and a goroutine that is blocked in Read would wait that long. What has been written and has not left is taken back: the kernel would go
// on sending it when the network is well again, and the same server would carry it out, behind what was decided on the next connection.
func hangUp(nc net.Conn) {
	if over, ok := nc.(interface{ NetConn() net.Conn }); ok { // a *tls.Conn, or a connection made of one
		defer nc.Close() // which may have more to close, and has no peer left to tell
		nc = over.NetConn()
	}
	if tc, ok := nc.(*net.TCPConn); ok {
		tc.SetLinger(0)
	}
	nc.Close()
}

// message handles an answer or an event. skipped says that b is no more of it than its header.
func (c *conn) message(b []byte, skipped error) error {
	if len(b) < replyHeaderBytes {
		return fmt.Errorf("from %v: message of %d bytes is too short for a header", c.server, len(b))
	}
	d := &c.decoder
	d.Reset(b)
	var h wire.ReplyHeader
	h.DecodeFrom(d)
	s := c.s
	s.mu.Lock()
	if s.mu.conn != c {
		s.mu.Unlock()
		return nil // the session has ended meanwhile
	}
	if h.Xid == wire.XidEvent {
		defer s.mu.Unlock()
		return c.eventLocked(&h, d, skipped)
	}
	k, err := c.dueLocked(&h)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if h.Err == zk.ErrMarshalling && (k.op == wire.OpAddWatch || k.op == wire.OpSetWatches2) {
		h.Err = zk.ErrUnimplemented // a server with WatchManagerOptimized knows these requests, and has no persistent watches
	}
	failure := skipped
	switch {
	case h.Err != zk.OK:
		failure = h.Err
	case skipped == nil && k.decode != nil:
		failure = k.decode(d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.conn != c {
		return nil // and the call with it
	}
	return c.answerLocked(k, &h, d.Err(), failure, skipped != nil)
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
	if h.Zxid > 0 { // since ZooKeeper 3.9, which knows the kinds too (ZOOKEEPER-4472)
		c.s.watches.tellsKinds = true
	}
	if h.Zxid <= 0 || h.Zxid > c.s.mu.lastZxid {
		c.s.mu.ahead = true
	}
	c.s.watches.fire(zk.Event{Type: e.Type, Path: e.Path, Zxid: h.Zxid})
	return nil
}

// dueLocked returns the call that is answered, and notes what the answer proves. Its error ends the connection. Answers come in the order
// of the requests, but those to credentials, watches and pings, which have xids of their own, and zk.ErrUnimplemented may overtake others.
func (c *conn) dueLocked(h *wire.ReplyHeader) (*call, error) {
	if h.Err == zk.ErrConnectionLoss || h.Err == timedOut {
		return nil, fmt.Errorf("%v does not know the outcome of xid %d: %w", c.server, h.Xid, h.Err)
	}
	overtakes := h.Xid < 0 || h.Err == zk.ErrUnimplemented
	i := slices.IndexFunc(c.sent, func(k *call) bool { return k.xid == h.Xid || k.xid > 0 && !overtakes })
	switch {
	case i < 0:
		return nil, fmt.Errorf("from %v: answer to xid %d, which was not sent", c.server, h.Xid)
	case c.sent[i].xid != h.Xid:
		return nil, fmt.Errorf("from %v: answer to xid %d, which is not the next one due", c.server, h.Xid)
	}
	k, s := c.sent[i], c.s
	copy(c.sent[1:], c.sent[:i]) // few, where many may be behind it
	c.sent[0] = k
	s.mu.stats.Replies++
	if h.Xid > 0 && h.Zxid > 0 && !k.own { // a connection may break between the answer to the greeting's transaction and that to its watches
		s.mu.lastZxid = max(s.mu.lastZxid, h.Zxid)
		s.mu.ahead = false
	}
	proven := provenBy(k.op).limitTo(h.Err)
	if c.resuming && proven >= provesPing {
		c.resuming = false
		c.noteHandshakeLocked(provesSync) // the leader was asked whether it knows the session
	}
	s.noteProofLocked(proven, k.sent, c.in.heard)
	c.noteBeatLocked(proven, k.sent) // at the answer: a refusal may prove less than the request promised
	return k, nil
}

// answerLocked completes the call, the first of those that are sent, by its answer: unreadable says that it breaks the protocol,
// failure that the call has failed, skipped that it was too long to be read. Its error ends the connection.
func (c *conn) answerLocked(k *call, h *wire.ReplyHeader, unreadable, failure error, skipped bool) error {
	s := c.s
	c.sent[0] = nil // the array stays, and what k holds may be large
	if len(c.sent) > 1 {
		c.sent = c.sent[1:]
	} else {
		c.sent = c.sent[:0] // which has room for the next request
	}
	if unreadable != nil {
		s.failLocked(k, fmt.Errorf("answer of %v: %w", c.server, unreadable))
		return fmt.Errorf("from %v: answer to %s %s: %w", c.server, k.name, k.path, unreadable)
	}
	k.conn = c.number
	if k.arm != nil {
		if h.Err == zk.OK && failure != nil { // the server has set the watch, but the read that set it has failed
			k.arm.endLocked()
		}
		s.watches.noteOutcome(k, h.Err)
	}
	if failure != nil {
		// An answer that was too large to be read may be that of a write that succeeded.
		k.err = &OpError{Op: k.name, Path: k.path, Err: failure, Maybe: k.writes && h.Err == zk.OK && skipped}
	}
	s.completeLocked(k)
	if h.Xid == wire.XidSetWatches && h.Err != zk.OK { // a caller that waits for them would be blind
		if h.Err == zk.ErrUnimplemented { // the next connection would be refused the same, again and again
			s.watches.endPersistent(zk.ErrUnimplemented)
		}
		return fmt.Errorf("from %v: %s: %w", c.server, k.name, h.Err)
	}
	if k.op == wire.OpAuth && h.Err != zk.OK {
		return &SessionError{ID: s.mu.id, Err: zk.ErrAuthFailed, Detail: fmt.Sprintf("%v refused %s", c.server, describeCredential(k.path))}
	}
	return nil
}

// describeCredential names the scheme of a credential if it is one of ZooKeeper's. Another one may be part of a secret:
// of a file's line USER:PASSWORD, for example, in which the scheme was left out.
func describeCredential(scheme string) string {
	if slices.Contains([]string{"digest", "ip", "sasl", "x509"}, scheme) {
		return "the " + scheme + " credential"
	}
	return "a credential whose scheme is none of ZooKeeper's own"
}
