package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An attempt is one way through the line: join, wait, be granted. It is used by one goroutine. Its
// nodes (one, or one for each permit) are in one of three states: not made (nodes is empty and
// created is nil or has failed for sure), made (nodes are their paths), or unknown (created has no certain
// outcome, or some of them were deleted by somebody). What abandon leaves behind, the reaper removes.
type attempt struct {
	e       *entrance
	s       *client.Session
	id      queue.ID
	count   int // how many nodes it needs
	data    []byte
	created *creation // the last create that was sent
	unknown bool      // there may be nodes that we do not know of
	nodes   []string  // paths of our nodes, first one first, once known
	token   int64     // creation zxid of our nodes; 0 until known

	waited   bool                // we have waited in line: whoever is behind us may have seen others ahead of us
	own      []*client.Watch     // watches on our nodes, in their order; nil where none is set
	revoked  map[string]bool     // those of our nodes on which somebody has asked us to give up; nil while there is none
	vouching *client.Vouching    // asks for heartbeats, from when the nodes are known
	ahead    map[string]*lookout // of the last wait, by the names of the claims
	room     roomView
	marker   string // path of our delay marker, once it may have been made
	hasty    bool   // a try: it does not wait, not even for a delay to pass
}

// newAttempt makes an attempt to get count claims, with nodes that say what r says.
func newAttempt(e *entrance, count int, r queue.Record) *attempt {
	return &attempt{e: e, s: e.s, id: newAttemptID(), count: count, data: e.nodeData(r)}
}

// A view is the line as a listing showed it.
type view struct {
	queue *queue.Queue // nil if nobody is waited for
	ahead int          // how many claims are ahead of our first
	place int          // of our last
	waits []int        // places of claims that we wait for; none: the lock is ours
	conn  uint64       // connection that the listing came on
}

// first returns the path of the node at the head of the line.
func (v view) first(dir string) string { return zk.Join(dir, v.queue.Line[0].Name) }

// run joins the line and returns when the lock is ours.
func (a *attempt) run(ctx context.Context) ([]*Hold, error) {
	v, err := a.join(ctx, a.ask(ctx))
	if err != nil {
		return nil, err
	}
	return a.proceed(ctx, v)
}

// proceed goes on from a view of the line, and returns when the lock is ours.
func (a *attempt) proceed(ctx context.Context, v view) (_ []*Hold, err error) {
	for err == nil {
		if len(v.waits) == 0 {
			return a.grant(ctx)
		}
		if n := a.e.opt.QueueMax; n > 0 && v.ahead > n {
			return nil, ErrQueueFull
		}
		a.e.waits(ctx, Place{Ahead: v.ahead, Node: a.nodes[0], First: v.first(a.e.dir)})
		a.waited = true
		var granted bool
		if granted, err = a.wait(ctx, &v); granted {
			return a.grant(ctx)
		}
		if err == nil {
			v, err = a.list(ctx, v.conn)
		}
	}
	if a.waited && ctx.Err() != nil {
		err = a.addHolder(ctx, err)
	}
	return nil, err
}

// holderLimit is how much longer than its context a Lock takes at most, to learn which holder it has waited for.
const holderLimit = 100 * time.Millisecond

// addHolder returns err, with which a wait ended, together with the present holder if a server says quickly which one
// that is.
func (a *attempt) addHolder(ctx context.Context, err error) error {
	if st, _ := a.s.State(); st.Phase != client.Connected {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), holderLimit)
	defer cancel()
	p := a.s.Pipeline()
	listed := a.e.list(p)
	p.Send(ctx)
	ls, failed := listed.result(ctx)
	if failed != nil || len(ls.own.Line) == 0 || a.id.Made(ls.own.Line[0].Name) {
		return err
	}
	node := zk.Join(a.e.dir, ls.own.Line[0].Name)
	data, stat, failed := a.s.Get(ctx, node)
	if failed != nil {
		return err
	}
	return &waitError{err, &BusyError{Path: a.e.dir, Holder: queue.NewHolder(node, data, stat)}}
}

// try joins the line and leaves it again unless the lock is ours at once.
func (a *attempt) try(ctx context.Context) ([]*Hold, error) {
	v, err := a.join(ctx, a.ask(ctx))
	if err != nil {
		return nil, err
	}
	if len(v.waits) == 0 {
		return a.grant(ctx)
	}
	return nil, a.decline(ctx, v)
}

