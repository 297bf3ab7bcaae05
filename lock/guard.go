package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A nodeWatch is what a guard knows of the grant's node. Its watch need not be cancelled: the node goes when the grant
// ends, and the watch with it.
type nodeWatch struct {
	g       *grant
	node    string                       // that own is on
	own     *client.Watch                // nil if there is none
	asked   *client.Pending[client.Node] // the request that sets own, until it is answered; otherwise nil
	refused bool                         // the server has just refused own, because of an ACL perhaps: ask again, but not at once

	gone bool // the node is at no path at which it can be
}

// guard watches over the grant on a goroutine of its own. node is where the grant's claim is, and own a watch on it that is
// armed already, or nil.
func (g *grant) guard(node string, own *client.Watch) {
	if !g.s.Go(func(context.Context) { g.watchOver(node, own) }) {
		g.lose(g.s.Err())
	}
}

// watchOver ends the grant when its session ends, its deadline passes or its node is deleted, and hears what is written to
// the node. It returns when the grant has ended. own is a watch on node, or nil.
func (g *grant) watchOver(node string, own *client.Watch) {
	k := nodeWatch{g: g, node: node, own: own}
	timer := time.NewTimer(0) // the first look has the node watched
	defer timer.Stop()
	for {
		var fired, answered <-chan struct{}
		if k.own != nil {
			fired = k.own.Done()
		}
		if k.asked != nil {
			answered = k.asked.Done()
		}
		k.refused = false
		select {
		case <-g.ended:
			return
		case <-g.s.Done():
			g.lose(g.s.Err())
			return
		case <-fired:
			k.fired()
		case <-answered:
			k.answered()
		case <-timer.C:
		}
		if k.gone {
			if err := g.s.Err(); err != nil { // the node went with the session, which may be heard first
				g.lose(err)
			} else {
				g.lose(ErrNodeDeleted)
			}
			return
		}
		left := g.check()
		if left <= 0 {
			return
		}
		k.watch(left)
		timer.Reset(min(left, lease.Glance(g.s.Timeout())))
	}
}

// fired takes the event of the watch.
func (k *nodeWatch) fired() {
	ev, _, err := k.own.Event()
	k.own = nil
	if err == nil && ev.Type == zk.NodeDeleted {
		k.absent()
	} // otherwise the node has been written to: watch it again
}

// absent notes that the node is not at the path that is watched. A downgrade may have put another one in its place.
func (k *nodeWatch) absent() {
	k.node = k.g.after(k.node)
	k.gone = k.node == ""
}

// answered takes the answer to the request that sets the watch.
func (k *nodeWatch) answered() {
	node, err := k.asked.Wait(context.Background())
	k.asked = nil
	switch {
	case err == nil && !k.g.claim.owns(node.Stat): // another contender's, in its place
		cancelled(k.own) // it may have fired meanwhile
		k.own = nil
		k.absent()
	case err == nil:
		k.g.moved(k.node)
		k.g.hear(k.node, node)
	case errors.Is(err, zk.ErrNoNode):
		k.own = nil
		k.absent()
	default:
		k.own, k.refused = nil, !errors.Is(err, zk.ErrConnectionLoss)
	}
}

// watch sees to it that the node is watched. It waits for room in the session for so long at most.
func (k *nodeWatch) watch(patience time.Duration) {
	if k.own == nil && k.asked == nil && !k.refused {
		k.asked, k.own = k.g.watchOwn(k.node, patience)
	}
}

// watchOwn asks for a watch on the node, and for its data.
func (g *grant) watchOwn(node string, patience time.Duration) (*client.Pending[client.Node], *client.Watch) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := g.s.Pipeline()
	got, w := p.WatchGet(node)
	p.Send(ctx)
	return got, w
}
