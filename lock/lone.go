package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// This is how an unfair lock is taken: the claim is one znode at the lock's path, and no place in a line. Since
// everybody's znode has that name, an attempt knows its own by the creation zxid. One whose create was not answered
// goes by the attempt's id in the data, and by what its siblings know; see siblings.

// A rival is the node in an attempt's way, and a watch that is set on it.
type rival struct {
	node  client.Node
	watch *client.Watch
}

// runLone returns when the node is ours.
func (a *attempt) runLone(ctx context.Context) ([]*Hold, error) {
	for crowded := false; ; crowded = true {
		r, err := a.seize(ctx, crowded)
		if err == nil && r == nil {
			holds, err := a.grant(ctx)
			if !errors.Is(err, ErrPlaceLost) || ctx.Err() != nil { // the cause of ctx may be another lock's ErrPlaceLost
				return holds, err
			}
			a.unseat() // deleted before the session was known to live
			continue
		}
		if err == nil && a.e.opt.Waiting != nil {
			a.e.opt.Waiting(Place{Ahead: 1, First: a.e.dir})
		}
		for err == nil && r != nil {
			r, err = a.outlast(ctx, r)
		}
		if err != nil {
			return nil, err
		}
	}
}

// tryLone makes the node unless it is there.
func (a *attempt) tryLone(ctx context.Context) ([]*Hold, error) {
	r, err := a.seize(ctx, false)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return a.grant(ctx)
	}
	r.watch.Cancel()
	return nil, &BusyError{Path: a.e.dir, Holder: newHolder(a.e.dir, r.node)}
}