// decline leaves the line again, and returns a *BusyError that says who is at its head.
func (a *attempt) decline(ctx context.Context, v view) error {
	first := v.first(a.e.dir)
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
	busy := &BusyError{Path: a.e.dir}
	if n, err := holder.Wait(ctx); err == nil {
		busy.Holder = queue.NewHolder(first, n.Data, n.Stat)
	}
	return busy
}

// ask sends the requests that make our nodes and list the line with them. They leave in one write, so
// that a free lock costs one round trip.
func (a *attempt) ask(ctx context.Context) *listing {
	p := a.s.Pipeline()
	listed := a.addTo(p)
	p.Send(ctx)
	return listed
}

// addTo adds the requests of ask.
func (a *attempt) addTo(p *client.Pipeline) *listing {
	a.created = a.create(p)
	a.askRoom(p)
	return a.e.list(p)
}

// join waits until our nodes are made, and returns the line with them. listed is what ask returned.
func (a *attempt) join(ctx context.Context, listed *listing) (view, error) {
	for ; ; listed = a.ask(ctx) {
		nodes, czxid, err := a.created.wait(ctx)
		switch {
		case err == nil:
			a.joined(nodes, czxid)
			ls, err := listed.result(ctx)
			if err != nil {
				return a.list(ctx, 0)
			}
			return a.look(ctx, ls, listed.Conn())
		case errors.Is(err, zk.ErrNoNode): // the directory is missing, or went between two looks
			a.created = nil
			if err := a.e.makeDirectory(ctx); err != nil {
				return view{}, err
			}
		case client.MaybeApplied(err):
			a.unknown = true
			if !errors.Is(err, zk.ErrConnectionLoss) {
				return view{}, err
			}
			v, err := a.list(ctx, 0)
			if err != errAbsent {
				return v, err
			}
			a.unknown, a.created = false, nil // it was not applied, and now never will be
		case errors.Is(err, zk.ErrConnectionLoss):
			a.created = nil // never sent
		default:
			a.created = nil // refused
			return view{}, err
		}
	}
}

// joined notes that our nodes are known.
func (a *attempt) joined(nodes []string, czxid int64) {
	a.nodes, a.token, a.unknown, a.created = nodes, czxid, false, nil
	a.own = make([]*client.Watch, len(nodes))
	if a.vouching == nil {
		a.vouching = a.s.Vouch(a.e.opt.Vouch, nodes[0])
	}
}

// errAbsent is the answer of list when a create that may have been applied turns out not to have been.
var errAbsent = errors.New("the nodes were not made")

// list returns the line as it is now. lastConn is the connection of the last listing, 0 if there is none. If the
// connection is another now, the server may be one that lags behind, so a sync goes ahead of the listing, which then
// shows all that was true when the sync was sent.
func (a *attempt) list(ctx context.Context, lastConn uint64) (view, error) {
	for {
		p := a.s.Pipeline()
		st, _ := a.s.State()
		if lastConn == 0 || st.Conn != lastConn {
			p.Sync(a.e.dir)
			lastConn = 0
		}
		if lastConn == 0 || !a.room.current(lastConn) {
			a.askRoom(p)
		}
		listed := a.e.list(p)
		p.Send(ctx)
		ls, err := listed.result(ctx)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			lastConn = 0 // the session paces its reconnects
			continue
		case err == nil && lastConn != 0 && listed.Conn() != lastConn:
			lastConn = 0 // reconnected meanwhile: this listing had no sync ahead of it
			continue
		case err != nil && !errors.Is(err, zk.ErrNoNode): // without a directory nobody stands in line
			return view{}, err
		}
		return a.look(ctx, ls, listed.Conn())
	}
}

