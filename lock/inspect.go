package lock

import (
	"context"
	"errors"
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
		parts = append(parts, fmt.Sprintf("session 0x%x", c.Session))
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

// Inspect returns the contenders of [Look].
func Inspect(ctx context.Context, s *client.Session, path string) ([]Contender, error) {
	snap, err := Look(ctx, s, path)
	return snap.Contenders, err
}

// Break puts a contender out by deleting its node, whichever session that belongs to. A holder that uses this
// package learns of it at once and loses its hold with ErrNodeDeleted. A client that does not watch its own node
// goes on working, and only its token gives it away. Break reports false if the contender had left by itself.
func Break(ctx context.Context, s *client.Session, c Contender) (bool, error) {
	for unknown := false; ; {
		version := int32(-1)
		if _, _, named := parseName(zk.Base(c.Node)); !named && c.Token != 0 { // another's may have taken its place
			stat, ok, err := s.Exists(ctx, c.Node)
			if err != nil || !ok || stat.Czxid != c.Token {
				return unknown && err == nil, err
			}
			version = stat.Version
		}
		err := s.Delete(ctx, c.Node, version)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrBadVersion): // written to, or another's
			continue
		case errors.Is(err, zk.ErrNoNode):
			return unknown, nil
		case errors.Is(err, zk.ErrConnectionLoss):
			unknown = unknown || client.MaybeApplied(err)
			continue
		}
		return false, err
	}
}
