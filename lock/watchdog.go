package lock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A watchdog watches over all grants of a session, on one goroutine. It ends a grant when the session ends, the grant's deadline
// passes or its node is deleted, and hears what is written to the node.
//
// Most grants end within milliseconds, and a watch for each would cost more than the lock. So a grant is watched once it has
// lasted for watchdogTick: until then it costs no goroutine, no timer and no request. The goroutine looks at all grants every
// watchdogTick while new ones come. It sleeps longer when none do, and ends when there are no grants.
type watchdog struct {
	s    *client.Session
	wake chan struct{} // holds a signal when there is something to look at; room for one

	// Guarded by watchdogs.
	begun []*grant // the grants that have begun since the last look
	awake bool     // the watchdog looks within watchdogTick

	grants []*grant // used by run alone; those that have lasted for watchdogTick are watched
	fresh  bool     // used by run alone: the last look saw new grants, and more may come
}

const (
	watchdogTick = 100 * time.Millisecond // how often the watchdog looks while there are new grants; a grant is watched at this age
	shortTerm    = time.Second            // where a hold lasts no longer than this without a heartbeat, it is watched at once
)

// watchdogs are those of all sessions. They belong to sessions, because a session may use many lock values, each of them once.
var watchdogs = struct {
	sync.Mutex
	of map[*client.Session]*watchdog
}{of: map[*client.Session]*watchdog{}}

// watched is what the watchdog knows of a grant's node. The watch need not be cancelled when the grant ends: it fires when the node goes.
type watched struct {
	due       time.Time                    // when to begin watching it; zero once that has begun
	node      string                       // path at which the node is, as far as the watchdog knows; empty if the node is gone
	own       *client.Watch                // on node; nil if there is none
	arming    *client.Pending[client.Node] // the request that sets own, until it is answered; otherwise nil
	notBefore time.Time                    // when to ask again at the earliest, after the server has refused a watch
}

// putUnderWatchdog hands the grant to its session's watchdog. node is the path that it was granted with: a downgrade may have put another
// in its place since. own is a watch on that which is armed already, or nil. If the session is over, the grant is lost.
func (g *grant) putUnderWatchdog(node string, own *client.Watch) {
	g.watched.due, g.watched.node, g.watched.own = time.Now(), node, own
	short := lease.Term(g.s.Timeout()) < shortTerm
	if !short {
		g.watched.due = g.watched.due.Add(watchdogTick)
	}
	watchdogs.Lock()
	k := watchdogs.of[g.s]
	if k == nil {
		k = &watchdog{s: g.s, wake: make(chan struct{}, 1), awake: true}
		if !bridge.Of(g.s).RunWatchdog(k.run) {
			watchdogs.Unlock()
			g.lose(g.s.Err())
			return
		}
		watchdogs.of[g.s] = k
	}
	defer watchdogs.Unlock()
	k.begun = append(k.begun, g)
	if short || !k.awake {
		k.awake = true
		select {
		case k.wake <- struct{}{}:
		default: // a signal is there already
		}
	}
}

// run looks until the session is over or the watchdog has had nothing to do for a while.
func (k *watchdog) run() {
	timer := time.NewTimer(watchdogTick)
	defer timer.Stop()
	_, changed := k.s.State()
	for {
		select {
		case <-k.s.Done():
		case <-k.wake:
		case <-changed:
		case <-timer.C:
		}
		_, changed = k.s.State() // before the look: a reconnect may shorten the session timeout
		next, over := k.sleepOrEnd(k.look())
		if over {
			return
		}
		timer.Reset(time.Until(next)) // to look may have taken time
	}
}

