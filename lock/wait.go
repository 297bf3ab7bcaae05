package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// waitForTurn returns when there is no claim any more that we wait for. A try leaves the queue again.
func (a *attempt) waitForTurn(ctx context.Context, v view) (err error) {
	if a.try {
		return a.decline(ctx, v)
	}
	waitCtx := ctx
	if a.yields {
		var stop func()
		waitCtx, stop = a.lock.detect(ctx, a.id)
		defer stop()
	}
	for ours := false; err == nil && !ours && !v.ours(); {
		if n := a.lock.opt.QueueMax; n > 0 && v.first > n {
			return ErrQueueFull
		}
		a.lock.tellWaiting(ctx, Place{Ahead: v.first, Node: a.nodes[0], First: v.head(a.lock.dir)})
		a.waited = true
		ours, err = a.waitOnce(waitCtx, &v)
		if err == nil && !ours {
			v, err = a.list(ctx, v.conn)
		}
	}
	switch found, isDeadlock := errors.AsType[*DeadlockError](context.Cause(waitCtx)); {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // and not what came at the same moment, such as ErrPlaceLost
		return a.withHolder(ctx, err)
	case isDeadlock:
		return found
	}
	return err
}

// decline leaves the queue again, and returns a *BusyError that names the claim at its head.
func (a *attempt) decline(ctx context.Context, v view) error {
	first := v.head(a.lock.dir)
	p := a.s.Pipeline()
	answers := deleteAll(p, a.nodes)
	holder := p.Get(first)
	p.Send(ctx)
	a.nodes, _ = answers(ctx)
	busy := &BusyError{Path: a.lock.path}
	if n, err := holder.Wait(ctx); err == nil {
		busy.Holder = queue.NewHolder(first, n.Data, n.Stat)
	}
	return busy
}

// waitOnce sleeps until the queue has changed in a way that matters to this attempt. It returns true if the lock is known to be
// ours, and otherwise asks for a new listing, by returning false, or says why the wait is over. It never sleeps without a watch on
// a node that was there when the watch was set. It drops the view's queue, which may be long.
func (a *attempt) waitOnce(ctx context.Context, v *view) (ours bool, err error) {
	watched, err := a.arm(ctx, *v)
	if watched == nil {
		return false, err
	}
	v.queue, v.waits = queue.Queue{}, nil
	watches := append(slices.Clone(a.watches), a.knownPermits.watch)
	for _, w := range watched {
		watches = append(watches, w.node)
	}
	fired, err := a.sleep(ctx, v.conn, watches)
	switch {
	case err != nil || !fired:
		return false, err
	case slices.ContainsFunc(a.watches, (*client.Watch).Fired):
		return false, a.checkOwn()
	}
	for _, w := range watched {
		if w.node.Fired() {
			return a.checkClaim(v.conn, w)
		}
	}
	return false, nil // the number of permits has changed
}

// sleep returns true once one of the watches has fired, and false after a reconnect, when it is time to look again instead of
// trusting events. conn is the connection of the last listing. Watches that are nil are left out.
func (a *attempt) sleep(ctx context.Context, conn uint64, watches []*client.Watch) (fired bool, err error) {
	watches = slices.DeleteFunc(watches, func(w *client.Watch) bool { return w == nil })
	var wake chan struct{} // gets a signal when a watch has fired; nil until another goroutine has to read
	for {
		st, changed := a.s.State()
		if st.Phase == client.Connected && st.Conn != conn {
			return false, nil
		}
		bridge.Of(a.s).Listen(ctx, watches)
		if slices.ContainsFunc(watches, (*client.Watch).Fired) {
			return true, nil
		}
		if wake == nil {
			wake = make(chan struct{}, 1)
			for _, w := range watches {
				bridge.Notify(w, wake)
			}
		}
		select {
		case <-wake:
		case <-changed:
		case <-a.s.Done():
			return false, a.s.Err()
		case <-ctx.Done():
			return false, bridge.Of(a.s).CutOff(ending.Of(ctx))
		}
	}
}

// arm sets the watches of a wait: on the claims that v waits for, on our own nodes and on the number of permits. It
// returns the watches on claims, in the order of v.waits. With nil and no error the queue has to be listed again: something
// has changed since, or the connection has broken.
func (a *attempt) arm(ctx context.Context, v view) ([]*claimWatch, error) {
	p := a.s.Pipeline()
	watched := a.watchClaims(p, v)
	ownAnswers := a.watchOwn(p)
	a.watchPermits(p)
	p.Send(ctx)
	if err := ownAnswers(ctx); err != nil {
		return nil, relistOr(err, ErrPlaceLost)
	}
	for _, w := range watched {
		if w.got == nil {
			continue
		}
		if _, err := w.got.Wait(ctx); err != nil {
			return nil, relistOr(err, nil)
		}
		w.got = nil
	}
	if a.lock.permits != nil {
		if n, err := a.readPermits(ctx); err != nil || n != v.queue.Permits {
			return nil, relistOr(err, ErrPlaceLost)
		}
	}
	return watched, nil
}

// watchOwn adds the requests that watch our nodes, as far as they are not watched. answers returns the last error of a watch that could
// not be set, which is nil again in a.watches.
func (a *attempt) watchOwn(p *client.Pipeline) (answers func(context.Context) error) {
	reads := make([]*client.Pending[client.Node], len(a.watches))
	for i, w := range a.watches {
		if w == nil {
			reads[i], a.watches[i] = p.WatchGet(a.nodes[i])
		}
	}
	return func(ctx context.Context) (missed error) {
		for i, read := range reads {
			if read == nil {
				continue
			}
			node, err := read.Wait(ctx)
			if err != nil {
				a.watches[i], missed = nil, err
			} else if queue.Revoked(node.Data) {
				a.revoked = append(a.revoked, a.nodes[i])
				restoreOwner(a.s, a.nodes[i], a.data, node)
			}
		}
		return missed
	}
}

