package client

import (
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Vouch says how much the answer to a heartbeat proves about the session.
type Vouch int

// The levels, from VouchPing to VouchWrite; each proves what a weaker one does. The zero value is VouchSync, the default.
const (
	// VouchSync: the leader has answered. Its answer travels behind all that it has committed, so if it had ended
	// the session, that would have been heard first. A follower that is cut off from its leader cannot give it; a
	// leader that is cut off from its quorum still can, until it notices.
	VouchSync Vouch = iota
	// VouchPing: the server we are connected to has answered. A follower passes the news on to the leader up to half a tick later,
	// and one that is cut off goes on answering for a while, although the leader may have expired the session.
	VouchPing
	// VouchWrite: a quorum has answered. Neither a follower nor a leader that is cut off can give it.
	VouchWrite
)

func (v Vouch) String() string {
	if !v.Valid() {
		return "invalid"
	}
	return [...]string{"sync", "ping", "write"}[v]
}

// Valid reports whether v is one of the levels.
func (v Vouch) Valid() bool { return v >= VouchSync && v <= VouchWrite }

// strength returns what an answer has to prove for this level.
func (v Vouch) strength() strength {
	if !v.Valid() {
		return provesWrite
	}
	return [...]strength{VouchPing: provesPing, VouchSync: provesSync, VouchWrite: provesWrite}[v]
}

// A strength is what an answer proves of the session: nothing, or a level and those below it.
type strength int

const (
	provesNothing strength = iota
	provesPing
	provesSync
	provesWrite
	strengths
)

// provenBy returns what an answer to a request of this type proves. A write is answered by a quorum
// even if it fails, because its failure goes through the log too. Credentials do not count as a sign
// of life with any server, and a session that is being closed is as good as gone.
func provenBy(op wire.Op) strength {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		return provesWrite
	case wire.OpSync:
		return provesSync
	case wire.OpAuth, wire.OpCloseSession:
		return provesNothing
	}
	return provesPing
}

// limitTo returns what an answer with this code proves, where a success would prove p. Some codes can only come from where
// transactions are decided, so that they prove what a success would; some say that the session is
// gone; all others may come from the first server that sees a request.
func (p strength) limitTo(code zk.Code) strength {
	switch code {
	case zk.OK, zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrNoChildrenForEphemerals:
		return p
	case zk.ErrSessionExpired, zk.ErrUnknownSession, zk.ErrSessionMoved:
		return provesNothing
	}
	return min(p, provesPing)
}
