package lock

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A queueGrant is a grant of a fair lock with its claim, a place in the queue.
type queueGrant struct {
	grant
	fair        *fairLock
	waited      bool   // others may have seen the node behind another's
	delayMarker string // path of the delay marker; empty if there is none

	// Of the deletion that was sent.
	removing  string                      // path of the node
	announced bool                        // it announces the release
	deleted   func(context.Context) error // waits for its outcome

	downgrading   sync.Mutex // held by a downgrade
	downgradeOpen bool       // the last downgrade did not learn its outcome; guarded by downgrading
}

// newQueueGrant makes the grant of one of an attempt's nodes.
func newQueueGrant(a *attempt, node string, lease uint64) *queueGrant {
	c := &queueGrant{fair: a.lock, waited: a.waited, delayMarker: a.delayMarker}
	c.init(c, &a.lock.lockBase, a.id, node, a.token, a.data, slices.Contains(a.revoked, node), lease)
	return c
}

// owns returns true: no name of a node in a queue is ever used again.
func (c *queueGrant) owns(zk.Stat) bool { return true }

func (c *queueGrant) discard() { c.fair.cleaner.add(c.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (c *queueGrant) leftovers() leftovers {
	d := leftovers{id: c.id, nodes: c.nodes()}
	if c.delayMarker != "" && c.loss() == nil {
		d.nodes = slices.Insert(d.nodes, 0, c.delayMarker)
	}
	return d
}

// nodes returns the path of the node. While the outcome of a downgrade is open there are two, that of the write node first: if
// they are deleted in this order, neither is left, even if the downgrade is carried out in between or later.
func (c *queueGrant) nodes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.next != "" {
		return []string{c.mu.node, c.mu.next}
	}
	return []string{c.mu.node}
}

func (c *queueGrant) remove(p *client.Pipeline) {
	c.announced = c.announces()
	c.delete(p)
}

func (c *queueGrant) awaitRemoval(ctx context.Context) error {
	for answerLost := false; ; {
		err := c.deleted(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrConnectionLoss):
			answerLost = true
		case c.s.Err() != nil && c.s.Gone(ctx):
			return nil // the node has gone with the session
		case c.announced && !client.MaybeApplied(err) && ctx.Err() == nil:
			c.announced = false // whatever is wrong with the marker, the node must go
		case errors.Is(err, zk.ErrNoNode) && c.followMove(): // deleted next
		case errors.Is(err, zk.ErrNoNode):
			if answerLost { // by us, in the request whose answer was lost
				return nil
			}
			return &LostError{Path: c.fair.path, Cause: ErrNodeDeleted}
		default:
			c.fair.cleaner.add(c.leftovers())
			return releasePending(c.fair.path, err)
		}
		p := c.s.Pipeline()
		c.delete(p)
		p.Send(ctx)
	}
}

// followMove reports whether a downgrade of unknown outcome must have put another node in the place of the one that was to be deleted
// and is not there.
func (c *queueGrant) followMove() bool {
	other := c.otherPath(c.removing)
	if other == "" {
		return false
	}
	c.noteMoved(other)
	return true
}

// announces reports whether the release has to be announced: if another contender may have seen the node behind another one, or if
// the node's end alone could be a downgrade. While the outcome of a downgrade is open there is no announcement, and the
// contenders behind list the directory.
func (c *queueGrant) announces() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.next == "" && c.fair.rules.AnnouncesRelease(c.waited, c.mu.kind != c.fair.rules.Kind)
}

// delete adds the deletion of the node. If the release is announced, the same transaction makes and deletes a znode,
// the release marker, whose creation tells the waiter behind us that a holder has left and not a waiter:
// a waiter that joined when others were still ahead of us would otherwise have to list the directory to know.
// No listing ever shows it.
//
// The delay marker goes ahead of the node, in a request of its own: in between, the holder does not
// need it any more. It does no harm if the marker is gone already.
func (c *queueGrant) delete(p *client.Pipeline) {
	if c.delayMarker != "" {
		p.Delete(c.delayMarker, -1)
	}
	c.removing = c.nodePath()
	if !c.announced {
		c.deleted = outcome(p.Delete(c.removing, -1))
		return
	}
	marker := zk.Join(c.fair.dir, c.id.ReleaseMarker())
	c.deleted = outcome(p.Multi(
		client.OpCreate(marker, nil, zk.Ephemeral, c.fair.opt.ACL),
		client.OpDelete(marker, -1),
		client.OpDelete(c.removing, -1)))
}

// outcome returns a function that waits for the error of a request.
func outcome[T any](k *client.Pending[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := k.Wait(ctx)
		return err
	}
}
