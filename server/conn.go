package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/threads"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// conn is a client's connection. It has two goroutines. The reader reads requests, answers reads and puts the other
// requests into the queue; the other one sends (output.run).
//
// The state of a connection belongs to one goroutine at a time, which has the turn: the reader while no request of the
// connection is in the queue, else the committer. So the state needs no lock, and answers stay in order.
type conn struct {
	// Fixed when it is accepted.
	s       *Server
	id      uint64 // owner of its session, and watcher
	nc      net.Conn
	input   inputProbe
	in      *bufio.Reader
	out     *output
	address string // that it is counted under; "" if it is not
	opened  time.Time

	// Fixed by the handshake.
	session int64
	timeout time.Duration

	// Owned by the reader.
	deadline time.Duration // when the session expires, as last reported to the table
	frame    []byte        // for requests that are over when they are answered
	inline   bool          // it commits its requests itself if there is no committer
	gathers  bool          // more has arrived meanwhile: commitLoop commits while it reads on

	// Owned by the goroutine that has the turn.
	who    tree.Identities // also guarded by out.mu: the committer reads it for events
	proofs []session.Proof // of who
	ended  bool            // no request is carried out any more
	turn   turn            // the read being answered

	// fenced is set while Server.state is locked. A reader that finds it set must not read the tree any more: the
	// session belongs to another connection, or is over.
	fenced atomic.Bool
	events int // how many have been sent; guarded by Server.state

	behind    int  // how many of its requests are in queue.later; guarded by queue.mu, as the next two are
	work      int  // what its requests of several operations are worth that came since items was taken last
	workTaken int  // queue.taken then
	dirty     bool // owned by the committer: the connection has something to send at the end of the batch

	pendingWork atomic.Int64 // what its requests that are pending are worth, in operations

	asks     atomic.Int64 // the session that it has asked for and is waiting for; 0 if there is none
	waits    atomic.Bool  // its reader waits until the client's requests in the queue are answered
	reading  atomic.Int64 // when it began to read a large request, on the server's clock; 0 if it reads none
	counters connCounters
	asking   atomic.Bool // a four-letter word
}

// readBufferBytes is what a connection reads ahead.
const readBufferBytes = 4 << 10

func (s *Server) newConn(id uint64, nc net.Conn) *conn {
	c := &conn{
		s: s, id: id, nc: nc, input: newInputProbe(nc), opened: time.Now(),
		in:  bufio.NewReaderSize(nc, readBufferBytes),
		out: newOutput(nc, s.opts.OutputBytesMax, &s.throttle, s.answers),
		who: tree.Identities{{Scheme: tree.SchemeIP, ID: ipOf(nc.RemoteAddr())}},
	}
	c.out.taken = c.keepAlive
	c.counters.reset()
	return c
}

// serve handles the connection from its first byte to its end.
func (c *conn) serve() {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		c.out.run()
	}()
	c.setDeadline(time.Now().Add(c.s.opts.HandshakeTimeout))
	if q, ok := c.greet(); ok && c.attach(q) {
		err := c.readRequests()
		c.s.commitInline(c)
		if c.s.isDraining() {
			c.out.drain()
		} else if err != nil && !errors.Is(err, io.EOF) && !c.out.isClosed() {
			c.s.log.Debug("connection ends", "remote", c.nc.RemoteAddr().String(), "session", sessionID(c.session), "err", err)
		}
	}
	c.out.awaitSent()
	c.out.finish()
	<-sent
	if held, greedy := c.out.cutOff(); greedy {
		c.s.logGreedy(c, held)
	}
	c.drain()
	c.nc.Close()
	c.s.detach(c)
}

// setDeadline sets the deadline of the connection, but to read nothing more if Shutdown has been called: it may have set the
// deadline that is replaced here.
func (c *conn) setDeadline(at time.Time) {
	c.nc.SetDeadline(at)
	if c.s.isDraining() {
		c.nc.SetReadDeadline(time.Now())
	}
}

