package server

import (
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// audit collects what the log says about changes of rights and limits: setACL, changes below /zookeeper, where quotas are,
// and sessions that go over to another connection. Refused changes count too. It belongs to the committer, which writes
// the lines when no lock is held.
//
// Any client can cause such lines. There are auditRate a second in the long run, and auditBurst at once; a line says how
// many were left out before it.
type audit struct {
	off     bool
	tokens  float64
	at      time.Duration // on the server's clock, when tokens was right
	unsaid  int
	entries []auditEntry
}

const (
	auditRate     = 10
	auditBurst    = 100
	auditTextMax  = 256 // bytes of a path or a list
	auditNamesMax = 8   // identities or entries of a list
)

// An auditEntry points into a request, and so is written before the request is released.
type auditEntry struct {
	what     string
	path     string
	acl      []zk.ACL
	code     zk.Code
	session  int64
	remote   net.Addr
	previous net.Addr // of a session that goes over
	who      tree.Identities
	unsaid   int
}

// allow reports whether there may be a line now.
func (a *audit) allow(now time.Duration) bool {
	a.tokens = min(a.tokens+(now-a.at).Seconds()*auditRate, auditBurst)
	a.at = now
	if a.off || a.tokens < 1 {
		a.unsaid++
		return false
	}
	a.tokens--
	return true
}

func (a *audit) add(now time.Duration, e auditEntry) {
	if a.allow(now) {
		e.unsaid, a.unsaid = a.unsaid, 0
		a.entries = append(a.entries, e)
	}
}

// change notes a write that has been carried out or refused.
func (a *audit) change(r *request, out *tree.Outcome, now time.Duration) {
	if r.code == zk.ErrMarshalling { // it names no path
		return
	}
	code := out.Err
	var path string
	var acl []zk.ACL
	switch {
	case r.op == wire.OpSetACL:
		path, acl = r.acl.Path, r.acl.ACL
	case r.op == wire.OpMulti:
		for i := range r.multi {
			if op := &r.multi[i]; op.Op != wire.OpCheck && isReserved(op.Path) {
				path = op.Path
				if i < len(out.Multi) {
					code = out.Multi[i].Err
				}
				break
			}
		}
	case isReserved(r.single.Path):
		path = r.single.Path
	}
	if path != "" {
		a.add(now, auditEntry{
			what: r.op.String(), code: code, path: path, acl: acl, session: r.session, remote: r.conn.nc.RemoteAddr(), who: r.who,
		})
	}
}

// isReserved reports whether a path is below /zookeeper.
func isReserved(path string) bool { return strings.HasPrefix(path, "/zookeeper/") }

// noteMove notes that a session goes over to a connection, from another one if old is not nil.
func (a *audit) noteMove(c, old *conn, now time.Duration) {
	e := auditEntry{what: "session goes over to another connection", session: c.session, remote: c.nc.RemoteAddr(), who: c.who}
	if old != nil {
		e.previous = old.nc.RemoteAddr()
	}
	a.add(now, e)
}

// write writes the lines.
func (a *audit) write(log *slog.Logger) {
	for i := range a.entries {
		e := &a.entries[i]
		attrs := []any{"what", e.what}
		if e.path != "" {
			attrs = append(attrs, "path", shorten(e.path), "result", e.code.Error())
		}
		if e.acl != nil {
			attrs = append(attrs, "acl", aclText(e.acl))
		}
		attrs = append(attrs, "session", sessionID(e.session), "remote", e.remote.String())
		if e.previous != nil {
			attrs = append(attrs, "from", e.previous.String())
		}
		log.Info("audit", append(attrs, "identities", whoText(e.who), "unsaid", e.unsaid)...)
	}
	clear(a.entries)
	a.entries = a.entries[:0]
}

// whoText names identities, without the hashes of passwords.
func whoText(who tree.Identities) string {
	var names []string
	for _, id := range who[:min(len(who), auditNamesMax)] {
		name := id.Scheme
		if id.ID != "" { // super has none
			name += ":" + userOf(id.Scheme, id.ID)
		}
		names = append(names, name)
	}
	return shorten(strings.Join(names, ","))
}

// aclText names the entries of a list, without the hashes of passwords.
func aclText(acl []zk.ACL) string {
	var entries []string
	for _, a := range acl[:min(len(acl), auditNamesMax)] {
		entries = append(entries, a.Scheme+":"+userOf(a.Scheme, a.ID)+":"+permText(a.Perms))
	}
	if len(acl) > auditNamesMax {
		entries = append(entries, "and more")
	}
	return shorten(strings.Join(entries, ","))
}

// permText is how zkCli writes permissions.
func permText(perms zk.Perm) string {
	var b strings.Builder
	for i, p := range []zk.Perm{zk.PermCreate, zk.PermDelete, zk.PermRead, zk.PermWrite, zk.PermAdmin} {
		if perms&p != 0 {
			b.WriteByte("cdrwa"[i])
		}
	}
	return b.String()
}

func userOf(scheme, id string) string {
	if scheme == tree.SchemeDigest {
		id, _, _ = strings.Cut(id, ":")
	}
	return id
}

// shorten returns a text that a client has sent, as far as a line of the log has room for it.
func shorten(text string) string {
	if len(text) <= auditTextMax {
		return text
	}
	return text[:auditTextMax] + "…"
}
