package server

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// prove keeps a connection away from a session until the connection has shown each identity that the session has shown
// before: certificates and digests. Until then, the session stays with its owner, and only authentication is carried
// out. So the password alone, which travels in clear without TLS and can be computed where Options.ApachePasswords is
// set, neither ends a session nor takes it from its owner.
//
// Clients authenticate behind the answer to the connect request, or without waiting for it. So that answer is given
// at once, and the last auth request is answered only when the connection has the session: prove returns its header. It
// returns nil if nothing has to be shown, and the connect request is still to be answered.
//
// The identities of a session are in memory only. After a restart the password is all that a client needs, until the
// session has shown its identities again.
func (c *conn) prove(q *wire.ConnectRequest) (auth *wire.RequestHeader, ok bool) {
	if !c.mustProve(q.SessionID) {
		return nil, true
	}
	c.greetBack(q, q.SessionID, c.negotiate(q))
	for {
		h, body, err := c.readAuth()
		if err != nil {
			c.refuseUnproved(q.SessionID, err)
			return nil, false
		}
		if code := c.authenticate(h.Op, body); code != zk.OK {
			c.answerAuth(h, code)
			return nil, false
		}
		if !c.mustProve(q.SessionID) {
			return &h, true
		}
		c.answerAuth(h, zk.OK)
		c.out.flush()
	}
}

// mustProve reports whether the session has shown an identity that the connection has not.
func (c *conn) mustProve(id int64) bool {
	s := c.s
	s.sessions.Lock()
	defer s.sessions.Unlock()
	return id != 0 && s.sessions.table.Missing(id, c.proofs)
}

// readAuth reads an auth request.
func (c *conn) readAuth() (h wire.RequestHeader, body []byte, err error) {
	head, err := c.in.Peek(4)
	if err != nil {
		return h, nil, err
	}
	n, err := wire.FrameLength([4]byte(head), identityBytesMax)
	if err != nil {
		return h, nil, err
	}
	c.in.Discard(4)
	if body, err = wire.ReadBody(c.in, nil, n); err != nil {
		return h, nil, err
	}
	if len(body) < requestHeadBytes-4 {
		return h, nil, errShortRequest
	}
	c.s.counters.received.Add(1)
	c.counters.received.Add(1)
	h.DecodeFrom(wire.NewDecoder(body))
	if h.Op != wire.OpAuth && h.Op != wire.OpSASL {
		return h, nil, fmt.Errorf("%w: %v", errUnproved, h.Op)
	}
	return h, body[requestHeadBytes-4:], nil
}

var errUnproved = errors.New("request before authentication")

// refuseUnproved notes that a connection has asked for a session without showing the session's identities.
func (c *conn) refuseUnproved(id int64, err error) {
	s := c.s
	if s.isDraining() {
		return
	}
	s.gate.punish(c.address, s.now())
	if unsaid, ok := s.authLog.due(s.now()); ok {
		s.log.Warn("session kept from a connection that has not shown the identities of the session", "remote", c.nc.RemoteAddr().String(),
			"session", sessionID(id), "err", err, "unsaid", unsaid)
	}
}

// proofs returns the identities that a session has to show again: an address proves nothing, and super comes with another
// identity.
func proofs(ids tree.Identities) (all []session.Proof) {
	for _, id := range ids {
		if id.Scheme == tree.SchemeDigest || id.Scheme == tree.SchemeX509 {
			all = append(all, sha256.Sum256([]byte(id.Scheme+":"+id.ID)))
		}
	}
	return all
}
