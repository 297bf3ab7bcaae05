package server

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ipOf is the address of a peer as ACLs of the scheme "ip" know it. A connection over a Unix socket
// comes from this machine.
func ipOf(addr net.Addr) string {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.AddrPort().Addr().Unmap().WithZone("").String()
	case *net.UnixAddr:
		return "127.0.0.1"
	}
	return hostOf(addr)
}

// certIdentity returns the identity that a peer has proved with a certificate: the subject, as in
// ZooKeeper's scheme "x509". Whether the certificate is to be believed was for the listener to say.
func certIdentity(nc net.Conn) (tree.Identity, bool) {
	tc, ok := nc.(*tls.Conn)
	if !ok {
		return tree.Identity{}, false
	}
	chain := tc.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return tree.Identity{}, false
	}
	subject, err := subjectOf(chain[0].RawSubject)
	return tree.Identity{Scheme: tree.SchemeX509, ID: subject}, err == nil && subject != ""
}

// hostOf is what connections are counted by.
func hostOf(addr net.Addr) string {
	host, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return host
}

// authenticate carries out an auth request: it adds to what the connection is known by. Any code
// but OK ends the connection: nothing that was sent in the belief of having authenticated is
// carried out. The caller has the turn.
func (c *conn) authenticate(op wire.Op, body []byte) zk.Code {
	ids, ok := c.who, false
	if op == wire.OpAuth && len(body) <= identityBytesMax { // a longer one would keep the committer from everything else
		var q wire.AuthRequest
		if wire.Unmarshal(body, &q) == nil {
			ids, ok = c.s.identify(c.who, &q)
		}
	}
	if !ok || len(ids) > identitiesMax || identityBytes(ids) > identityBytesMax {
		c.ended = true
		c.s.gate.punish(c.address, c.s.now())
		why := "unknown scheme, x509 without a certificate, or too many or too long identities"
		if op == wire.OpSASL {
			why = "SASL is not supported: use digest or x509"
		}
		if unsaid, ok := c.s.authLog.due(c.s.now()); ok {
			c.s.log.Info("authentication refused", "remote", c.nc.RemoteAddr().String(), "session", sessionID(c.session), "why", why, "unsaid", unsaid)
		}
		return zk.ErrAuthFailed
	}
	if len(ids) == len(c.who) {
		return zk.OK // it was known by them
	}
	c.knowBy(ids)
	c.s.sessions.Lock()
	c.s.sessions.table.Show(c.session, c.id, c.proofs)
	c.s.sessions.Unlock()
	return zk.OK
}

// knowBy notes by what the connection is known now: by what it was, and more behind that. The caller has the turn.
func (c *conn) knowBy(ids tree.Identities) {
	c.proofs = append(c.proofs, proofs(ids[len(c.who):])...)
	c.out.mu.Lock()
	c.who = ids
	c.out.mu.Unlock()
}

// identityBytes returns how many bytes the names of ids have.
func identityBytes(ids tree.Identities) (n int) {
	for _, id := range ids {
		n += len(id.ID)
	}
	return n
}

// identify returns ids and what q adds to them. As in ZooKeeper, any credential makes a digest
// identity: what it opens shows when an ACL is compared with it.
func (s *Server) identify(ids tree.Identities, q *wire.AuthRequest) (_ tree.Identities, ok bool) {
	switch q.Scheme {
	case tree.SchemeDigest:
		if q.Auth == nil {
			return ids, false
		}
		id := zk.DigestID(string(q.Auth))
		if id == s.opts.SuperDigest {
			ids = ids.With(tree.Identity{Scheme: tree.SchemeSuper})
		}
		return ids.With(tree.Identity{Scheme: tree.SchemeDigest, ID: id}), true
	case tree.SchemeIP:
		return ids, true // it has had that from the start
	case tree.SchemeX509: // and that too, if it has shown a certificate
		return ids, slices.ContainsFunc(ids, func(id tree.Identity) bool { return id.Scheme == tree.SchemeX509 })
	}
	return ids, false
}

// answerAuth answers an auth request, with no zxid.
func (c *conn) answerAuth(h wire.RequestHeader, code zk.Code) {
	c.out.reply(wire.ReplyHeader{Xid: h.Xid, Err: code})
	if code == zk.ErrAuthFailed {
		c.end()
	}
}

func (t *turn) whoAmI() {
	var answer wire.WhoAmIResponse
	for _, id := range t.who {
		name := id.ID
		if id.Scheme == tree.SchemeDigest {
			name, _, _ = strings.Cut(name, ":")
		}
		answer.Identities = append(answer.Identities, wire.Identity{Scheme: id.Scheme, ID: name})
	}
	b, start := t.ok()
	t.end(answer.AppendTo(b), start)
}
