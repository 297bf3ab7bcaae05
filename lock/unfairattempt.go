package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An unfairAttempt is one attempt to take an unfair lock. It is used by one goroutine. The claim is a znode at the lock's path, as all
// contenders' are: an attempt knows its own by the creation zxid, or by its id in the data if the create was not answered.
type unfairAttempt struct {
	attemptBase // nodes is the lock's path if the node is there, and is ours
	u           *unfairLock
	watch       *client.Watch // that the last look at the node has set; nil if there was none, or it is in watches now
}

// run returns when the node is ours. If try is set, it does not wait, and a node in the way is a *BusyError.
func (a *unfairAttempt) run(ctx context.Context, try bool) ([]*Hold, error) {
	look := a.create
	for {
		rival, err := look(ctx)
		look = a.create
		switch {
		case err != nil:
			return nil, err
		case rival == nil && len(a.nodes) == 0: // gone since
			continue
		case rival == nil:
			holds, err := a.beginHolds(ctx)
			switch {
			case err == ErrPlaceLost: // of ours, and not of another lock's attempt, as the cause of ctx may be
				a.forget() // deleted before the session was known to live
			case holds != nil || err != nil:
				return holds, err
			}
			continue // a node that has to be looked at again is in the way of a create
		case try:
			return nil, a.u.busy(rival)
		}
		a.u.tellWaiting(ctx, Place{Ahead: 1, First: a.u.dir})
		select {
		case <-a.watch.Done():
		case <-a.u.s.Done(): // Close has begun, and the watch ends when it is over
			return nil, a.u.s.Err()
		case <-ctx.Done():
			return nil, &waitError{bridge.Of(a.u.s).CutOff(ending.Of(ctx)), a.u.busy(rival)}
		}
		if ev, _, err := a.watch.Event(); err == nil && ev.Type != zk.NodeDeleted {
			look = a.readNode // only written to: a create would cost the ensemble more
		}
	}
}

// busy returns the error for a node in the way.
func (u *unfairLock) busy(rival *client.Node) *BusyError {
	return &BusyError{Path: u.dir, Holder: queue.NewHolder(u.dir, rival.Data, rival.Stat)}
}

// create makes the node, or returns the one that is in the way.
func (a *unfairAttempt) create(ctx context.Context) (rival *client.Node, err error) {
	for {
		p := a.u.s.Pipeline()
		made := p.Create(a.u.dir, a.data, zk.Ephemeral, a.u.opt.ACL)
		p.Send(ctx)
		a.created = &creation{one: made}
		err := a.awaitCreate(ctx)
		switch {
		case err == nil:
			a.shownAt = bridge.Sent(made)
			a.noteJoined()
			return nil, nil
		case errors.Is(err, zk.ErrNoNode):
			if err := a.u.s.EnsurePath(ctx, zk.Parent(a.u.dir), a.u.opt.ParentACL); err != nil {
				return nil, err
			}
			continue
		case !a.unknown && !errors.Is(err, zk.ErrNodeExists):
			return nil, err
		}
		if rival, err := a.readNode(ctx); err != nil || rival != nil || len(a.nodes) > 0 {
			return rival, err
		}
	}
}

// readNode reads the node, and watches it. It notes the path and the token of a node of ours, and returns another's. After a
// create of unknown outcome a transaction goes ahead of the look: what the create did is then seen, and if it did nothing it never
// will, for the ensemble takes nothing more from a connection that the session has left.
func (a *unfairAttempt) readNode(ctx context.Context) (rival *client.Node, err error) {
	for {
		p := a.u.s.Pipeline()
		if a.unknown {
			p.AwaitWrites()
		}
		a.watch.Cancel()
		got, watch := p.WatchGet(a.u.dir)
		a.watch = watch
		p.Send(ctx)
		node, err := got.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case errors.Is(err, zk.ErrNoNode):
			a.forget()
			return nil, nil
		case err != nil:
			return nil, err
		case node.Stat.Czxid == a.token, a.unknown && a.u.isOf(a.id, node):
			a.shownAt = bridge.Sent(got)
			a.nodes, a.token, a.unknown = []string{a.u.dir}, node.Stat.Czxid, false
			a.noteJoined()
			if !queue.Revoked(node.Data) { // otherwise the watchdog is to look for itself, and to write the owner again
				a.watches[0], a.watch = watch, nil
			}
			return nil, nil
		}
		a.forget()
		if node.Stat.EphemeralOwner == 0 {
			return nil, ErrNotEphemeral
		}
		if id := queue.ParseRecord(node.Data).ID; node.Stat.EphemeralOwner == a.u.s.ID() && isUndeleted(id) {
			a.u.cleaner.add(ownNodes{id: id, token: node.Stat.Czxid})
		}
		return &node, nil
	}
}

// forget notes that the node, if we have made one, is gone.
func (a *unfairAttempt) forget() {
	for _, w := range a.watches {
		w.Cancel() // on another contender's, perhaps
	}
	a.ownNodes, a.watches = ownNodes{id: a.id}, nil
}
