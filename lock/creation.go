package lock

import (
	"context"
	"crypto/rand"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// newAttemptID returns a random id.
func newAttemptID() queue.ID {
	var b [queue.IDBytes]byte
	rand.Read(b[:]) // never fails, by its documentation
	return queue.NewID(b)
}

// A creation is the request that makes the nodes of an attempt, all of them or none. Several are made in
// one transaction, so their numbers follow each other: nobody stands between them, and two who ask for
// several permits at once cannot wait for each other.
type creation struct {
	one  *client.Pending[client.Created]  // nil if there are several
	many *client.Pending[[]client.Result] // nil if there is one
}

// create adds the request for count nodes.
func (a *attempt) create(p *client.Pipeline) *creation {
	prefix := zk.Join(a.e.dir, a.id.Prefix(a.e.recipe.Word))
	if a.count == 1 {
		return &creation{one: p.Create(prefix, a.data, zk.EphemeralSequential, a.e.opt.ACL)}
	}
	ops := make([]client.Op, a.count)
	for i := range ops {
		ops[i] = client.OpCreate(prefix, a.data, zk.EphemeralSequential, a.e.opt.ACL)
	}
	return &creation{many: p.Multi(ops...)}
}

// wait returns the paths of the nodes, first one first, and their creation zxid; 0 if the server does not
// tell.
func (c *creation) wait(ctx context.Context) (nodes []string, czxid int64, err error) {
	if c.one != nil {
		made, err := c.one.Wait(ctx)
		return []string{made.Path}, made.Stat.Czxid, err
	}
	results, err := c.many.Wait(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range results {
		nodes = append(nodes, r.Path)
	}
	return nodes, results[0].Stat.Czxid, nil
}
