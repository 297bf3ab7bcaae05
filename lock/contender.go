package lock

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Contender is somebody who holds a lock or waits for it.
type Contender struct {
	Node    string    // path of its node
	Session int64     // that owns the node
	Token   int64     // creation zxid of the node
	Since   time.Time // when it joined the line, by the server's clock; not when it got the lock
	Shared  bool      // it asks for the read side of a read/write lock
	Latch   bool      // it stands in a latch's line, as a candidate of an election
	Owner   Owner     // which process it is; zero if the node was made by a client that does not say so in our way
	Data    []byte    // the node's data as it is

	Held    bool // it holds the lock, going by the line: its process may not have heard of that yet
	Place   int  // how many are ahead of it in line, 0 for the first; readers ahead of a reader count too
	Revoked bool // somebody has asked it to give the lock up; see Revoke
}

// Who describes the contender in a few words, "backup pid 4711 on host7 (nightly)" for example; empty if Node is.
func (c Contender) Who() string {
	if c.Node == "" {
		return ""
	}
	var parts []string
	if c.Owner.Program != "" {
		parts = append(parts, c.Owner.Program)
	}
	if c.Owner.PID != 0 {
		parts = append(parts, fmt.Sprintf("pid %d", c.Owner.PID))
	}
	if c.Owner.Host != "" {
		parts = append(parts, "on "+c.Owner.Host)
	}
	if c.Owner.Label != "" {
		parts = append(parts, fmt.Sprintf("(%s)", c.Owner.Label))
	}
	if len(parts) == 0 {
		parts = append(parts, fmt.Sprintf("session 0x%x", uint64(c.Session)))
	}
	return strings.Join(parts, " ")
}

func newContender(node string, n client.Node) Contender {
	owner, _ := parseOwner(n.Data)
	_, k, _ := parseName(zk.Base(node))
	return Contender{
		Node: node, Session: n.Stat.EphemeralOwner, Token: n.Stat.Czxid,
		Since: time.UnixMilli(n.Stat.Ctime), Shared: k == shared, Latch: k == candidacy, Owner: owner, Data: n.Data,
		Revoked: revoked(n.Data),
	}
}

// newHolder is newContender for one that is known to hold the lock.
func newHolder(node string, n client.Node) Contender {
	c := newContender(node, n)
	c.Held = true
	return c
}
