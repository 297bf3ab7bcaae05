package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An attempt takes one caller through the queue: join, wait, be granted. It is used by one goroutine. Its
// nodes (one, or one for each permit) are in one of three states: not made (nodes is empty and
// created is nil or has failed for sure), made (nodes are their paths), or unknown (created has no certain
// outcome, or some of them were deleted by others). The cleaner removes what abandon leaves behind.
type attempt struct {
	core    *core
	s       *client.Session
	id      queue.ID
	count   int // how many nodes it needs
	data    []byte
	created *creation                       // the last create that was sent
	listed  *client.Pending[client.Listing] // the listing that was sent with it, until the answer is looked at
	unknown bool                            // there may be nodes that we do not know of
	nodes   []string                        // paths of our nodes, first one first, once known
	token   int64                           // creation zxid of our nodes; 0 until known

	listedAt    clock.Instant          // when the request for the last listing was sent
	waited      bool                   // we have waited in the queue: those behind us may have seen others ahead of us
	own         []*client.Watch        // watches on our nodes, in their order; nil where none is set
	revoked     []string               // those of our nodes whose data asks us to give up
	vouching    bridge.Vouching        // asks for heartbeats, from when the nodes are known
	ahead       map[string]*aheadWatch // of the last wait, by the names of the claims
	permits     permitState
	delayMarker string // path of our delay marker, once it may have been made
	try         bool   // it does not wait, not even for a delay to pass
	yields      bool   // it gives up if it waits for itself
	beforeWait  func() // called before it waits, if not nil
}

// newAttempt makes an attempt to get count claims, with nodes that say what r says.
func newAttempt(c *core, count int, try bool, r queue.Record) *attempt {
	a := &attempt{core: c, s: c.s, id: newAttemptID(), count: count, data: c.nodeData(r), try: try, yields: r.Yields}
	attemptIDs.add(a.id)
	return a
}

// A view is the queue as a listing showed it.
type view struct {
	queue *queue.Queue // nil if no claim is waited for
	ahead int          // how many claims are ahead of our first
	place int          // of our last
	waits []int        // places of claims that we wait for; none: the lock is ours
	conn  uint64       // connection that the listing came on
}

func (v view) first(dir string) string { return zk.Join(dir, v.queue.Claims[0].Name) }

// run joins the queue, as ask has asked, and returns when the lock is ours. An attempt that
// returns no holds is abandoned, also when a function of the user's, such as Options.Waiting, has panicked. The event of a
// deleted node may come before the end of its session is known: then the error is the session's.
func (a *attempt) run(ctx context.Context) (holds []*Hold, err error) {
	defer func() {
		if holds == nil {
			a.abandon()
		}
	}()
	v, err := a.join(ctx)
	if err == nil {
		holds, err = a.proceed(ctx, v)
	}
	if err == ErrPlaceLost { // of ours, and not of another lock's attempt, as the cause of ctx may be
		if len(a.nodes) > 0 {
			a.forget()
		}
		a.s.Sync(ctx, a.core.dir) // if the session has ended, that is known then
		if over := a.s.Err(); over != nil {
			err = over
		}
	}
	return holds, err
}

