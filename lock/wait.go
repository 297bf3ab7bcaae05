package lock

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/fired"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// wait sleeps until the line has changed in a way that matters to us. It returns true if the lock is
// known to be ours, and otherwise asks for a new listing, by returning false, or says why the wait is
// over. It never sleeps without a watch on a node that was there when the watch was set. It keeps of the
// view what it needs and drops the line, which may be long.
func (a *attempt) wait(ctx context.Context, v *view) (granted bool, err error) {
	defer func() {
		if granted || err != nil || a.e.recipe.Announces { // there it is one lookout, and its bell depends on the view
			a.lookAway()
		}
	}()
	ahead, err := a.arm(ctx, *v)
	if ahead == nil {
		return false, err
	}
	v.queue, v.waits = nil, nil
	aheadNodes := make([]*client.Watch, len(ahead))
	for i, l := range ahead {
		aheadNodes[i] = l.node
	}
	watches := slices.Concat(aheadNodes, a.own, []*client.Watch{a.room.watch})
	var left, own <-chan struct{}
	for {
		st, changed := a.s.State()
		if st.Phase == client.Connected && st.Conn != v.conn {
			return false, nil // a reconnect: look again instead of trusting events
		}
		a.s.Listen(ctx, watches...)
		switch l := firstFired(ahead); {
		case slices.ContainsFunc(a.own, (*client.Watch).Fired):
			return false, a.ownChanged()
		case a.room.hasChanged():
			return false, nil
		case l != nil:
			return a.aheadChanged(v.conn, l)
		}
		if left == nil { // somebody else has to read now
			var stop func()
			left, stop = fired.Any(aheadNodes)
			defer stop()
			own, stop = fired.Any(a.own)
			defer stop()
		}
		select {
		case <-own:
		case <-a.room.changed():
		case <-left:
		case <-changed:
		case <-a.s.Done():
			return false, a.s.Err()
		case <-ctx.Done():
			return false, endOf(ctx, a.s)
		}
	}
}

// arm sets the watches of a wait: on the claims that v waits for, on our own nodes and on the number of permits. It
// returns the lookouts, in the order of v.waits. With nil and no error the line has to be listed again: something
// has changed since, or the connection has broken.
func (a *attempt) arm(ctx context.Context, v view) ([]*lookout, error) {
	p := a.s.Pipeline()
	ahead := a.lookOut(p, v)
	ownGot := make([]*client.Pending[client.Node], len(a.own))
	for i, w := range a.own {
		if w == nil {
			ownGot[i], a.own[i] = p.WatchGet(a.nodes[i])
		}
	}
	a.watchRoom(p)
	p.Send(ctx)
	var missed error
	for i, got := range ownGot {
		if got == nil {
			continue
		}
		own, err := got.Wait(ctx)
		if err != nil {
			a.own[i], missed = nil, err
		} else if queue.Revoked(own.Data) {
			a.hear(a.nodes[i])
		}
	}
	if missed != nil {
		return nil, a.missed(missed, ErrPlaceLost)
	}
	for _, l := range ahead {
		if l.got == nil {
			continue
		}
		if _, err := l.got.Wait(ctx); err != nil {
			return nil, a.missed(err, nil)
		}
		l.got = nil
	}
	if same, err := a.sameRoom(ctx, v); !same || err != nil {
		return nil, err
	}
	return ahead, nil
}

// A lookout watches a claim that we wait for.
type lookout struct {
	got   *client.Pending[client.Node] // the request that sets node; nil once it has
	node  *client.Watch
	frees bool          // its end gives us the lock
	bell  *client.Watch // tells that its end does, if that itself does not; nil if it would tell nothing
}

// lookOut returns lookouts for the claims that v waits for, and adds the requests that set their watches. One that
// is left from the wait before is as good as a new one if its watch is of the connection on which v was listed and has
// not fired: the claim was there when it was set, and is in the listing. The others end.
func (a *attempt) lookOut(p *client.Pipeline, v view) []*lookout {
	left := a.ahead
	a.ahead = make(map[string]*lookout, len(v.waits))
	all := make([]*lookout, len(v.waits))
	for i, place := range v.waits {
		name := v.queue.Line[place].Name
		if l := left[name]; l != nil && l.got == nil && l.node.Conn() == v.conn && !l.node.Fired() {
			l.frees = a.free(v.queue.AfterEndOf(place, v.place))
			all[i] = l
			delete(left, name)
		} else {
			all[i] = a.watchAhead(p, v, place)
		}
		a.ahead[strings.Clone(name)] = all[i] // the name itself would keep the whole listing
	}
	for _, l := range left {
		l.cancel()
	}
	return all
}