// look looks at every grant once, and returns when the next look is due at the latest.
func (k *watchdog) look() (next time.Time) {
	watchdogs.Lock()
	k.grants, k.fresh = append(k.grants, k.begun...), len(k.begun) > 0
	clear(k.begun)
	k.begun = k.begun[:0]
	watchdogs.Unlock()
	now, over := time.Now(), k.s.Err()
	pause := lease.Glance(k.s.Timeout())
	var kept, lost []*grant
	for _, g := range k.grants {
		if g.hasEnded() {
			continue
		}
		left, cause := watchdogTick, over
		if over == nil && !now.Before(g.watched.due) {
			left, cause = g.refresh(k.wake)
		}
		switch {
		case cause == nil:
			pause = min(pause, left)
			kept = append(kept, g)
		case g.endLost(cause):
			lost = append(lost, g)
		}
	}
	k.grants = kept
	if len(lost) > 0 { // all have ended by now, because a hook may take its time
		bridge.Of(k.s).Tell(func() {
			for _, g := range lost {
				g.tellLoss()
			}
		})
	}
	k.watch(now, pause)
	return now.Add(pause)
}

// sleepOrEnd returns until when to sleep after a look if another one is due at next, or ends a watchdog that has nothing left to do.
func (k *watchdog) sleepOrEnd(next time.Time) (_ time.Time, over bool) {
	watchdogs.Lock()
	defer watchdogs.Unlock()
	tick, more := time.Now().Add(watchdogTick), k.fresh || len(k.begun) > 0
	switch {
	case more && tick.Before(next):
		next = tick
	case !more && len(k.grants) == 0:
		delete(watchdogs.of, k.s)
		return next, true
	}
	k.awake = !next.After(tick)
	return next, false
}

// watch asks for watches on the nodes that have none. patience bounds how long it waits for room in the session.
func (k *watchdog) watch(now time.Time, patience time.Duration) {
	var due []*grant
	for _, g := range k.grants {
		if g.watched.own == nil && g.watched.arming == nil && !now.Before(g.watched.notBefore) && !now.Before(g.watched.due) {
			due = append(due, g)
		}
	}
	if len(due) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, g := range due {
		p := k.s.Pipeline()
		g.watched.arming, g.watched.own = p.WatchGet(g.watched.node)
		p.Send(ctx)
		bridge.Notify(g.watched.arming, k.wake)
		bridge.Notify(g.watched.own, k.wake)
	}
}

// refresh returns how long the grant is good for, or why it is lost: by what has become of its node, or by its deadline. From then on,
// wake gets a token when something becomes of the node.
func (g *grant) refresh(wake chan<- struct{}) (left time.Duration, lost error) {
	g.takeEvents(wake)
	left = g.remaining()
	switch {
	case g.watched.node == "":
		lost = cmp.Or(g.s.Err(), ErrNodeDeleted) // the session may have ended, and the node with it
	case left <= 0:
		lost = g.expiry()
	}
	return left, lost
}

// takeEvents notes what the watch on the grant's node, or the request that sets it, has told since the last look.
func (g *grant) takeEvents(wake chan<- struct{}) {
	w := &g.watched
	if !w.due.IsZero() && w.own != nil { // the first look at a watch that the attempt has set
		bridge.Notify(w.own, wake)
	}
	w.due = time.Time{}
	if w.arming != nil {
		select {
		case <-w.arming.Done():
			g.takeAnswer()
		default:
			return
		}
	}
	if w.own != nil && w.own.Fired() {
		ev, _, err := w.own.Event()
		w.own = nil // the watchdog sets another one unless the node or the session has gone
		if err == nil && ev.Type == zk.NodeDeleted {
			w.node = g.otherPath(w.node)
		}
	}
}

// takeAnswer takes the answer to the request that sets the watch.
func (g *grant) takeAnswer() {
	node, err := g.watched.arming.Wait(context.Background())
	g.watched.arming = nil
	switch {
	case errors.Is(err, zk.ErrNoNode),
		err == nil && g.watched.node == g.lock.dir && node.Stat.Czxid != g.token: // of an unfair lock, and another contender's
		g.watched.own.Cancel()
		g.watched.own, g.watched.node = nil, g.otherPath(g.watched.node)
	case err == nil:
		g.noteMoved(g.watched.node)
		g.noteRevoked(g.watched.node, node)
	default:
		g.watched.own = nil
		if !errors.Is(err, zk.ErrConnectionLoss) {
			g.watched.notBefore = time.Now().Add(lease.Glance(g.s.Timeout()))
		}
	}
}
