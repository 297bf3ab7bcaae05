package lock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An attempt takes one caller through the queue: join, wait, be granted. It is used by one goroutine. It makes one claim, or one for
// each permit. The cleaner removes what abandon leaves behind.
type attempt struct {
	attemptBase
	lock  *fairLock
	s     *client.Session
	count int // how many nodes it needs

	claimWatches map[string]*claimWatch // of the last wait, by the names of the claims
	knownPermits knownPermits
	try          bool // it does not wait, not even for a delay to pass
	yields       bool // it gives up if it waits for itself: Options.Deadlock is set, and it works under holds
}

// newAttempt makes an attempt to get count claims. r is what their nodes say besides the owner; nil if nothing.
func newAttempt(f *fairLock, count int, try bool, r *queue.Record) *attempt {
	a := &attempt{attemptBase: newAttemptBase(&f.lockBase), lock: f, s: f.s, count: count, try: try}
	a.data, a.yields = f.nodeData(r), r != nil && r.Yields
	return a
}

// attemptBase is what attempts to get a lock with and without a queue have in common.
type attemptBase struct {
	ownNodes
	base    *lockBase
	data    []byte // of the nodes
	vouches bool   // it asks for heartbeats, from when the nodes are known

	shownAt     clock.Instant   // when the last request was sent whose answer has shown our nodes
	watches     []*client.Watch // watches on our nodes, in their order; nil where none is set
	revoked     []string        // those of our nodes whose data asks us to give up
	waited      bool            // we have waited in a queue: those behind us may have seen others ahead of us
	delayMarker string          // path of our delay marker, once it may have been made
}

func newAttemptBase(b *lockBase) attemptBase {
	id := newAttemptID()
	attemptIDs.add(id)
	return attemptBase{ownNodes: ownNodes{id: id}, base: b}
}

// noteJoined notes that our nodes are known now. It asks for heartbeats until the attempt has ended.
func (a *attemptBase) noteJoined() {
	a.watches = make([]*client.Watch, len(a.nodes))
	if !a.vouches {
		bridge.Of(a.base.s).Vouch(int(a.base.opt.Vouch), 1)
		a.vouches = true
	}
}

// end ends the attempt. What it has left of nodes is the cleaner's.
func (a *attemptBase) end() {
	if a.vouches {
		bridge.Of(a.base.s).Vouch(int(a.base.opt.Vouch), -1)
	}
	if len(a.nodes) > 0 || a.unknown || a.created != nil {
		a.base.cleaner.add(a.ownNodes)
	}
	attemptIDs.drop(a.id)
}

// ownNodes are the nodes that an attempt has made, or that an attempt or a hold has left.
type ownNodes struct {
	id        queue.ID
	nodes     []string  // their paths, first one first, as far as they are known; a delay marker that is left is ahead of them
	token     int64     // creation zxid of the nodes; 0 if unknown
	created   *creation // the create that is under way; nil if none is
	unknown   bool      // there may be nodes that we do not know of: look for the id
	undeleted bool      // there is one node; it is removed only if it is the session's
}

// awaitCreate waits for the outcome of the create that is under way, and notes it. The outcome comes, or the connection ends: both
// complete the create. If ctx ends first, or the answer cannot be read, it stays as it is for the cleaner.
func (c *ownNodes) awaitCreate(ctx context.Context) error {
	nodes, czxid, err := c.created.await(ctx)
	lost := errors.Is(err, zk.ErrConnectionLoss)
	switch {
	case err == nil: // there are no others, with ZooKeeper: an attempt creates again only once it knows what became of the create before
		c.nodes, c.token, c.created, c.unknown = nodes, czxid, nil, false
	case lost || !client.MaybeApplied(err):
		c.created, c.unknown = nil, c.unknown || lost
	}
	return err
}

