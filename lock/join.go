package lock

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// queueOf waits for a listing of the directory, and returns the queue that it shows. With an error, nothing is in it.
func (c *core) queueOf(ctx context.Context, listed *client.Pending[client.Listing]) (queue.Queue, error) {
	children, err := listed.Wait(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	q := queue.Parse(children.Names, c.rules.Heeds)
	q.Spent = queue.CounterSpent(children.Stat)
	return q, nil
}

// A creation is the request that makes the nodes of an attempt, all of them or none. Several are made in
// one transaction, so their numbers follow each other: no claim stands between them, and two attempts for
// several permits at once cannot wait for each other.
type creation struct {
	one  *client.Pending[client.Created]  // nil if there are several
	many *client.Pending[[]client.Result] // nil if there is one
}

func (a *attempt) create(p *client.Pipeline) *creation {
	prefix := zk.Join(a.core.dir, a.id.Prefix(a.core.rules.Word))
	if a.count == 1 {
		return &creation{one: p.Create(prefix, a.data, zk.EphemeralSequential, a.core.opt.ACL)}
	}
	ops := make([]client.Op, a.count)
	for i := range ops {
		ops[i] = client.OpCreate(prefix, a.data, zk.EphemeralSequential, a.core.opt.ACL)
	}
	return &creation{many: p.Multi(ops...)}
}

// wait returns the paths of the nodes, first one first, and their creation zxid; 0 if the server does not
// tell.
func (c *creation) wait(ctx context.Context) (nodes []string, czxid int64, err error) {
	if c.one != nil {
		made, err := c.one.Wait(ctx)
		return []string{made.Path}, made.Stat.Czxid, err
	}
	results, err := c.many.Wait(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range results {
		nodes = append(nodes, r.Path)
	}
	return nodes, results[0].Stat.Czxid, nil
}

// ask sends the requests that make our nodes and list the queue with them. They leave in one write, so
// that a free lock costs one round trip.
func (a *attempt) ask(ctx context.Context) {
	p := a.s.Pipeline()
	a.addTo(p)
	p.Send(ctx)
}

// addTo adds the requests of ask.
func (a *attempt) addTo(p *client.Pipeline) {
	a.created = a.create(p)
	if a.core.permits != nil {
		a.askPermits(p)
	}
	a.listed = p.Children(a.core.dir)
}

// join waits until our nodes are made, which ask has asked for, and returns the queue with them.
func (a *attempt) join(ctx context.Context) (view, error) {
	for ; ; a.ask(ctx) {
		nodes, czxid, err := a.created.wait(ctx)
		switch {
		case err == nil:
			a.noteJoined(nodes, czxid)
			listed := a.listed
			a.listed = nil // its answer may be long
			q, err := a.core.queueOf(ctx, listed)
			if err != nil {
				return a.list(ctx, 0)
			}
			return a.locate(ctx, q, listed)
		case errors.Is(err, zk.ErrNoNode): // the directory is missing, or went between two looks
			a.created = nil
			if err := a.core.makeDirectory(ctx); err != nil {
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
		default:
			a.created = nil // refused
			return view{}, err
		}
	}
}

// makeDirectory makes the lock's directory, a container where the server has them, or what is missing above it. That of a
// semaphore gets the number of permits. It competes with other contenders and with the removal of empty directories, so a nil
// error promises nothing: the caller's next create tells whether it was enough.
func (c *core) makeDirectory(ctx context.Context) error {
	if c.permits.varies() {
		_, err := c.permits.agree(ctx, c, 0, false)
		return err
	}
	_, err := c.s.Create(ctx, c.dir, nil, zk.Container, c.opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return c.s.EnsurePath(ctx, zk.Parent(c.dir), c.opt.ParentACL)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: it may be there
		return c.s.EnsurePath(ctx, c.dir, c.opt.ParentACL)
	}
	return err
}

func (a *attempt) noteJoined(nodes []string, czxid int64) {
	a.nodes, a.token, a.unknown, a.created = nodes, czxid, false, nil
	a.own = make([]*client.Watch, len(nodes))
	if a.vouching == nil {
		a.vouching = bridge.Of(a.s).Vouch(int(a.core.opt.Vouch))
	}
}

// errAbsent is the answer of list when a create that may have been applied turns out not to have been.
var errAbsent = errors.New("the nodes were not made")

// list returns the queue as it is now. lastConn is the connection of the last listing, 0 if there is none. If the
// connection is another now, the server may be one that lags behind, so a sync goes ahead of the listing, which then
// shows all that was true when the sync was sent.
func (a *attempt) list(ctx context.Context, lastConn uint64) (view, error) {
	for {
		p := a.s.Pipeline()
		st, _ := a.s.State()
		if lastConn == 0 || st.Conn != lastConn {
			p.Sync(a.core.dir)
			lastConn = 0
		}
		if lastConn == 0 || !a.permits.current(lastConn) {
			a.askPermits(p)
		}
		listed := p.Children(a.core.dir)
		p.Send(ctx)
		q, err := a.core.queueOf(ctx, listed)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			lastConn = 0 // the session paces its reconnects
			continue
		case err == nil && lastConn != 0 && bridge.Conn(listed) != lastConn:
			lastConn = 0 // reconnected meanwhile: this listing had no sync ahead of it
			continue
		case err != nil && !errors.Is(err, zk.ErrNoNode): // without a directory the queue is empty
			return view{}, err
		}
		return a.locate(ctx, q, listed)
	}
}

// locate finds our place in a listing that shows every change up to our create.
func (a *attempt) locate(ctx context.Context, q queue.Queue, listed *client.Pending[client.Listing]) (view, error) {
	a.listedAt = bridge.Sent(listed)
	places := q.Of(a.id)
	switch {
	case len(places) == 0 && a.unknown && len(a.nodes) == 0:
		return view{}, errAbsent
	case len(places) < a.count:
		return view{}, ErrPlaceLost
	}
	if err := a.recognize(ctx, q, places); err != nil {
		return view{}, err
	}
	first, last := places[0], places[a.count-1]
	if other := q.OtherAhead(first); other != queue.KindNone && !a.core.opt.AllowOtherKinds { // those behind see us
		return view{}, &KindError{a.core.path, other}
	}
	if a.core.permits != nil {
		n, err := a.readPermits(ctx)
		if err != nil {
			return view{}, err
		}
		q.Permits = n
	}
	waits := a.core.rules.WaitsFor(q, last)
	waits = slices.DeleteFunc(waits, func(i int) bool { return i >= first }) // our own leave with us
	if len(waits) == 0 {
		return view{}, nil
	}
	a.core.removeStrays(q.Claims[:first])
	return view{queue: &q, ahead: first, place: last, waits: waits, conn: bridge.Conn(listed)}, nil
}

// recognize looks at our nodes, which a listing has shown at these places, and notes their paths and token unless those are known.
func (a *attempt) recognize(ctx context.Context, q queue.Queue, places []int) error {
	nodes := make([]string, len(places))
	for i, place := range places {
		nodes[i] = zk.Join(a.core.dir, q.Claims[place].Name)
		if q.Unsettled(place) {
			return ErrCounterExhausted
		}
	}
	if extra := nodes[a.count:]; len(extra) > 0 { // more than we need: see Queue.Of
		a.core.cleaner.add(leftovers{id: a.id, nodes: extra})
		nodes = nodes[:a.count]
	}
	if n := q.Claims[places[a.count-1]].Number; queue.Exhausting(n) {
		a.core.opt.Logger.Warn("lock directory's sequence counter nears its end; let it become empty and delete it", "lock", a.core.dir, "number", n)
	}
	if a.token != 0 && slices.Equal(a.nodes, nodes) {
		return nil
	}
	stat, ok, err := a.s.Exists(ctx, nodes[0]) // found again after a lost reply, or not told by it
	switch {
	case err != nil:
		return err
	case !ok || stat.EphemeralOwner != a.s.ID():
		return ErrPlaceLost
	}
	a.noteJoined(nodes, stat.Czxid)
	return nil
}
