package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// removeNode deletes the node, and finds out whether it is gone, and whether it was ours at all, if the answer leaves that open.
func (u *unfairLock) removeNode(ctx context.Context, g *grant) error {
	left := g.leftovers()
	err := u.s.Delete(ctx, u.dir, 0)
	ours := err == nil || client.MaybeApplied(err) // the node that we have deleted, or may have, was ours

	// A broken connection leaves open whether it is gone. A wrong version says that its data was written, or that
	// it is another's by now.
	for errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrBadVersion) {
		var found bool
		found, err = u.removeOwn(ctx, &left)
		ours = ours || found
	}
	if err == nil && !ours {
		return zk.ErrNoNode
	}
	return err
}

// removeOwn deletes the node if it is the one that d stands for, which its creation zxid tells, or its data where the create was
// not answered. It reports whether there was such a node; with false and an error, that is not known.
func (u *unfairLock) removeOwn(ctx context.Context, d *ownNodes) (was bool, err error) {
	for {
		p := u.s.Pipeline()
		p.AwaitWrites()
		got := p.Get(u.dir)
		p.Send(ctx)
		node, err := got.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return was, nil
		case err != nil:
			return was, err
		case d.token == 0 && u.isOf(d.id, node):
			d.token = node.Stat.Czxid
		case d.token != node.Stat.Czxid:
			return was, nil
		}
		was = true
		err = u.s.Delete(ctx, u.dir, node.Stat.Version)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return true, nil
		case errors.Is(err, zk.ErrBadVersion): // written to meanwhile
			continue
		}
		return was, err
	}
}

// isOf reports whether the attempt with that id has made the node. Its data says so, unless it was written over (see [Unfair]).
func (u *unfairLock) isOf(id queue.ID, node client.Node) bool {
	return node.Stat.EphemeralOwner == u.s.ID() && queue.ParseRecord(node.Data).ID == id
}

// clean deletes the node that d stands for, if there is one.
func (u *unfairLock) clean(ctx context.Context, d *ownNodes) error {
	if d.token == 0 && !d.unknown {
		return nil
	}
	_, err := u.removeOwn(ctx, d)
	return err
}