// A view is the queue as a listing showed it.
type view struct {
	queue queue.Queue // empty if no claim is waited for
	first int         // place of our first claim: so many are ahead
	last  int         // place of our last
	waits []int       // places of claims that we wait for; none: the lock is ours
	conn  uint64      // connection that the listing came on
}

// ours reports whether the lock is ours, as the listing showed.
func (v view) ours() bool { return len(v.waits) == 0 }

// head returns the path of the first claim in the queue.
func (v view) head(dir string) string { return zk.Join(dir, v.queue.Claims[0].Name) }

// run joins the queue, and returns the holds when the lock is ours. An attempt that
// returns no holds is abandoned, also when a function of the user's, such as Hooks.Waiting, has panicked. A node of ours may have
// gone because the session has expired. A sync finds that out, and the error is then the session's.
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
		a.s.Sync(ctx, a.lock.dir)
		err = cmp.Or(a.s.Err(), err)
	}
	return holds, err
}

// proceed waits until the lock is ours, from a view of the queue on, and returns the holds.
func (a *attempt) proceed(ctx context.Context, v view) ([]*Hold, error) {
	for {
		if !v.ours() {
			if err := a.waitForTurn(ctx, v); err != nil {
				return nil, err
			}
		}
		holds, err := a.tryGrant(ctx)
		if holds != nil || err != nil {
			return holds, err
		}
		if v, err = a.list(ctx, 0); err != nil {
			return nil, err
		}
	}
}

// A creation is the request that makes the nodes of an attempt, all of them or none. Several are made in one transaction, so their
// numbers follow each other: no claim stands between them, and two attempts for several permits at once cannot wait for each other.
type creation struct {
	one  *client.Pending[client.Created]  // nil if there are several
	many *client.Pending[[]client.Result] // nil if there is one
}

func (a *attempt) create(p *client.Pipeline) *creation {
	prefix := zk.Join(a.lock.dir, a.id.Prefix(a.lock.rules.Word))
	if a.count == 1 {
		return &creation{one: p.Create(prefix, a.data, zk.EphemeralSequential, a.lock.opt.ACL)}
	}
	ops := make([]client.Op, a.count)
	for i := range ops {
		ops[i] = client.OpCreate(prefix, a.data, zk.EphemeralSequential, a.lock.opt.ACL)
	}
	return &creation{many: p.Multi(ops...)}
}

// await returns the paths of the nodes, first one first, and their creation zxid; 0 if the server does not tell.
func (c *creation) await(ctx context.Context) (nodes []string, czxid int64, err error) {
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

// join makes our nodes, and returns the queue with them. All requests leave in one write, so that a free lock costs one round trip.
func (a *attempt) join(ctx context.Context) (view, error) {
	for {
		p := a.s.Pipeline()
		a.created = a.create(p)
		if a.lock.permits != nil {
			a.requestPermits(p)
		}
		listed := p.Children(a.lock.dir)
		p.Send(ctx)
		listed.Wait(ctx) // reads both answers
		err := a.awaitCreate(ctx)
		switch {
		case err == nil:
			a.noteJoined()
			q, err := a.lock.awaitQueue(ctx, listed)
			if err != nil {
				return a.list(ctx, 0)
			}
			return a.decide(ctx, q, listed)
		case errors.Is(err, zk.ErrNoNode): // the directory is missing, or went between two looks
			if err := a.lock.makeDirectory(ctx); err != nil {
				return view{}, err
			}
		case a.unknown:
			v, err := a.list(ctx, 0)
			if err != errAbsent {
				return v, err
			}
			a.unknown = false // it was not applied, and now never will be
		default:
			return view{}, err
		}
	}
}

// errAbsent is the answer of list when a create that may have been applied turns out not to have been.
var errAbsent = errors.New("the nodes were not made")

// list returns the queue as it is now. lastConn is the connection of the last listing; with 0, or if the connection is another now, a
// sync goes ahead of the listing, because the server may lag behind: the listing shows all that was true when the sync was sent. If the
// answer to our create was lost, a transaction goes ahead in its place, so that the listing shows what became of the create.
func (a *attempt) list(ctx context.Context, lastConn uint64) (view, error) {
	for {
		p := a.s.Pipeline()
		st, _ := a.s.State()
		switch {
		case a.unknown:
			p.AwaitWrites()
			lastConn = 0
		case lastConn == 0 || st.Conn != lastConn:
			p.Sync(a.lock.dir)
			lastConn = 0
		}
		if lastConn == 0 || !a.knownPermits.current(lastConn) {
			a.requestPermits(p)
		}
		listed := p.Children(a.lock.dir)
		p.Send(ctx)
		q, err := a.lock.awaitQueue(ctx, listed)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss), // the session paces its reconnects
			err == nil && lastConn != 0 && bridge.Conn(listed) != lastConn: // reconnected meanwhile: no sync was ahead of the listing
			lastConn = 0
			continue
		case err != nil && !errors.Is(err, zk.ErrNoNode): // without a directory the queue is empty
			return view{}, err
		}
		return a.decide(ctx, q, listed)
	}
}

