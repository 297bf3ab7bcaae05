package lock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
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

// releaseAll releases holds, the last first, and joins what was wrong. The deletions leave in one write for
// each session. It returns after the longest Options.CleanupTimeout of the holds at the latest.
func releaseAll(ctx context.Context, holds []*Hold) error {
	var r release
	told := false
	defer func() {
		if !told { // a hook of the user's has panicked
			for _, g := range r.ended {
				g.claim.discard()
				attemptIDs.drop(g.id)
			}
		}
	}()
	r.end(holds)
	told = true
	if len(r.ended) > 0 {
		r.errs = append(r.errs, r.remove(ctx)...)
	}
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

// remove deletes the nodes of the grants that have ended, and returns the error of each. The sessions do so at the same time: one
// that has no connection, or no room for requests, does not hold up the others.
func (r *release) remove(ctx context.Context) []error {
	var longest time.Duration
	var sessions []*client.Session
	for _, g := range r.ended {
		longest = max(longest, g.lock.opt.CleanupTimeout)
		if !slices.Contains(sessions, g.s) {
			sessions = append(sessions, g.s)
		}
	}
	errs := make([]error, len(r.ended))
	bounded, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	var others sync.WaitGroup
	for _, s := range sessions[1:] {
		others.Go(func() { r.removeOf(bounded, s, errs) })
	}
	r.removeOf(bounded, sessions[0], errs)
	others.Wait()
	return errs
}

// removeOf is remove for the grants of one session.
func (r *release) removeOf(ctx context.Context, s *client.Session, errs []error) {
	p := s.Pipeline()
	for _, g := range r.ended {
		if g.s == s {
			g.claim.remove(p)
		}
	}
	p.Send(ctx)
	for i, g := range r.ended {
		if g.s == s {
			errs[i] = g.claim.awaitRemoval(ctx)
			attemptIDs.drop(g.id)
		}
	}
}

// releasePending returns the error of a release that was not confirmed because of err.
func releasePending(path string, err error) error {
	return &LockError{"release", path, fmt.Errorf("%w: %w", ErrReleasePending, err)}
}

// leave ends a hold, and reports whether it was the last of the grant, which has ended then: its node is to
// be removed. The error is the loss, if the lock had been lost before.
func (g *grant) leave(h *Hold) (last bool, err error) {
	g.check()
	g.mu.Lock() // until the grant has ended, or another caller could re-enter what is about to end
	defer g.mu.Unlock()
	switch {
	case len(g.mu.holds) > 1:
		g.mu.holds = slices.DeleteFunc(g.mu.holds, func(other *Hold) bool { return other == h })
		h.cancel(ErrReleased)
		return false, nil
	case g.mu.lost != nil:
		return false, g.mu.lost
	}
	return g.endLocked(ErrReleased), nil // false if a hook has panicked: the node went with its attempt
}
