package lock

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A grant is a claim of this process that holds the lock, and what its holds share. There are several of these after re-entering. It
// ends once: by the release of the last hold, or by a loss.
type grant struct {
	// Fixed when made.
	lock        *lockBase
	s           *client.Session
	id          queue.ID
	token       int64
	data        []byte          // of the node, as it was made
	leaseNumber uint64          // number of the session's lease that it rests on; see bridge.Lease
	hookCtx     context.Context // with the values of the context that the lock was asked for with
	waited      bool            // others may have seen the node behind another's
	delayMarker string          // path of the delay marker; empty if there is none

	revoked context.Context // ends when its owner is asked to give it up
	revoke  context.CancelFunc

	watched watched // from putUnderWatchdog on used by the session's watchdog alone

	mu struct {
		sync.Mutex
		holds    []*Hold    // not released; none once the grant has ended
		lost     *LostError // why it ended, if it was lost
		node     string     // path of the node
		readNode string     // path of the node that a downgrade puts in its place; empty unless that is open
		mode     queue.Mode // of the claim: shared from when a downgrade begins

		stopDowngrade context.CancelCauseFunc // ends what a downgrade waits for; nil until there is one
	}
}

// newGrant returns the grant of one of an attempt's nodes, asked for with ctx. It lasts no longer than the session's lease of that number.
func newGrant(ctx context.Context, a *attemptBase, node string, leaseNumber uint64) *grant {
	g := &grant{
		lock: a.base, s: a.base.s, id: a.id, token: a.token, data: a.data, waited: a.waited, delayMarker: a.delayMarker,
		leaseNumber: leaseNumber, hookCtx: context.WithoutCancel(ctx),
	}
	g.revoked, g.revoke = context.WithCancel(context.Background())
	attemptIDs.add(g.id)
	bridge.Of(g.s).Vouch(int(g.lock.opt.Vouch), 1)
	g.mu.node, g.mu.mode = node, g.lock.rules.Mode
	if slices.Contains(a.revoked, node) {
		g.askToGiveUp()
	}
	return g
}

// beginHolds makes the holds of an attempt whose turn it is, one of each node, with the values of ctx but not its end. It returns
// none, and no error, if the nodes have to be looked at again. The lock is ours only if the session is known to live: where nothing was
// heard for long, awaitLease asks first. The watchdog gets a grant after the hook Granted was called, because it may tell of a loss at once.
func (a *attemptBase) beginHolds(ctx context.Context) ([]*Hold, error) {
	l, err := awaitLease(ctx, a.base.s, a.base.opt.Vouch)
	if err != nil {
		return nil, err
	}
	if err := a.checkOwn(); err != nil { // meanwhile
		return nil, err
	}
	switch {
	case ctx.Err() != nil:
		return nil, ending.Of(ctx)
	case a.needsListing(l.At):
		return nil, nil
	}
	holds := make([]*Hold, len(a.nodes))
	for i, node := range a.nodes {
		g := newGrant(ctx, a, node, l.Number)
		holds[i] = g.holdLocked(g.withHold(g.hookCtx)) // no other goroutine knows of the grant
	}
	returned := false
	defer func() {
		a.unknown = a.unknown || !returned // the hook may have downgraded
		for _, h := range holds {
			if !returned && h.g.end(ErrReleased) { // the hook has panicked: no caller has the hold, and the nodes go with the attempt
				attemptIDs.drop(a.id)
			}
		}
	}()
	for i, h := range holds {
		if granted := a.base.opt.Hooks.Granted; granted != nil {
			granted(ctx, a.base.path, h)
			h.g.checkDeadline()
		}
		h.g.putUnderWatchdog(a.nodes[i], a.watches[i])
	}
	returned = true
	a.nodes, a.watches, a.delayMarker = nil, nil, "" // the holds' now
	return holds, nil
}

// holdLocked returns another hold of the grant, which has not ended. under is from withHold.
func (g *grant) holdLocked(under context.Context) *Hold {
	h := &Hold{g: g}
	h.ctx, h.cancel = context.WithCancelCause(under)
	g.mu.holds = append(g.mu.holds, h)
	return h
}

// endLocked ends the hold, and returns what is to end with it (endAll).
func (h *Hold) endLocked(cause error) (enders []context.CancelCauseFunc) {
	h.cancel(cause)
	return h.enders
}

// endAll ends what ends with holds that have ended, before anything is deleted, and without the mutex: contexts may be the user's.
func endAll(enders []context.CancelCauseFunc, cause error) {
	for _, cancel := range enders {
		cancel(cause)
	}
}

// nodePath returns the path of the grant's node. While the outcome of a downgrade is open, the node may be at another one; see otherPath.
func (g *grant) nodePath() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.node
}

// otherPath returns where the grant's node can be, as far as a downgrade has moved it, if it is not at node; empty if nowhere else.
func (g *grant) otherPath(node string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch node {
	case g.mu.node:
		return g.mu.readNode
	case g.mu.readNode:
		return ""
	}
	return g.mu.node
}

// noteMoved notes that a downgrade has put the node at that path in the place of the grant's node.
func (g *grant) noteMoved(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if node == g.mu.readNode {
		g.mu.node, g.mu.readNode = node, ""
	}
}

// lose ends the grant with a cause, unless it has ended, and tells of it.
func (g *grant) lose(cause error) {
	if g.endLost(cause) {
		g.tellLoss()
	}
}

// tellLoss tells the hook and the log of the loss of a grant that was lost.
func (g *grant) tellLoss() {
	g.mu.Lock()
	lost := g.mu.lost
	g.mu.Unlock()
	if hook := g.lock.opt.Hooks.Lost; hook != nil {
		hook(g.hookCtx, g.lock.path, lost)
	}
	g.lock.opt.Logger.Warn("lock lost", "lock", g.lock.dir, "node", g.nodePath(), "cause", lost.Cause)
}

// endLost ends the grant with a cause, and reports false if it had ended before. If the session lives on, the node is removed: no
// work is done under it any more, so others must not wait for it.
func (g *grant) endLost(cause error) bool {
	if !g.end(&LostError{Path: g.lock.path, Cause: cause}) {
		return false
	}
	if !errors.Is(cause, ErrNodeDeleted) {
		g.discard()
	}
	attemptIDs.drop(g.id)
	return true
}

func (g *grant) end(cause error) bool {
	g.mu.Lock()
	enders, ended := g.endLocked(cause)
	g.mu.Unlock()
	endAll(enders, cause)
	return ended
}

// endLocked ends the grant, every hold of it and all that goes on for its sake. It reports false if the grant had ended before.
func (g *grant) endLocked(cause error) (enders []context.CancelCauseFunc, ended bool) {
	if len(g.mu.holds) == 0 {
		return nil, false
	}
	for _, h := range g.mu.holds {
		enders = append(enders, h.endLocked(cause)...)
	}
	g.mu.holds = nil
	if g.mu.stopDowngrade != nil {
		g.mu.stopDowngrade(cause)
	}
	g.mu.lost, _ = cause.(*LostError)
	bridge.Of(g.s).Vouch(int(g.lock.opt.Vouch), -1)
	return enders, true
}

func (g *grant) hasEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.holds) == 0
}