// decide finds our place in a listing that shows every change up to our create.
func (a *attempt) decide(ctx context.Context, q queue.Queue, listed *client.Pending[client.Listing]) (view, error) {
	a.shownAt = bridge.Sent(listed)
	places := q.PlacesOf(a.id)
	switch {
	case len(places) == 0 && a.unknown:
		return view{}, errAbsent
	case len(places) < a.count:
		return view{}, ErrPlaceLost
	}
	if err := a.recognize(ctx, q, places); err != nil {
		return view{}, err
	}
	v := view{first: places[0], last: places[a.count-1], conn: bridge.Conn(listed)}
	err := a.refuseOtherKind(ctx, q, v.first)
	if err == nil && a.lock.permits != nil {
		q.Permits, err = a.readPermits(ctx)
	}
	if err != nil {
		return view{}, err
	}
	v.waits = a.lock.rules.WaitsFor(q, v.last)
	v.waits = slices.DeleteFunc(v.waits, func(i int) bool { return i >= v.first }) // our own leave with us
	if !v.ours() {
		v.queue = q
		a.lock.removeUndeleted(q.Claims[:v.first])
	}
	return v, nil
}

// refuseOtherKind returns a *KindError if a claim of another kind is ahead of our first, unless Options.AllowOtherKinds is set. The
// contenders behind us see our claim, and refuse. The claims of Curator's semaphore are in a directory below, and any of them refuses.
func (a *attempt) refuseOtherKind(ctx context.Context, q queue.Queue, first int) error {
	if a.lock.opt.AllowOtherKinds {
		return nil
	}
	other := q.OtherAhead(first)
	if q.Curator {
		permits, _, err := a.s.Children(ctx, zk.Join(a.lock.dir, queue.LeasesName)) // none if that is missing
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if len(queue.Parse(permits, queue.Permit).Claims) > 0 {
			other = queue.KindCuratorSemaphore
		}
	}
	if other != queue.KindNone {
		return &KindError{a.lock.path, other}
	}
	return nil
}