// A claimWatch watches a claim that we wait for.
type claimWatch struct {
	got           *client.Pending[client.Node] // the request that sets node; nil once it has
	node          *client.Watch
	frees         bool          // its end gives us the lock
	releaseMarker *client.Watch // on the claim's release marker, if that gives us the lock and the end of the claim alone does not
}

// watchClaims returns watches for the claims that v waits for, and adds the requests that set them. A semaphore's waiter keeps a watch
// of the wait before if it was set on the connection of the listing v and has not fired: the claim was there then, and is in the
// listing. The others end. Mutexes and read/write locks have one watch and set it anew: v decides whether it needs the release marker.
func (a *attempt) watchClaims(p *client.Pipeline, v view) []*claimWatch {
	left := a.claimWatches
	a.claimWatches = make(map[string]*claimWatch, len(v.waits))
	all := make([]*claimWatch, len(v.waits))
	for i, place := range v.waits {
		name := v.queue.Claims[place].Name
		if w := left[name]; w != nil && a.lock.rules.Mode == queue.Permit && w.got == nil && bridge.Conn(w.node) == v.conn && !w.node.Fired() {
			w.frees = a.lock.rules.FreedBy(v.queue, place, v.last, false)
			all[i] = w
			delete(left, name)
		} else {
			all[i] = a.watchClaim(p, v, place)
		}
		a.claimWatches[strings.Clone(name)] = all[i] // the name itself would keep the whole listing
	}
	for _, w := range left {
		w.cancel()
	}
	return all
}

// cancelWatches ends all watches but those on our own nodes.
func (a *attempt) cancelWatches() {
	for _, w := range a.claimWatches {
		w.cancel()
	}
	a.knownPermits.cancel()
}

// watchClaim adds the requests that watch the claim at place, and its release marker if a mere deletion does not give us the lock.
func (a *attempt) watchClaim(p *client.Pipeline, v view, place int) *claimWatch {
	w := &claimWatch{frees: a.lock.rules.FreedBy(v.queue, place, v.last, false)}
	name := v.queue.Claims[place].Name
	if id, ok := queue.IDOf(name); ok && !w.frees && a.lock.rules.FreedBy(v.queue, place, v.last, true) {
		_, w.releaseMarker = p.WatchExists(zk.Join(a.lock.dir, id.ReleaseMarker())) // answered before what follows
	}
	w.got, w.node = p.WatchGet(zk.Join(a.lock.dir, name))
	return w
}

func (w *claimWatch) cancel() {
	w.node.Cancel()
	w.releaseMarker.Cancel()
}

// releaseMarkerFired reports whether the claim's release marker was seen on a connection.
func (w *claimWatch) releaseMarkerFired(conn uint64) bool {
	if w.releaseMarker == nil || !w.releaseMarker.Fired() {
		return false
	}
	ev, on, err := w.releaseMarker.Event()
	return err == nil && ev.Type == zk.NodeCreated && on == conn
}

// relistOr turns the error of a read that was to set a watch into what it means for the wait; gone is what a missing node means.
func relistOr(err, gone error) error {
	switch {
	case errors.Is(err, zk.ErrConnectionLoss):
		return nil // list again
	case errors.Is(err, zk.ErrNoNode):
		return gone
	}
	return err
}

// checkClaim reports whether the end of a node ahead gives us the lock without another listing; listedOn is
// the connection of the last one. Three things must be true:
//
//  1. The deletion has come on that connection, without a break.
//  2. The watches on our own nodes and on the number of permits were set on the same connection and have not fired. Events
//     arrive in the order of what caused them, so our nodes were still there.
//  3. By the last listing, no other claim keeps us waiting once the node has gone; later claims stand behind ours. If its release
//     marker was seen, only a holder can have gone, so that all claims it had waited for have gone too: a holder makes the marker
//     in the transaction that deletes its node.
func (a *attempt) checkClaim(listedOn uint64, w *claimWatch) (ours bool, err error) {
	ev, conn, err := w.node.Event()
	if err != nil {
		return false, err
	}
	unsure := func(own *client.Watch) bool { return bridge.Conn(own) != conn || own.Fired() }
	if ev.Type != zk.NodeDeleted || conn != listedOn || slices.ContainsFunc(a.watches, unsure) {
		return false, nil
	}
	if !w.frees && !w.releaseMarkerFired(conn) {
		return false, nil
	}
	return !a.lock.permits.varies() || a.knownPermits.current(conn), nil
}

// overtime is how much longer than its context a Lock takes at most for a last request: to delete the delay marker of an attempt
// that has failed, or to learn which holder it has waited for.
const overtime = 100 * time.Millisecond

// withHolder returns err, with which a wait ended, together with the present holder if a server says quickly which one that is.
func (a *attempt) withHolder(ctx context.Context, err error) error {
	if st, _ := a.s.State(); st.Phase != client.Connected {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), overtime)
	defer cancel()
	names, _, _ := a.s.Children(ctx, a.lock.dir) // none if that fails
	claims := queue.Parse(names, a.lock.rules.Heeds).Claims
	if len(claims) == 0 || a.id.Made(claims[0].Name) {
		return err
	}
	node := zk.Join(a.lock.dir, claims[0].Name)
	data, stat, failed := a.s.Get(ctx, node)
	if failed != nil {
		return err
	}
	return &waitError{err, &BusyError{Path: a.lock.path, Holder: queue.NewHolder(node, data, stat)}}
}
