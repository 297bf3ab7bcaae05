package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// passDelay returns when no delay of an earlier holder is left, and an attempt to write has made its own delay marker. For a
// try, a delay that is left is a *BusyError.
//
// The listing shows the marker of each holder whose claim this session has seen disappear: the marker is older than the
// end of the claim, and no server that the session connects to is behind what the session has seen. The delay counts by the
// waiter's clock (see Options.Delay): no server notes when a hold ended, and clocks of several machines cannot be compared.
//
// The attempt's own marker is made last, when nothing but the session's lease is between it and the hold. An attempt that gives up
// then deletes it. No other marker can become an orphan in between, for no claim that excludes ours is ahead any more.
func (a *attempt) passDelay(ctx context.Context) error {
	for {
		st, _ := a.s.State()
		names, _, err := a.s.Children(ctx, a.lock.dir)
		switch {
		case errors.Is(err, zk.ErrNoNode) || err == nil && !slices.Contains(names, zk.Base(a.nodes[0])):
			return ErrPlaceLost
		case err != nil:
			return err
		}
		orphans := queue.Orphans(names)
		for i, name := range orphans {
			orphans[i] = zk.Join(a.lock.dir, name)
		}
		over := len(orphans) == 0
		if !over {
			if over, err = a.waitOutOrphans(ctx, orphans, st.Conn); err != nil {
				return err
			}
		}
		if over {
			return a.makeDelayMarker(ctx, orphans)
		}
	}
}

// makeDelayMarker deletes orphans whose delay is over, and makes the delay marker of an attempt to write, while its claim is there.
// An orphan that the server does not let us delete is disregarded.
func (a *attempt) makeDelayMarker(ctx context.Context, orphans []string) error {
	ops := []client.Op{client.OpCheck(a.nodes[0], zk.AnyVersion)}
	switch {
	case a.lock.rules.Mode != queue.Shared:
		a.delayMarker = zk.Join(a.lock.dir, a.id.DelayMarker())
		ops = append(ops, client.OpCreate(a.delayMarker, queue.EncodeDelay(a.lock.opt.Delay), zk.Persistent, a.lock.opt.ACL))
	case len(orphans) == 0:
		return nil
	}
	for {
		p := a.s.Pipeline()
		answers := deleteAll(p, orphans) // before the marker is made
		made := p.Multi(ops...)
		p.Send(ctx)
		_, err := made.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case err != nil && !errors.Is(err, zk.ErrNodeExists): // exists: made by a request whose answer was lost
			return relistOr(err, ErrPlaceLost)
		}
		if left, err := answers(ctx); err != nil {
			a.lock.opt.Logger.Warn("cannot remove what lost holds left", "lock", a.lock.dir, "nodes", left, "error", err)
		}
		return nil
	}
}

// removeDelayMarker deletes the delay marker of an attempt that has failed, if possible while its claim is there: without the claim it
// would be taken for that of a holder. The session may be closed next, which deletes the claim. What takes longer is the cleaner's.
func (a *attempt) removeDelayMarker() {
	if a.delayMarker == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), overtime)
	defer cancel()
	if err := a.s.Delete(ctx, a.delayMarker, zk.AnyVersion); err != nil && !errors.Is(err, zk.ErrNoNode) {
		a.nodes = append([]string{a.delayMarker}, a.nodes...)
	}
}

// waitOutOrphans reports whether the delays of all orphans are over. Otherwise it returns when they may be, or something else has
// changed, and the directory is to be listed again. conn is the connection of the last listing.
func (a *attempt) waitOutOrphans(ctx context.Context, orphans []string, conn uint64) (over bool, err error) {
	p := a.s.Pipeline()
	reads := make([]*client.Pending[client.Node], len(orphans))
	watches := make([]*client.Watch, len(orphans))
	for i, node := range orphans {
		reads[i], watches[i] = p.WatchGet(node)
		defer watches[i].Cancel()
	}
	ownAnswers := a.watchOwn(p)
	p.Send(ctx)
	if err := ownAnswers(ctx); err != nil { // first, so that a watch that was not set never stays
		return false, relistOr(err, ErrPlaceLost)
	}
	var left time.Duration
	known := a.lock.orphans.update(orphans)
	for i, k := range reads {
		node, err := k.Wait(ctx)
		if err != nil && !errors.Is(err, zk.ErrNoAuth) { // which tells nothing of the delay
			return false, relistOr(err, nil) // gone, or out of touch: look again
		}
		left = max(left, queue.DelayOf(node.Data, a.lock.opt.Delay)-known[i])
	}
	if left <= 0 {
		return true, nil
	}
	if a.try {
		return false, &BusyError{Path: a.lock.path, Delay: left}
	}
	a.lock.opt.Logger.Info("the lock was not released by its last holder: waiting", "lock", a.lock.dir, "delay", left)
	a.lock.tellWaiting(ctx, Place{Node: a.nodes[0], Delay: left})
	delay, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	_, err = a.sleep(delay, conn, append(watches, a.watches...))
	if err != nil && (ctx.Err() != nil || delay.Err() == nil) {
		return false, err
	}
	return false, a.checkOwn()
}

// orphanTimes remembers since when markers of one directory have been known to be orphans. So when a waiter gives up,
// the next one with the same lock value continues its wait.
type orphanTimes struct {
	mu    sync.Mutex
	since map[string]time.Time // by path
}

// update notes which orphans there are, and returns for how long each has been known.
func (o *orphanTimes) update(orphans []string) []time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	since, known := make(map[string]time.Time, len(orphans)), make([]time.Duration, len(orphans))
	for i, node := range orphans {
		since[node] = cmp.Or(o.since[node], now)
		known[i] = now.Sub(since[node])
	}
	o.since = since
	return known
}