// seize makes the node, or returns the one that is in the way. If many are likely to try at once, crowded, the create
// will probably fail: then the look at the node in the way leaves together with it.
func (a *attempt) seize(ctx context.Context, crowded bool) (*rival, error) {
	for ; ; crowded = true {
		p := a.s.Pipeline()
		a.created = &creation{one: p.Create(a.e.dir, a.data, zk.Ephemeral, a.e.opt.ACL)}
		a.e.siblings.ask(a.id, a.created)
		var got *client.Pending[client.Node]
		var watch *client.Watch
		if crowded {
			got, watch = p.WatchGet(a.e.dir)
		}
		p.Send(ctx)
		nodes, czxid, err := a.created.wait(ctx)
		switch {
		case err == nil:
			a.joined(nodes, czxid)
			if !crowded {
				return nil, nil
			}
		case errors.Is(err, zk.ErrNodeExists):
			a.created = nil
		case errors.Is(err, zk.ErrConnectionLoss):
			a.unknown = client.MaybeApplied(err)
			a.created = nil
			cancelled(watch)
			got = nil // if it was seen at all, then without a sync
			if !a.unknown {
				continue
			}
		default:
			cancelled(watch)
			if !client.MaybeApplied(err) { // otherwise the reaper waits for the outcome
				a.created = nil
			}
			if !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			if err := a.e.makeDirectory(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if r, err := a.regard(ctx, got, watch); err != nil || r != nil || len(a.nodes) > 0 {
			return r, err
		}
	}
}

// regard looks at the node; got and watch are the look, if it has been asked for already. If the node is ours the
// attempt is joined; if it is another's, that is returned. After a create of unknown outcome a sync goes ahead of the
// look: what the create did is then seen, and if it did nothing it never will, for the ensemble takes nothing more
// from a connection that the session has left.
func (a *attempt) regard(ctx context.Context, got *client.Pending[client.Node], watch *client.Watch) (*rival, error) {
	for {
		if got == nil {
			p := a.s.Pipeline()
			if a.unknown {
				p.Sync(a.e.dir)
			}
			got, watch = p.WatchGet(a.e.dir)
			p.Send(ctx)
		}
		node, err := got.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			cancelled(watch)
			got = nil
			continue
		case errors.Is(err, zk.ErrNoNode):
			a.unseat()
			return nil, nil
		case err != nil:
			cancelled(watch)
			return nil, err
		case node.Stat.Czxid == a.token, a.unknown && a.e.claims(a.id, node):
			a.joined([]string{a.e.dir}, node.Stat.Czxid)
			if revoked(node.Data) {
				a.hear(a.e.dir)
				watch.Cancel() // the guard is to look for itself, and to say again who we are
			} else {
				a.own[0] = watch
			}
			return nil, nil
		}
		a.unseat()
		if node.Stat.EphemeralOwner == 0 {
			cancelled(watch)
			return nil, ErrNotEphemeral
		}
		return &rival{node, watch}, nil
	}
}

// claims reports whether a node is that of an attempt which does not know what has become of its create. It is
// ours from then on; see siblings.
func (e *entrance) claims(id attemptID, node client.Node) bool {
	if node.Stat.EphemeralOwner != e.s.ID() {
		return false
	}
	says := parseRecord(node.Data).ID
	return (says == id || says == "") && e.siblings.claim(node.Stat.Czxid)
}

// unseat notes that the node, if we have made one, is gone.
func (a *attempt) unseat() {
	for _, w := range a.own {
		cancelled(w) // on somebody else's, perhaps
	}
	a.own, a.token, a.revoked = nil, 0, nil
	a.forget()
}

// cancelled cancels a watch, if there is one.
func cancelled(w *client.Watch) {
	if w != nil {
		w.Cancel()
	}
}

// outlast waits until something happens to the rival's node. It returns the rival again if it is still there,
// or the one after it, and none if there is no node.
func (a *attempt) outlast(ctx context.Context, r *rival) (*rival, error) {
	select {
	case <-r.watch.Done():
	case <-ctx.Done():
		r.watch.Cancel()
		return nil, endOf(ctx, a.s)
	}
	switch ev, _, err := r.watch.Event(); {
	case err != nil:
		return nil, err
	case ev.Type == zk.NodeDeleted:
		return nil, nil
	}
	return a.regard(ctx, nil, nil)
}

// removeLone deletes the node of a hold that is released. If the first request leaves open whether it is gone,
// or whether it is ours at all, that is found out.
func (g *grant) removeLone(ctx context.Context) error {
	left := g.debris()
	err := g.s.Delete(ctx, g.e.dir, 0)
	ours := err == nil || client.MaybeApplied(err) // the node that we have deleted, or may have, was ours

	// A broken connection leaves open whether it is gone. A wrong version says that somebody has written to it, or that
	// it is another's by now.
	for errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrBadVersion) {
		var found bool
		found, err = g.e.removeOwn(ctx, &left)
		ours = ours || found
	}
	switch {
	case err == nil && ours, g.s.Err() != nil && g.s.Gone(ctx): // the node has gone, perhaps with the session
		return nil
	case err == nil, errors.Is(err, zk.ErrNoNode):
		return &LostError{Path: g.e.dir, Cause: ErrNodeDeleted}
	}
	g.e.reaper.add(left)
	return &LockError{"release", g.e.dir, errors.Join(ErrReleasePending, err)}
}

// removeOwn deletes the node if it is the one that d stands for, which its creation zxid tells. Where that is not known,
// because the outcome of the create is not, it is found out first. removeOwn reports whether there was such a node; with
// an error, that is open unless it reports true.
func (e *entrance) removeOwn(ctx context.Context, d *debris) (was bool, err error) {
	for {
		p := e.s.Pipeline()
		p.Sync(e.dir)
		got := p.Get(e.dir)
		p.Send(ctx)
		node, err := got.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			return was, nil
		case err != nil:
			return was, err
		case d.token == 0 && e.claims(d.id, node):
			d.token = node.Stat.Czxid
		case d.token != node.Stat.Czxid:
			return was, nil
		}
		was = true
		err = e.s.Delete(ctx, e.dir, node.Stat.Version)
		switch {
		case err == nil, errors.Is(err, zk.ErrNoNode):
			return true, nil
		case errors.Is(err, zk.ErrBadVersion): // written to meanwhile
			continue
		}
		return was, err
	}
}
