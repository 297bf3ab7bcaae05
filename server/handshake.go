package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An attachment is a connection's wish for a session, on its way through the queue.
type attachment struct {
	req      wire.ConnectRequest
	timeout  time.Duration // granted
	fresh    bool          // the session is new
	previous uint64        // owner until now
	refused  bool          // the session does not exist, or not any more
	unproved bool          // the session has shown identities that the connection has not

	// auth is the request that showed the last identity, if the connect request was answered before; it is answered
	// when the connection has the session.
	auth *wire.RequestHeader
}

// greet reads the first frame. If it was a four-letter word instead, it answers that; then, and if it is no connect
// request, it reports false.
func (c *conn) greet() (*wire.ConnectRequest, bool) {
	_, secure := c.nc.(*tls.Conn)
	if secure && !c.wait(tlsCost) { // before the handshake, which the first Peek begins
		return nil, false
	}
	head, err := c.in.Peek(4)
	if err != nil {
		if secure {
			c.s.gate.punish(c.address, c.s.now())
		}
		c.blameTLS(err)
		return nil, false
	}
	if !c.wait(1) {
		return nil, false
	}
	if id, ok := certIdentity(c.nc); ok {
		ids := c.who.With(id)
		if id.ID == c.s.opts.SuperSubject {
			ids = ids.With(tree.Identity{Scheme: tree.SchemeSuper})
		}
		c.knowBy(ids)
	}
	if c.answerWord(string(head)) {
		return nil, false
	}
	n, err := wire.FrameLength([4]byte(head), connectBytesMax)
	if err != nil {
		c.refuseFrame()
		return nil, false
	}
	c.in.Discard(4)
	body, err := wire.ReadBody(c.in, nil, n)
	if err != nil {
		return nil, false
	}
	q := new(wire.ConnectRequest)
	if err := wire.Unmarshal(body, q); err != nil {
		c.s.log.Debug("connect request cannot be read", "remote", c.nc.RemoteAddr().String(), "err", err)
		c.refuseFrame()
		return nil, false
	}
	c.s.counters.received.Add(1)
	c.s.counters.connects.Add(1)
	c.counters.received.Add(1)
	return q, true
}

// refuseFrame closes a connection whose first frame is no connect request. What else it sends is not read, since no answer
// is on its way that the close could overtake.
func (c *conn) refuseFrame() {
	c.s.gate.punish(c.address, c.s.now())
	c.nc.Close()
}

// blameTLS says in the log why a client with the wrong certificate, or none, or without TLS, got no
// further. It does not see it on its side: in TLS 1.3 it learns of a refusal only behind the handshake.
func (c *conn) blameTLS(err error) {
	tc, ok := c.nc.(*tls.Conn)
	if !ok || tc.ConnectionState().HandshakeComplete || errors.Is(err, io.EOF) {
		return
	}
	if unsaid, ok := c.s.tlsLog.due(c.s.now()); ok {
		c.s.log.Warn("TLS handshake failed", "remote", c.nc.RemoteAddr().String(), "err", err, "unsaid", unsaid)
	}
}

// attach gets the connection its session and reports whether it has one. The password is checked
// before anything else happens to the session: a client that knows only an id cannot take the owner's place.
func (c *conn) attach(q *wire.ConnectRequest) bool {
	s := c.s
	if last := s.lastZxid.Load(); q.LastZxid > last {
		if unsaid, ok := s.aheadLog.due(s.now()); ok {
			s.log.Warn("client has seen more than this server has; it is told to look elsewhere",
				"remote", c.nc.RemoteAddr().String(), "client zxid", zxidText(q.LastZxid), "zxid", zxidText(last), "unsaid", unsaid)
		}
		return false
	}
	if q.SessionID != 0 {
		if !s.issuer.Accepts(q.SessionID, q.Password) {
			s.gate.punish(c.address, s.now())
			c.greetBack(q, 0, 0)
			return false
		}
	}
	auth, ok := c.prove(q)
	if !ok {
		return false
	}
	if q.SessionID != 0 { // The client lives. It must not lose its session because the disk keeps its turn away.
		s.sessions.Lock()
		s.sessions.table.Renew(q.SessionID, s.now())
		s.sessions.Unlock()
	}
	r := requests.Get().(*request)
	done := make(chan struct{})
	r.conn, r.received, r.done = c, s.now(), done
	r.attach = &attachment{
		req:     *q,
		timeout: c.negotiate(q),
		auth:    auth,
	}
	// From here on the session's timeout is the limit. Not later: once the request
	// is in the queue, the committer may set deadlines of its own, because another connection has taken the session.
	c.setDeadline(time.Time{})
	c.asks.Store(q.SessionID)
	s.queue.add(r)
	s.commitInline(c)
	<-done
	c.asks.Store(0)
	return c.session != 0
}