// recognize looks at our nodes, which a listing has shown at these places, and notes their paths and token unless those are known. It
// refuses nodes whose order is unknown, and hands those that are too many to the cleaner.
func (a *attempt) recognize(ctx context.Context, q queue.Queue, places []int) error {
	nodes := make([]string, len(places))
	for i, place := range places {
		nodes[i] = zk.Join(a.lock.dir, q.Claims[place].Name)
		if q.OrderUnknown(place) {
			return ErrCounterExhausted
		}
	}
	if extra := nodes[a.count:]; len(extra) > 0 { // more than we need: see Queue.PlacesOf
		a.lock.cleaner.add(ownNodes{id: a.id, nodes: extra})
		nodes = nodes[:a.count]
	}
	if n := q.Claims[places[a.count-1]].Number; queue.Exhausting(n) {
		a.lock.opt.Logger.Warn("lock directory's sequence counter nears its end; let it become empty and delete it",
			"lock", a.lock.dir, "number", n)
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
	a.nodes, a.token, a.unknown = nodes, stat.Czxid, false
	a.noteJoined()
	return nil
}

// tryGrant makes the holds, one of each node. It returns none, and no error, if the queue has to be listed again.
func (a *attempt) tryGrant(ctx context.Context) ([]*Hold, error) {
	if a.lock.opt.Delay > 0 {
		if err := a.passDelay(ctx); err != nil {
			return nil, err
		}
	}
	if c := a.lock.permits; c != nil && c.stored && a.knownPermits.n == 0 { // none was stored: another contender may have since
		if n, err := c.agree(ctx, a.lock, a.count, true); err != nil || n != c.n {
			return nil, err
		}
	}
	holds, err := a.beginHolds(ctx)
	if holds == nil {
		return nil, err
	}
	if a.waited {
		a.cancelWatches()
	}
	a.end()
	return holds, nil
}

// abandon hands what the attempt leaves to the cleaner. It waits for the deletion of a delay marker, overtime at most. The
// watches on our own nodes need no cancelling: they fire when the nodes go.
func (a *attempt) abandon() {
	a.cancelWatches()
	a.removeDelayMarker()
	a.end()
}

// forget notes that a node of ours is gone. If it was one of several, the cleaner deletes those that are known, and looks for the others.
func (a *attempt) forget() {
	left := ownNodes{id: a.id}
	if a.count > 1 {
		left.nodes, left.unknown = a.nodes, true
	}
	a.ownNodes = left
}

// checkOwn returns what a change of our own nodes means: nil if one was only written to, which is then to be watched again.
func (a *attemptBase) checkOwn() error {
	for i, w := range a.watches {
		if w == nil || !w.Fired() {
			continue
		}
		a.watches[i] = nil
		switch ev, _, err := w.Event(); {
		case err != nil:
			return err
		case ev.Type == zk.NodeDeleted:
			return ErrPlaceLost
		}
	}
	return nil
}

// needsListing reports whether our nodes have to be looked at again. Without a watch on each, an operator may have deleted one unnoticed,
// so they must have been seen within the time for which a hold is believed without an answer. With watches it does not matter when:
// the event of a deletion comes before the answer that the session's lease rests on, or right after it if that is a handshake.
func (a *attemptBase) needsListing(now clock.Instant) bool {
	return slices.Contains(a.watches, nil) && now.Sub(a.shownAt) >= lease.Term(a.base.s.Timeout())
}

// attemptIDs are the ids of this process that something still stands for: an attempt, a grant, or leftovers. Each adds the id when it
// begins and drops it when it ends. An id that is in none of them is that of an undeleted claim.
var attemptIDs = idRegistry{uses: map[queue.ID]int{}}

type idRegistry struct {
	mu   sync.Mutex
	uses map[queue.ID]int
}

func (r *idRegistry) add(id queue.ID)  { r.note(id, 1) }
func (r *idRegistry) drop(id queue.ID) { r.note(id, -1) }

func (r *idRegistry) note(id queue.ID, more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses[id] += more
	if r.uses[id] == 0 {
		delete(r.uses, id)
	}
}

// has reports whether the id is in use.
func (r *idRegistry) has(id queue.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uses[id] > 0
}

// newAttemptID returns an id whose second half is random, too.
func newAttemptID() queue.ID { return queue.ID(processDigits() + randomDigits(queue.IDDigits/2)) }

// processDigits begin every attempt id of this process.
var processDigits = sync.OnceValue(func() string { return randomDigits(queue.IDDigits / 2) })

// randomDigits returns n random hexadecimal digits, an even number.
func randomDigits(n int) string {
	b := make([]byte, n/2)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