// proceed is run from a view of the queue on.
func (a *attempt) proceed(ctx context.Context, v view) ([]*Hold, error) {
	for {
		if err := a.await(ctx, v); err != nil {
			return nil, err
		}
		holds, err := a.grant(ctx)
		if holds != nil || err != nil {
			return holds, err
		}
		if v, err = a.list(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// await returns when there is no claim that we wait for. A try leaves the queue again unless that is so at once.
func (a *attempt) await(ctx context.Context, v view) (err error) {
	if len(v.waits) == 0 {
		return nil
	}
	if a.try {
		return a.decline(ctx, v)
	}
	if a.beforeWait != nil {
		a.beforeWait()
	}
	wait := ctx
	if a.yields {
		var stop func()
		wait, stop = a.core.detect(ctx, a.id)
		defer stop()
	}
	for granted := false; err == nil && !granted && len(v.waits) > 0; {
		if n := a.core.opt.QueueMax; n > 0 && v.ahead > n {
			return ErrQueueFull
		}
		a.core.tellWaiting(ctx, Place{Ahead: v.ahead, Node: a.nodes[0], First: v.first(a.core.dir)})
		a.waited = true
		granted, err = a.wait(wait, &v)
		if err == nil && !granted {
			v, err = a.list(ctx, v.conn)
		}
	}
	var found *DeadlockError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return a.addHolder(ctx, err)
	case errors.As(context.Cause(wait), &found):
		return found
	}
	return err
}

// decline leaves the queue again, and returns a *BusyError that names the claim at its head.
func (a *attempt) decline(ctx context.Context, v view) error {
	first := v.first(a.core.dir)
	p := a.s.Pipeline()
	deletes := make([]*client.Pending[struct{}], len(a.nodes))
	for i, node := range a.nodes {
		deletes[i] = p.Delete(node, -1)
	}
	holder := p.Get(first)
	p.Send(ctx)
	gone := 0
	for _, d := range deletes {
		if _, err := d.Wait(ctx); err == nil || errors.Is(err, zk.ErrNoNode) {
			gone++
		}
	}
	if gone == len(deletes) {
		a.nodes = nil
	}
	busy := &BusyError{Path: a.core.path}
	if n, err := holder.Wait(ctx); err == nil {
		busy.Holder = queue.NewHolder(first, n.Data, n.Stat)
	}
	return busy
}

// grant makes the holds, one of each node; none if the queue has to be listed again. A place at the head of the queue is ours only
// if the session is known to live; after a long wait without an answer that has to be asked first.
func (a *attempt) grant(ctx context.Context) ([]*Hold, error) {
	if a.core.opt.Delay > 0 {
		if err := a.awaitDelay(ctx); err != nil {
			return nil, err
		}
	}
	if a.permits.open { // another contender may have stored another number meanwhile
		if n, err := a.core.permits.agree(ctx, a.core, a.count, true); err != nil || n != a.permits.n {
			return nil, err
		}
	}
	rests, err := vouchFor(ctx, a.s, a.core.opt.Vouch, a.nodes)
	if err != nil {
		return nil, err
	}
	if err := a.checkOwn(); err != nil { // meanwhile
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ending.Of(ctx)
	}
	if isOutdated(a.s, a.listedAt, rests.At, a.own...) {
		return nil, nil
	}
	holds := make([]*Hold, len(a.nodes))
	granted := false
	defer func() {
		for _, h := range holds {
			if !granted && h != nil { // the hook of a later one has panicked
				h.g.endUntold()
			}
		}
	}()
	for i, node := range a.nodes {
		vouching := a.vouching
		if i > 0 {
			vouching = bridge.Of(a.s).Vouch(int(a.core.opt.Vouch))
		}
		holds[i] = newHold(ctx, newQueueClaim(a, node, rests.Number, vouching).grant, a.own[i])
	}
	if a.waited {
		a.stopWaiting()
	}
	granted = true
	a.nodes, a.own, a.vouching, a.delayMarker = nil, nil, nil, "" // the holds' now
	attemptIDs.drop(a.id)
	return holds, nil
}

// isOutdated reports whether the last listing, whose request was sent at that time, is too old now to show that our nodes are still
// there: an operator may have deleted them since. With a watch on each node it does not matter how old the listing is: the event
// of a deletion comes before the answer that the session's lease rests on.
func isOutdated(s *client.Session, sent, now clock.Instant, own ...*client.Watch) bool {
	return slices.Contains(own, nil) && now.Sub(sent) >= lease.Term(s.Timeout())
}

// vouchFor waits until the session's lease is long enough to begin a hold on it, and returns that lease.
func vouchFor(ctx context.Context, s *client.Session, level client.Vouch, nodes []string) (bridge.Lease, error) {
	for {
		l := bridge.Of(s).Lease(int(level))
		if lease.Enough(s.Timeout(), l.Remaining) {
			return l, nil
		}
		if l.Settles > 0 {
			select {
			case <-time.After(l.Settles):
			case <-s.Done(): // the next request says so
			case <-ctx.Done():
				return l, ending.Of(ctx)
			}
		}
		if err := prove(ctx, s, level, nodes); err != nil {
			return l, err
		}
	}
}

// prove asks for an answer that proves as much as level demands.
func prove(ctx context.Context, s *client.Session, level client.Vouch, nodes []string) error {
	if level != client.VouchWrite {
		return s.Sync(ctx, "/")
	}
	checks := make([]client.Op, len(nodes))
	for i, node := range nodes {
		checks[i] = client.OpCheck(node, -1)
	}
	_, err := s.Multi(ctx, checks...)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return ErrPlaceLost
	case errors.Is(err, zk.ErrConnectionLoss):
		return nil // not proved: asked again
	}
	return err
}

// abandon hands what the attempt leaves to the cleaner. The watches on our own nodes need no cancelling:
// they fire when the nodes go.
func (a *attempt) abandon() {
	if a.waited {
		a.stopWaiting()
	}
	if a.vouching != nil {
		a.vouching.Stop()
	}
	a.removeDelayMarker()
	if len(a.nodes) > 0 || a.unknown || a.created != nil {
		a.core.cleaner.add(leftovers{id: a.id, nodes: a.nodes, created: a.created, unknown: a.unknown})
	}
	attemptIDs.drop(a.id)
}

// forget notes that a node of ours is gone. If it was one of several, the cleaner looks for the others.
func (a *attempt) forget() { a.nodes, a.unknown, a.created = nil, a.count > 1, nil }

// checkOwn returns what a change of our own nodes means: nil if one was only written to, which is then to be watched again.
func (a *attempt) checkOwn() error {
	for i, w := range a.own {
		if w == nil || !w.Fired() {
			continue
		}
		a.own[i] = nil
		if err := ownEvent(w); err != nil {
			return err
		}
	}
	return nil
}

// ownEvent returns what the event of a watch on a node of ours means: nil if the node was only written to.
func ownEvent(w *client.Watch) error {
	ev, _, err := w.Event()
	if err == nil && ev.Type == zk.NodeDeleted {
		return ErrPlaceLost
	}
	return err
}