// decideAttach gives the session to the connection: from here on, requests of the previous one are
// dropped when their turn comes.
func (s *Server) decideAttach(r *request) {
	a, now := r.attach, s.now()
	s.sessions.Lock()
	defer s.sessions.Unlock()
	table := s.sessions.table
	a.fresh = a.req.SessionID == 0
	if a.fresh {
		r.session = s.issuer.Next(table)
		table.Add(r.session, a.timeout, r.conn.id, now)
		table.Show(r.session, r.conn.id, r.conn.proofs)
		r.fate, r.txn = logged, s.draft.CreateSession(s.place(r), int32(a.timeout.Milliseconds()))
		return
	}
	r.session, r.fate = a.req.SessionID, unlogged
	a.unproved = table.Missing(r.session, r.conn.proofs)
	if a.unproved {
		return // the owner has shown another one meanwhile
	}
	var ok bool
	a.previous, ok = table.Attach(r.session, a.timeout, r.conn.id, now)
	a.refused = !ok
	table.Show(r.session, r.conn.id, r.conn.proofs)
}

// finishAttach answers a connect request; Server.state is locked.
func (s *Server) finishAttach(r *request) {
	c, a := r.conn, r.attach
	switch {
	case a.unproved, a.refused && a.auth != nil:
		return // the connection is closed; the client asks again
	case a.refused:
		c.greetBack(&a.req, 0, 0)
		return
	}
	old := s.connection(a.previous)
	if old != nil {
		s.fence(old)
	}
	c.session, c.timeout = r.session, a.timeout
	if !a.fresh {
		s.audit.noteMove(c, old, s.now())
	}
	if a.auth != nil {
		c.answerAuth(*a.auth, zk.OK)
	} else {
		c.greetBack(&a.req, r.session, a.timeout)
	}
	if a.fresh {
		c.took(wire.RequestHeader{Op: wire.OpCreateSession}, r.txn.Zxid, r.received, s.now())
	}
	s.expiry.mind(s.sessions.table.Deadline(s.now(), a.timeout))
}

// fence takes the session away from a connection; Server.state is locked. It reports whether the connection has watches
// still, which detach takes away: as it is closed, no event leaves any more.
func (s *Server) fence(c *conn) (watches bool) {
	c.fenced.Store(true)
	c.out.finish()
	s.watchMu.Lock()
	defer s.watchMu.Unlock()
	return s.watches.RemoveSome(watch.Watcher(c.id), pieceReads)
}

// greetBack answers a connect request; a session of 0 says that there is none.
func (c *conn) greetBack(q *wire.ConnectRequest, id int64, timeout time.Duration) {
	password := make([]byte, session.PasswordBytes)
	if id != 0 {
		p := c.s.issuer.Password(id)
		copy(password, p[:])
	}
	answer := wire.ConnectResponse{
		Timeout: int32(timeout.Milliseconds()), SessionID: id, Password: password, HasReadOnly: q.HasReadOnly,
	}
	b, start := c.out.beginBare()
	c.out.end(answer.AppendTo(b), start)
	c.out.flush()
	c.counters.sent.Add(1)
	c.s.counters.sent.Add(1)
}

// negotiate returns the timeout to grant to a connect request.
func (c *conn) negotiate(q *wire.ConnectRequest) time.Duration {
	return session.Negotiate(q.Timeout, c.s.opts.MinSessionTimeout, c.s.opts.MaxSessionTimeout)
}

func sessionID(id int64) string  { return fmt.Sprintf("0x%x", uint64(id)) }
func zxidText(zxid int64) string { return fmt.Sprintf("0x%x", uint64(zxid)) }