// drain reads what the peer goes on to send, until it hangs up or the deadline that output.run has set: a connection that is
// closed before that is reset, and the peer loses the last answers. A connection that has lost its session is not owed
// so much.
func (c *conn) drain() {
	var from io.Reader = c.nc
	if c.fenced.Load() {
		from = io.LimitReader(from, largeAnswerBytes)
	}
	io.Copy(io.Discard, from)
}

// readRequests carries out one request after the other until an error occurs or the connection ends; then the error is
// nil.
func (c *conn) readRequests() error {
	var now time.Duration // on the server's clock; of a frame read ahead, when the last one was answered
	here := false         // the frame was read ahead
	queued := false       // the request before was put into the queue
	for {
		head, err := c.in.Peek(4)
		if err != nil {
			return err
		}
		n, err := wire.FrameLength([4]byte(head), c.s.opts.FrameBytesMax)
		if err != nil {
			return err
		}
		if n < requestHeadBytes-4 {
			return errShortRequest
		}
		if head, err = c.in.Peek(requestHeadBytes); err != nil {
			return err
		}
		var h wire.RequestHeader
		h.DecodeFrom(wire.NewDecoder(head[4:]))
		c.in.Discard(4)
		c.s.counters.received.Add(1)
		c.counters.received.Add(1)

		if c.out.pending.Load() > 0 || isWrite(h.Op) || h.Op == wire.OpSync {
			if err := c.submit(h, n); err != nil {
				return err
			}
			queued = true
			here = false
			if c.inline && !c.nextIsHere() {
				c.s.commitInline(c)
			}
			continue
		}
		if c.frame, err = c.readBody(c.frame, n); err != nil {
			return err
		}
		if !here {
			now = c.s.now() // the request has arrived only now
		}
		if c.ended || !c.touch(h.Op, now) {
			return nil
		}
		if queued && c.out.size() > outputFlush {
			c.out.write() // so that no more gathers behind it
		}
		queued = false
		now = c.answerNow(h, c.frame[requestHeadBytes-4:], now)
		if c.ended {
			return nil
		}
		if cap(c.frame) > frameKeep {
			c.frame = nil
		}
		here = c.nextIsHere()
		if !here || c.out.size() > outputFlush {
			c.out.write()
			here = false // time has passed if the client was slow to take it
		}
	}
}

// nextIsHere reports whether another whole frame has been read ahead. Then the answers can leave with the answer to that
// one.
func (c *conn) nextIsHere() bool {
	here := c.in.Buffered()
	if here < requestHeadBytes {
		return false
	}
	head, _ := c.in.Peek(4)
	n, err := wire.FrameLength([4]byte(head), c.s.opts.FrameBytesMax)
	return err == nil && n+4 <= here
}

// inputWaits reports whether the client has sent more than has been read.
func (c *conn) inputWaits() bool { return c.in.Buffered() > 0 || c.input.waits() }

const (
	requestHeadBytes = 12       // a frame's length, a request's xid and op
	frameKeep        = 64 << 10 // a larger buffer is not kept from one request to the next
)

var (
	errShortRequest = errors.New("frame too short for a request")
	errSessionOver  = errors.New("session has ended or moved to another connection")
)

// readBody reads the body of a request. The memory of large ones that arrive at the same time is bounded: while it is used
// up, further ones wait, and the connection that has taken the longest for its request is closed. A client that waits cannot
// be heard, and keeps its session. It does not while its request is being read: that has to arrive within the timeout.
func (c *conn) readBody(buf []byte, n int) ([]byte, error) {
	if n <= largeAnswerBytes {
		return wire.ReadBody(c.in, buf, n)
	}
	s := c.s
	look := func() {
		s.cutSlowest()
		c.keepAlive()
	}
	if !s.frames.reserve(int64(n), look, c.out.isClosed) {
		return nil, errSessionOver
	}
	defer s.frames.add(int64(-n))
	c.reading.Store(int64(s.now()))
	defer c.reading.Store(0)
	return wire.ReadBody(c.in, buf, n)
}

