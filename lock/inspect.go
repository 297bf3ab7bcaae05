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

// A Contender is somebody in line for a lock, the holder first.
type Contender struct {
	Node    string    // path of its node
	Session int64     // that owns the node
	Token   int64     // creation zxid of the node
	Since   time.Time // when it joined the line, by the server's clock; not when it got the lock
	Shared  bool      // it asks for the read side of a read/write lock
	Latch   bool      // it stands in a latch's line, as a candidate of an election
	Owner   Owner     // what the node says; zero if it was made by a client that says other things
	Data    []byte    // the node's data as it is
}

// Who describes the contender in a few words; empty if nothing is known.
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
	}
}

// inspectBatch is how many nodes are read with one write.
const inspectBatch = 100

// Inspect returns who holds the lock at path and who waits for it, in order; nobody if there is no such
// lock. It disturbs nobody. Contenders that leave while it looks are left out.
func Inspect(ctx context.Context, s *client.Session, path string) ([]Contender, error) {
	names, _, err := s.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case err != nil:
		return nil, err
	}
	line := parseQueue(names, ^kind(0)).line
	var found []Contender
	for len(line) > 0 {
		batch := line[:min(inspectBatch, len(line))]
		p := s.Pipeline()
		reads := make([]*client.Pending[client.Node], len(batch))
		for i, c := range batch {
			reads[i] = p.Get(zk.Join(path, c.name))
		}
		p.Send(ctx)
		for i, k := range reads {
			n, err := k.Wait(ctx)
			switch {
			case errors.Is(err, zk.ErrNoNode):
			case errors.Is(err, zk.ErrConnectionLoss):
				return Inspect(ctx, s, path)
			case err != nil:
				return nil, err
			default:
				found = append(found, newContender(zk.Join(path, batch[i].name), n))
			}
		}
		line = line[len(batch):]
	}
	return found, nil
}

// Break puts a contender out by deleting its node, whoever it belongs to. A holder that is one of ours
// learns of it at once and loses its hold with ErrNodeDeleted; one that does not listen goes on working,
// and only its token gives it away. It reports false if the contender had left by itself.
func Break(ctx context.Context, s *client.Session, c Contender) (bool, error) {
	for unknown := false; ; {
		err := s.Delete(ctx, c.Node, -1)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, zk.ErrNoNode):
			return unknown, nil
		case errors.Is(err, zk.ErrConnectionLoss):
			unknown = unknown || client.MaybeApplied(err)
			continue
		}
		return false, err
	}
}
