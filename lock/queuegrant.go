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
func newQueueGrant(a *attempt, node string, leaseNumber uint64) *queueGrant {
	g := &queueGrant{fair: a.lock, waited: a.waited, delayMarker: a.delayMarker}
	g.init(g, &a.lock.lockBase, a.id, node, a.token, a.data, slices.Contains(a.revoked, node), leaseNumber)
	return g
}

// owns returns true: no name of a node in a queue is ever used again.
func (g *queueGrant) owns(zk.Stat) bool { return true }

func (g *queueGrant) discard() { g.fair.cleaner.add(g.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (g *queueGrant) leftovers() leftovers {
	d := leftovers{id: g.id, nodes: g.nodes()}
	if g.delayMarker != "" && g.loss() == nil {
		d.nodes = slices.Insert(d.nodes, 0, g.delayMarker)
	}
	return d
}

// nodes returns the path of the node. While the outcome of a downgrade is open there are two, that of the write node first: if
// they are deleted in this order, neither is left, even if the downgrade is carried out in between or later.
func (g *queueGrant) nodes() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.next != "" {
		return []string{g.mu.node, g.mu.next}
	}
	return []string{g.mu.node}
}

func (g *queueGrant) remove(p *client.Pipeline) {
	g.announced = g.announces()
	g.delete(p)
}

func (g *queueGrant) awaitRemoval(ctx context.Context) error {
	for answerLost := false; ; {
		err := g.deleted(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrConnectionLoss):
			answerLost = true
		case g.s.Err() != nil && g.s.Gone(ctx):
			return nil // the node has gone with the session
		case g.announced && !client.MaybeApplied(err) && ctx.Err() == nil:
			g.announced = false // whatever is wrong with the marker, the node must go
		case errors.Is(err, zk.ErrNoNode) && g.followMove(): // deleted next
		case errors.Is(err, zk.ErrNoNode):
			if answerLost { // by us, in the request whose answer was lost
				return nil
			}
			return &LostError{Path: g.fair.path, Cause: ErrNodeDeleted}
		default:
			g.fair.cleaner.add(g.leftovers())
			return releasePending(g.fair.path, err)
		}
		p := g.s.Pipeline()
		g.delete(p)
		p.Send(ctx)
	}
}

// followMove reports whether a downgrade of unknown outcome must have put another node in the place of the one that was to be deleted
// and is not there.
func (g *queueGrant) followMove() bool {
	other := g.otherPath(g.removing)
	if other == "" {
		return false
	}
	g.noteMoved(other)
	return true
}

// announces reports whether the release has to be announced: if another contender may have seen the node behind another one, or if
// the node's end alone could be a downgrade. While the outcome of a downgrade is open there is no announcement, and the
// contenders behind list the directory.
func (g *queueGrant) announces() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.next == "" && g.fair.rules.AnnouncesRelease(g.waited, g.mu.kind != g.fair.rules.Kind)
}

// delete adds the deletion of the node. If the release is announced, the same transaction makes and deletes a znode,
// the release marker, whose creation tells the waiter behind us that a holder has left and not a waiter:
// a waiter that joined when others were still ahead of us would otherwise have to list the directory to know.
// No listing ever shows it.
//
// The delay marker goes ahead of the node, in a request of its own: in between, the holder does not
// need it any more. It does no harm if the marker is gone already.
func (g *queueGrant) delete(p *client.Pipeline) {
	if g.delayMarker != "" {
		p.Delete(g.delayMarker, -1)
	}
	g.removing = g.nodePath()
	if !g.announced {
		g.deleted = outcome(p.Delete(g.removing, -1))
		return
	}
	marker := zk.Join(g.fair.dir, g.id.ReleaseMarker())
	g.deleted = outcome(p.Multi(
		client.OpCreate(marker, nil, zk.Ephemeral, g.fair.opt.ACL),
		client.OpDelete(marker, -1),
		client.OpDelete(g.removing, -1)))
}

// outcome returns a function that waits for the error of a request.
func outcome[T any](k *client.Pending[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := k.Wait(ctx)
		return err
	}
}
