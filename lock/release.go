package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Release gives the lock back. The hold is over from the first moment; when the last hold of the node is
// released, its node is deleted, and a nil error says that it is known to be gone. If ctx ends before
// that, or Options.CleanupTimeout has passed, the error is ErrReleasePending and the deletion goes on in the background.
//
// If the lock had been lost before, the first Release returns the *LostError. Releasing again does nothing
// and returns nil, without waiting for what the first one waits for.
func (h *Hold) Release(ctx context.Context) error {
	if h.isZero() {
		return errNoHold
	}
	return releaseAll(ctx, []*Hold{h})
}

// releaseAll releases holds, the last first, and joins what was wrong.
func releaseAll(ctx context.Context, holds []*Hold) error {
	_ = ctx.Err() // a nil context panics before anything has ended
	var r release
	returned := false
	defer func() {
		if !returned { // a hook of the user's has panicked
			for _, g := range r.ended {
				g.discard()
				attemptIDs.drop(g.id)
			}
		}
	}()
	r.end(holds)
	returned = true
	r.remove(ctx)
	return ending.Join(r.errs...)
}

// A release ends holds, and removes the nodes of grants that have no others.
type release struct {
	errs  []error
	ended []*grant // their last holds have been released
}

// end ends holds, the last first, and each also when the hook of another panics.
func (r *release) end(holds []*Hold) {
	if len(holds) == 0 {
		return
	}
	last := len(holds) - 1
	defer r.end(holds[:last])
	h := holds[last]
	if h.released.Swap(true) {
		return
	}
	ended, err := h.g.leave(h)
	if err != nil {
		r.errs = append(r.errs, err)
	}
	if !ended {
		return
	}
	r.ended = append(r.ended, h.g)
	if released := h.g.lock.opt.Hooks.Released; released != nil {
		released(h.g.hookCtx, h.g.lock.path)
	}
}

// remove deletes the nodes of the grants that have ended, all at once: a session without connection, or room, does not hold up the others.
func (r *release) remove(ctx context.Context) {
	if len(r.ended) == 0 {
		return
	}
	removed := make([]error, len(r.ended))
	var others sync.WaitGroup
	for i, g := range r.ended[1:] {
		others.Go(func() { removed[1+i] = g.remove(ctx) })
	}
	removed[0] = r.ended[0].remove(ctx)
	others.Wait()
	r.errs = append(r.errs, removed...)
}

// remove deletes the node of a grant that has ended. It returns after Options.CleanupTimeout at the latest.
func (g *grant) remove(ctx context.Context) error {
	defer attemptIDs.drop(g.id)
	ctx, stop := ending.Within(ctx, g.lock.opt.CleanupTimeout)
	defer stop()
	err := g.lock.algorithm.removeNode(ctx, g)
	switch {
	case err == nil, g.s.Err() != nil && g.s.Gone(ctx): // the node has gone, perhaps with the session
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return &LostError{Path: g.lock.path, Cause: ErrNodeDeleted}
	}
	g.discard()
	return &LockError{"release", g.lock.path, fmt.Errorf("%w: %w", ErrReleasePending, err)}
}

// leave ends a hold, and reports whether it was the last of the grant, which has ended then: its node is to
// be removed. The error is the loss, if the lock had been lost before.
func (g *grant) leave(h *Hold) (last bool, err error) {
	g.checkDeadline()
	var enders []context.CancelCauseFunc
	defer func() { endAll(enders, ErrReleased) }()
	g.mu.Lock() // until the grant has ended, or another caller could re-enter what is about to end
	defer g.mu.Unlock()
	switch {
	case len(g.mu.holds) > 1:
		g.mu.holds = slices.DeleteFunc(g.mu.holds, func(other *Hold) bool { return other == h })
		enders = h.endLocked(ErrReleased)
		return false, nil
	case g.mu.lost != nil:
		return false, g.mu.lost
	}
	enders, last = g.endLocked(ErrReleased) // false if a hook has panicked: the node went with its attempt
	return last, nil
}

// discard has the cleaner remove what is left of a grant: it was lost, a hook has panicked, or its release was not confirmed.
func (g *grant) discard() { g.lock.cleaner.add(g.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see. While the outcome of a downgrade is unknown, both paths are listed, the write node first: deleted in this order neither
// node stays, whenever the downgrade is applied. The token tells the node of an unfair lock from another contender's.
func (g *grant) leftovers() ownNodes {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := ownNodes{id: g.id, token: g.token}
	if g.delayMarker != "" && g.mu.lost == nil {
		left.nodes = append(left.nodes, g.delayMarker)
	}
	left.nodes = append(left.nodes, g.mu.node)
	if g.mu.readNode != "" {
		left.nodes = append(left.nodes, g.mu.readNode)
	}
	return left
}
