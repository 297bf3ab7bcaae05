package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fairLock is the part that all fair locks have in common: the queue of one directory, and claims by one set of rules. An
// RWMutex has two fairLocks, one for each side.
type fairLock struct {
	lockBase
	permits *permitCount // a semaphore's number of permits; otherwise nil
	gate    *fairLock    // a second lock, held while joining the queue and waiting in it (Curator's semaphore); otherwise nil
	orphans *orphanTimes // delay markers of holders that did not release
}

func newFairLock(s *client.Session, dir string, opt Options, r *queue.Rules) *fairLock {
	f := &fairLock{lockBase: newBase(s, dir, opt, r), orphans: &orphanTimes{}}
	f.algorithm, f.cleaner = f, &cleaner{lock: &f.lockBase}
	return f
}

// takeHolds implements algorithm. A semaphore whose number of permits is stored agrees on it first; Curator's takes the gate.
func (f *fairLock) takeHolds(ctx context.Context, count int, try bool) ([]*Hold, error) {
	if f.permits != nil && f.permits.stored && !f.permits.agreed.Load() {
		if _, err := f.permits.agree(ctx, f, count, false); err != nil {
			return nil, err
		}
	}
	if f.gate != nil {
		gate, err := f.gate.takeHolds(ctx, 1, try)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := gate[0].Release(ctx); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
				f.opt.Logger.Warn("the lock on the way in was lost, or its release is not confirmed yet", "lock", f.gate.dir, "error", err)
			}
		}()
	}
	if try || f.opt.QueueMax > 0 {
		f.cleaner.await(ctx)
	}
	for {
		holds, err := newAttempt(f, count, try, f.opt.claimRecord(ctx, try)).run(ctx)
		again := f.opt.Requeue && err == ErrPlaceLost // and not another lock's, as the cause of ctx may be
		if try || !again {
			return holds, err
		}
		f.cleaner.await(ctx) // other claims of the attempt would count against Options.QueueMax
	}
}

// removeNode implements algorithm.
func (f *fairLock) removeNode(ctx context.Context, g *grant) error {
	announced := g.announces()
	for answerLost := false; ; {
		node := g.nodePath()
		err := g.delete(ctx, node, announced)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrConnectionLoss):
			answerLost = true
		case announced && !client.MaybeApplied(err) && ctx.Err() == nil:
			announced = false // whatever is wrong with the marker, the node must go
		case errors.Is(err, zk.ErrNoNode):
			other := g.otherPath(node)
			switch {
			case other != "": // put in its place by a downgrade of unknown outcome
				g.noteMoved(other)
			case answerLost: // deleted by us, in the request whose answer was lost
				return nil
			default:
				return err
			}
		default:
			return err
		}
	}
}

// announces reports whether the release has to be announced: if another contender may have seen the node behind another one, or if
// the node's end alone could be a downgrade. While the outcome of a downgrade is open it is not, and contenders behind list the directory.
func (g *grant) announces() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.readNode == "" && g.lock.rules.NeedsReleaseMarker(g.waited, g.mu.mode != g.lock.rules.Mode)
}

// delete deletes the node. If the release is announced, the same transaction makes and deletes the release marker (see
// queue.ID.ReleaseMarker), which no listing ever shows. The delay marker goes ahead of the node, in a request of its own: in between,
// the holder does not need it any more. It does no harm if the marker is gone already.
func (g *grant) delete(ctx context.Context, node string, announced bool) error {
	p := g.s.Pipeline()
	if g.delayMarker != "" {
		p.Delete(g.delayMarker, zk.AnyVersion)
	}
	if !announced {
		deleted := p.Delete(node, zk.AnyVersion)
		p.Send(ctx)
		_, err := deleted.Wait(ctx)
		return err
	}
	marker := zk.Join(g.lock.dir, g.id.ReleaseMarker())
	deleted := p.Multi(
		client.OpCreate(marker, nil, zk.Ephemeral, g.lock.opt.ACL),
		client.OpDelete(marker, zk.AnyVersion),
		client.OpDelete(node, zk.AnyVersion))
	p.Send(ctx)
	_, err := deleted.Wait(ctx)
	return err
}

// clean deletes the nodes that are known and, if there may be others, those that carry the id in the queue. If the listing fails, it
// deletes the known nodes and returns that error. A transaction ahead of the listing has it show all that was applied before.
func (f *fairLock) clean(ctx context.Context, left *ownNodes) error {
	if err := f.checkUndeleted(ctx, left); err != nil {
		return err
	}
	p := f.s.Pipeline()
	nodes := slices.Clone(left.nodes)
	var failed error
	if left.unknown {
		p.AwaitWrites()
		listed := p.Children(f.dir)
		p.Send(ctx)
		q, err := f.awaitQueue(ctx, listed)
		if !errors.Is(err, zk.ErrNoNode) { // no directory, no nodes
			failed = err
		}
		for _, i := range q.PlacesOf(left.id) {
			nodes = append(nodes, zk.Join(f.dir, q.Claims[i].Name))
		}
		p = f.s.Pipeline()
	}
	answers := deleteAll(p, nodes)
	p.Send(ctx)
	_, err := answers(ctx)
	return cmp.Or(err, failed)
}

// makeDirectory makes the lock's directory, a container where the server has them, or what is missing above it. That of a
// semaphore gets the number of permits. It competes with other contenders and with the removal of empty directories, so a nil
// error promises nothing: the caller's next create tells whether it was enough.
func (f *fairLock) makeDirectory(ctx context.Context) error {
	if f.permits.varies() {
		_, err := f.permits.agree(ctx, f, 0, false)
		return err
	}
	_, err := f.s.Create(ctx, f.dir, nil, zk.Container, f.opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return f.s.EnsurePath(ctx, zk.Parent(f.dir), f.opt.ParentACL)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: it may be there
		return f.s.EnsurePath(ctx, f.dir, f.opt.ParentACL)
	}
	return err
}

// awaitQueue waits for a listing of the directory, and returns the queue that it shows. With an error, nothing is in it.
func (f *fairLock) awaitQueue(ctx context.Context, listed *client.Pending[client.Listing]) (queue.Queue, error) {
	children, err := listed.Wait(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	q := queue.Parse(children.Names, f.rules.Heeds)
	q.Spent = queue.CounterSpent(children.Stat)
	return q, nil
}