// lookAway ends the lookouts that are left.
func (a *attempt) lookAway() {
	for _, l := range a.ahead {
		l.cancel()
	}
	a.ahead = nil
}

// watchAhead adds the requests that watch the claim at place. Its bell is worth watching if knowing that
// it left does not tell enough, and knowing that it held the lock would.
func (a *attempt) watchAhead(p *client.Pipeline, v view, place int) *lookout {
	l := &lookout{frees: a.free(v.queue.AfterEndOf(place, v.place))}
	name := v.queue.Line[place].Name
	if bell, ok := queue.ReleaseMarkerOf(name); ok && a.e.recipe.Announces && !l.frees && a.free(v.queue.AfterReleaseOf(place, v.place)) {
		_, l.bell = p.WatchExists(zk.Join(a.e.dir, bell)) // answered before what follows
	}
	l.got, l.node = p.WatchGet(zk.Join(a.e.dir, name))
	return l
}

// free reports whether the claim at place of a queue has to wait for nobody.
func (a *attempt) free(q queue.Queue, place int) bool { return len(a.e.recipe.WaitsFor(q, place)) == 0 }

func (l *lookout) cancel() {
	l.node.Cancel()
	if l.bell != nil {
		l.bell.Cancel()
	}
}

// rung reports whether the claim's bell has been heard on a connection.
func (l *lookout) rung(conn uint64) bool {
	if l.bell == nil || !l.bell.Fired() {
		return false
	}
	ev, on, err := l.bell.Event()
	return err == nil && ev.Type == zk.NodeCreated && on == conn
}

// firstFired returns a lookout whose watch on the node has fired.
func firstFired(ahead []*lookout) *lookout {
	for _, l := range ahead {
		if l.node.Fired() {
			return l
		}
	}
	return nil
}

// missed turns the error of a read that was to set a watch into what it means for the wait; gone is what
// it means that the node is not there.
func (a *attempt) missed(err, gone error) error {
	switch {
	case errors.Is(err, zk.ErrConnectionLoss):
		return nil // list again
	case errors.Is(err, zk.ErrNoNode):
		if gone != nil {
			a.forget()
		}
		return gone
	}
	return err
}

// ownChanged says what a change of our own nodes means.
func (a *attempt) ownChanged() error {
	for i, w := range a.own {
		if w == nil || !w.Fired() {
			continue
		}
		ev, _, err := w.Event()
		a.own[i] = nil
		switch {
		case err != nil:
			return err
		case ev.Type == zk.NodeDeleted:
			a.forget()
			return ErrPlaceLost
		}
	}
	return nil // somebody wrote to it; watch it again
}

// aheadChanged reports whether the end of a node ahead gives us the lock without another listing; listed is
// the connection of the last one.
//
// Its deletion must have come on that connection, without a break, and the watches on our own nodes and on
// the number of permits, set on the same connection, must not have fired: events arrive in the order of what
// caused them, so our nodes were still there. And there must be nobody left to wait for in the line of the
// last listing, given that the node has ended, since whoever came later stands behind us; or given that its
// holder has left, if it has rung its bell, which only a holder does, in the transaction that deletes its
// node, so that the bell is heard first.
func (a *attempt) aheadChanged(listed uint64, l *lookout) (granted bool, err error) {
	ev, conn, err := l.node.Event()
	if err != nil {
		return false, err
	}
	if ev.Type != zk.NodeDeleted || conn != listed || slices.ContainsFunc(a.own, func(w *client.Watch) bool { return w.Conn() != conn }) {
		return false, nil
	}
	if !l.frees && !l.rung(conn) {
		return false, nil
	}
	if slices.ContainsFunc(a.own, (*client.Watch).Fired) || a.e.room.varies() && !a.room.current(conn) {
		return false, nil // the listing will tell
	}
	return true, nil
}