// submit puts a request into the queue.
func (c *conn) submit(h wire.RequestHeader, n int) error {
	if c.out.pending.Load() == 0 {
		c.out.write() // what was answered here must not wait for the sync
		c.inline, c.gathers = !c.gathers, false
	}
	r := requests.Get().(*request)
	var err error
	if r.frame, err = c.readBody(r.frame, n); err != nil {
		return err
	}
	now := c.s.now()
	if !c.touch(h.Op, now) {
		return errSessionOver
	}
	if h.Op == wire.OpCloseSession && c.out.sendsMuch() {
		c.s.commitInline(c) // as below
		c.out.awaitSent()
	}
	r.conn, r.session, r.xid, r.op, r.weight, r.received = c, c.session, h.Xid, h.Op, n, now
	body := r.frame[requestHeadBytes-4:]
	r.weight += c.s.answerBytes(h.Op, body)
	if isWrite(h.Op) {
		c.decodeWrite(r, body)
		if h.Op == wire.OpCloseSession {
			r.work = int(c.pendingWork.Load()) // creates, maybe; those carried out from now on count twice
			r.work += c.s.workOfClose(c.session)
		}
	} else {
		r.body = body
	}
	if !isWrite(h.Op) && (r.weight-n > largeAnswerBytes || takesLong(h.Op, len(body)) || costsLater(h.Op)) {
		return c.answerBehind(r, h, body)
	}
	if limit := c.s.opts.OutstandingMax; c.out.full(limit) {
		c.s.commitInline(c) // there may be no other committer for what is waited for
		c.unheard(func() { c.out.awaitRoom(limit) })
	}
	if !c.out.count(r.weight) {
		return nil
	}
	c.pendingWork.Add(int64(r.work))
	if c.inline {
		c.s.queue.add(r)
	} else {
		c.s.queue.put(r)
	}
	return nil
}

// noteDone notes that a request, put into the queue, is done with.
func (c *conn) noteDone(r *request) {
	c.pendingWork.Add(int64(-r.work))
	c.out.noteAnswer(r.weight)
}

// unheard calls wait, which waits until requests of the client are answered. The session lives meanwhile (renewWaiting), and
// after a long wait for as long as after a request: what the client has sent is read next.
func (c *conn) unheard(wait func()) {
	began := c.s.now()
	c.waits.Store(true)
	wait()
	if c.s.now()-began > c.s.opts.TickTime/2 {
		c.keepAlive()
	}
	c.waits.Store(false)
}

// decodeWrite decodes a write, of several large ones one at a time: many at once would keep the processors from everything
// else.
func (c *conn) decodeWrite(r *request, body []byte) {
	if len(body) > largeAnswerBytes {
		defer c.keepSession()()
		threads.Need()
		c.s.large <- struct{}{}
		defer func() { <-c.s.large }()
	}
	r.decodeWrite(body, c.s.opts.MultiOpsMax, c.s.opts.reconfigCode())
}

// touch notes that the client lives. It reports false if the connection does not own its session any
// more. Authentication does not count as a sign of life, as in ZooKeeper.
func (c *conn) touch(op wire.Op, now time.Duration) bool {
	if op == wire.OpAuth || op == wire.OpSASL {
		return true
	}
	s := c.s
	d := s.sessions.table.Deadline(now, c.timeout)
	if d == c.deadline {
		return true // nothing to tell the table
	}
	s.sessions.Lock()
	defer s.sessions.Unlock()
	c.deadline = d
	owns := s.sessions.table.Touch(c.session, c.id, now)
	s.expiry.mind(d) // earlier than before, if the connection was granted a shorter timeout
	return owns
}

// keepAlive notes that the client lives, though it may not be heard at the moment. Any goroutine may call it.
func (c *conn) keepAlive() {
	s := c.s
	s.sessions.Lock()
	defer s.sessions.Unlock()
	s.sessions.table.Touch(c.session, c.id, s.now())
}
