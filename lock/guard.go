package lock

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ownWatchDelay is how long a hold goes on before its own node is watched. Shorter ones do without: the
// request would cost them more than it could tell.
const ownWatchDelay = 10 * time.Millisecond

// guardFrom watches over the grant until it ends. own is a watch on the node that is armed already, or
// nil.
func (g *grant) guardFrom(own *client.Watch) {
	node := g.at() // before anybody can downgrade: the watch is on this one
	if !g.s.Go(func(context.Context) { g.guard(node, own) }) {
		g.lose(g.s.Err())
	}
}

// guard ends the grant when its session ends, its deadline passes or its node is deleted, and hears what is written to
// the node. It returns when the grant has ended. own is a watch on the node called watched, or nil. It need not be
// cancelled: the node goes when the grant ends, and the watch with it.
func (g *grant) guard(watched string, own *client.Watch) {
	missing := ""               // a node of ours that has gone, while it is open whether another has taken its place
	var decided <-chan struct{} // closed when that is decided
	var armed <-chan struct{}   // closed when the request that sets own is answered
	var asked *client.Pending[client.Node]
	timer := time.NewTimer(ownWatchDelay)
	defer timer.Stop()
	for {
		var fired <-chan struct{}
		if own != nil {
			fired = own.Done()
		}
		refused := false // the server has just refused the watch, because of an ACL perhaps: ask again, but not at once
		select {
		case <-g.ended:
			return
		case <-g.s.Done():
			g.lose(g.s.Err())
			return
		case <-fired:
			if ev, _, err := own.Event(); err == nil && ev.Type == zk.NodeDeleted {
				missing = watched
			}
			own = nil // otherwise somebody wrote to the node; watch it again
		case <-armed:
			armed = nil
			node, err := asked.Wait(context.Background())
			switch {
			case err == nil && g.e.recipe.lone && node.Stat.Czxid != g.token: // somebody else's, in its place
				cancelled(own) // it may have fired meanwhile
				own, missing = nil, watched
			case err == nil:
				g.hear(watched, node)
			case errors.Is(err, zk.ErrNoNode):
				own, missing = nil, watched
			default:
				own, refused = nil, !errors.Is(err, zk.ErrConnectionLoss)
			}
		case <-decided:
		case <-timer.C:
		}
		if missing != "" {
			var node string
			node, decided = g.whereabouts()
			switch {
			case decided != nil:
			case node == missing:
				g.lose(ErrNodeDeleted)
				return
			default:
				missing = ""
			}
		}
		left := g.check()
		if left <= 0 {
			return
		}
		if own == nil && armed == nil && missing == "" && !refused {
			watched = g.at()
			asked, own = g.watchOwn(watched, left)
			armed = asked.Done()
		}
		timer.Reset(min(left, loan{g.s.Timeout()}.glance()))
	}
}

// watchOwn asks for a watch on the node, and for its data. It waits for room in the session for so long at most.
func (g *grant) watchOwn(node string, patience time.Duration) (*client.Pending[client.Node], *client.Watch) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := g.s.Pipeline()
	got, w := p.WatchGet(node)
	p.Send(ctx)
	return got, w
}
