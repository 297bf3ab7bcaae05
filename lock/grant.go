package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A grant is one claim by which we hold the lock, and the state that all its holds share (there are several after
// re-entering). It ends once: by the release of the last hold, or by a loss. What depends on the kind of lock is its
// heldClaim.
type grant struct {
	// Fixed when made.
	lock     *lockBase
	claim    heldClaim
	s        *client.Session
	id       queue.ID
	token    int64
	data     []byte          // of the node, as it was made
	lease    uint64          // number of the session's lease that it rests on; see bridge.Lease
	vouching bridge.Vouching // asks for heartbeats while it lasts
	caller   context.Context // with the values of the context that the lock was asked for with

	revoked context.Context // ends when its owner has been asked to give it up
	revoke  context.CancelFunc

	mu struct {
		sync.Mutex
		holds []*Hold // not released; none once the grant has ended
		ended bool
		lost  *LostError      // why it ended, if it was lost
		node  string          // path of the node
		next  string          // path of the node that a downgrade puts in its place; empty unless that is open
		kind  queue.ClaimKind // of the claim: shared from when a downgrade begins
	}
}

// A heldClaim is what is particular to the claim of a grant, a place in a queue or the znode of an unfair lock: how it is
// recognized and deleted.
type heldClaim interface {
	owns(zk.Stat) bool               // whether the stat, read at the path of the grant's node, is that of the node
	remove(*client.Pipeline) removal // deletes the node, because the grant was released
	discard()                        // deletes the node in the background, because the grant was lost
}

// A removal waits for the outcome of a request that deletes a grant's node, and does what is left to do then. It does not return
// nil before the node is known to be gone.
type removal func(context.Context) error

// newGrant makes a grant whose claim is yet to be set. It lasts no longer than the session's lease of that
// number. giveUp says that the owner of the node has been asked to give up.
func newGrant(lock *lockBase, id queue.ID, node string, token int64, data []byte, giveUp bool, lease uint64, vouching bridge.Vouching) *grant {
	g := &grant{
		lock: lock, s: lock.s, id: id, token: token, data: data,
		lease: lease, vouching: vouching,
	}
	attemptIDs.add(id)
	g.mu.node, g.mu.kind = node, lock.rules.Kind
	g.revoked, g.revoke = context.WithCancel(context.Background())
	if giveUp {
		g.revoke()
	}
	return g
}

// holdLocked returns another hold of the grant, nil if it has ended.
func (g *grant) holdLocked(parent context.Context) *Hold {
	if g.mu.ended {
		return nil
	}
	h := &Hold{g: g}
	ctx, cancel := context.WithCancelCause(g.withHold(parent))
	h.ctx, h.cancel = ctx, cancel
	g.mu.holds = append(g.mu.holds, h)
	return h
}

// nodePath returns the path of the grant's node. While the outcome of a downgrade is open, the node may be at another one; see otherPath.
func (g *grant) nodePath() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.node
}

// otherPath returns the path at which the grant's node can be if it is no longer at that one; empty if at none.
func (g *grant) otherPath(node string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch node {
	case g.mu.node:
		return g.mu.next
	case g.mu.next:
		return ""
	}
	return g.mu.node
}

// noteMoved notes that a downgrade has put the node at that path in the place of the grant's node.
func (g *grant) noteMoved(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if node == g.mu.next {
		g.mu.node, g.mu.next = node, ""
	}
}

// tellGranted tells the hook of the first hold. If the hook panics, the grant ends; its node is abandoned with the attempt.
func (g *grant) tellGranted(ctx context.Context, h *Hold) {
	if g.lock.opt.Hooks.Granted == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			g.endUntold()
		}
	}()
	g.lock.opt.Hooks.Granted(ctx, g.lock.path, h)
	returned = true
}

// remaining returns how long the grant is good for without another answered heartbeat. An answer that comes after
// the deadline does not bring it back: the process may have stood still, so that no goroutine looked in between.
func (g *grant) remaining() time.Duration {
	l := bridge.Of(g.s).Lease(int(g.lock.opt.Vouch))
	if l.Number != g.lease {
		return 0
	}
	return l.Remaining
}

// check ends the grant if its deadline has passed, and otherwise returns how long it lasts. All code that looks at the clock
// calls it, and the first call to notice ends the grant. If the session is over, which leaves no time either, the cause of
// the loss is that.
func (g *grant) check() time.Duration {
	left := g.remaining()
	if left > 0 {
		return left
	}
	g.lose(g.expiry())
	return 0
}

// expiry returns the cause of a loss by the clock.
func (g *grant) expiry() error {
	if err := g.s.Err(); err != nil {
		return err
	}
	return withDisconnection(g.s, ErrDeadline)
}

// lose ends the grant with a cause, unless it has ended, and tells of it.
func (g *grant) lose(cause error) {
	if g.endLost(cause) {
		g.tellLoss()
	}
}

// endLost ends the grant with a cause, and reports false if it had ended before. If the session lives on, the node is removed: no
// work is done under it any more, so others must not wait for it.
func (g *grant) endLost(cause error) bool {
	if !g.end(&LostError{Path: g.lock.path, Cause: cause}) {
		return false
	}
	if !errors.Is(cause, ErrNodeDeleted) {
		g.claim.discard()
	}
	attemptIDs.drop(g.id)
	return true
}

// endUntold ends the grant, unless it has ended, without a call of a hook: no caller has got a hold of it.
func (g *grant) endUntold() {
	if g.end(ErrReleased) {
		attemptIDs.drop(g.id)
	}
}

func (g *grant) end(cause error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.endLocked(cause)
}

// endLocked ends the grant and every hold of it with a cause, and all that goes on for its sake. It reports false if the grant had
// ended before.
func (g *grant) endLocked(cause error) bool {
	if g.mu.ended {
		return false
	}
	for _, h := range g.mu.holds {
		h.cancel(cause)
	}
	g.mu.holds, g.mu.ended = nil, true
	g.mu.lost, _ = cause.(*LostError)
	g.vouching.Stop()
	return true
}

// tellLoss tells the hook and the log of the loss of a grant that was lost.
func (g *grant) tellLoss() {
	lost := g.loss()
	if told := g.lock.opt.Hooks.Lost; told != nil {
		told(g.caller, g.lock.path, lost)
	}
	g.lock.opt.Logger.Warn("lock lost", "lock", g.lock.dir, "node", g.nodePath(), "cause", lost.Cause)
}

// loss returns why the grant ended, if it was lost; otherwise nil.
func (g *grant) loss() *LostError {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.lost
}

func (g *grant) hasEnded() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.ended
}