// look finds our place in a listing that shows every change up to our create.
func (a *attempt) look(ctx context.Context, ls listed, conn uint64) (view, error) {
	q := &ls.own
	places := q.Of(a.id)
	switch {
	case len(places) == 0 && a.unknown && len(a.nodes) == 0:
		return view{}, errAbsent
	case len(places) < a.count:
		a.forget()
		return view{}, ErrPlaceLost
	case len(places) > a.count:
		if err := a.dropLater(ctx, *q, places[a.count:]); err != nil {
			return view{}, err
		}
		return a.list(ctx, 0)
	}
	nodes := make([]string, a.count)
	for i, place := range places {
		nodes[i] = zk.Join(a.e.dir, q.Line[place].Name)
		if q.Unsettled(place) {
			return view{}, ErrCounterExhausted
		}
	}
	if a.token == 0 || !slices.Equal(a.nodes, nodes) { // found again after a lost reply, or not told by it
		stat, ok, err := a.s.Exists(ctx, nodes[0])
		switch {
		case err != nil:
			return view{}, err
		case !ok || stat.EphemeralOwner != a.s.ID():
			return view{}, ErrPlaceLost
		}
		a.joined(nodes, stat.Czxid)
	}
	first, last := places[0], places[a.count-1]
	if n := q.Line[last].Number; queue.Exhausting(n) {
		a.e.opt.Logger.Warn("lock directory's sequence counter nears its end; let it become empty and delete it", "lock", a.e.dir, "number", n)
	}
	if other := ls.otherAhead(first); other != queue.KindNone && !a.e.opt.AllowOtherKinds { // those behind see us
		return view{}, &KindError{a.e.dir, other}
	}
	var err error
	if q.Permits, err = a.seeRoom(ctx); err != nil {
		return view{}, err
	}
	waits := a.e.recipe.WaitsFor(*q, last)
	waits = slices.DeleteFunc(waits, func(i int) bool { return i >= first }) // our own leave with us
	if len(waits) == 0 {
		return view{conn: conn}, nil
	}
	return view{queue: q, ahead: first, place: last, waits: waits, conn: conn}, nil
}

// dropLater deletes nodes of ours behind those that we need, so that nobody waits for them.
func (a *attempt) dropLater(ctx context.Context, q queue.Queue, places []int) error {
	for _, i := range places {
		err := a.s.Delete(ctx, zk.Join(a.e.dir, q.Line[i].Name), -1)
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrConnectionLoss) {
			a.unknown = true // the reaper looks for all that carries our id
			return err
		}
	}
	return nil
}

// grant makes the holds, one of each node. A place at the head of the line is ours only if the session is known to live;
// after a long wait without an answer that has to be asked first.
func (a *attempt) grant(ctx context.Context) ([]*Hold, error) {
	if a.e.opt.Delay > 0 {
		if err := a.awaitDelay(ctx); err != nil {
			return nil, err
		}
	}
	if err := a.settleRoom(ctx); err != nil {
		return nil, err
	}
	number, err := vouchFor(ctx, a.s, a.e.opt.Vouch, a.nodes)
	if err != nil {
		return nil, err
	}
	if err := a.ownChanged(); err != nil { // meanwhile
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ending.Of(ctx)
	}
	holds := make([]*Hold, len(a.nodes))
	for i, node := range a.nodes {
		vouching := a.vouching
		if i > 0 {
			vouching = a.s.Vouch(a.e.opt.Vouch, node)
		}
		holds[i] = newHold(ctx, newPlace(a, node, number, vouching).grant, a.own[i])
	}
	a.room.cancel()
	a.lookAway()
	a.nodes, a.own, a.vouching, a.marker = nil, nil, nil, "" // the holds' now
	return holds, nil
}

// vouchFor returns once the session's lease is worth beginning a hold on, with the lease's number.
func vouchFor(ctx context.Context, s *client.Session, level client.Vouch, nodes []string) (number uint64, err error) {
	for {
		l := s.Lease(level)
		if lease.Enough(s.Timeout(), l.Left) {
			return l.Number, nil
		}
		if l.Settles > 0 {
			select {
			case <-time.After(l.Settles):
			case <-s.Done(): // the next request says so
			case <-ctx.Done():
				return 0, ending.Of(ctx)
			}
		}
		if err := prove(ctx, s, level, nodes); err != nil {
			return 0, err
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

// abandon hands what the attempt leaves to the reaper. The watches on our own nodes need no cancelling:
// they fire when the nodes go.
func (a *attempt) abandon() {
	a.room.cancel()
	a.lookAway()
	if a.vouching != nil {
		a.vouching.Stop()
	}
	if a.marker != "" { // goes first: without its node it would be taken for that of a holder
		a.nodes = append([]string{a.marker}, a.nodes...)
	}
	if len(a.nodes) > 0 || a.unknown || a.created != nil {
		a.e.reaper.add(debris{id: a.id, token: a.token, nodes: a.nodes, created: a.created, unknown: a.unknown})
	}
}

// forget notes that a node of ours is gone. If it was one of several, the reaper looks for the others.
func (a *attempt) forget() { a.nodes, a.unknown, a.created = nil, a.count > 1, nil }
