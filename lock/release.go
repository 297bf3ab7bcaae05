package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
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
		released(h.g.caller, h.g.lock.path)
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

// A queueClaim is the claim of a grant in the queue of a fair lock.
type queueClaim struct {
	grant
	fair        *fairLock
	waited      bool   // others may have seen the node behind another's
	delayMarker string // path of the delay marker; empty if there is none

	// Of the deletion that was sent.
	removing  string                      // path of the node
	announced bool                        // it announces the release
	deleted   func(context.Context) error // waits for its outcome

	downgrading sync.Mutex // held by a downgrade
	unknown     bool       // the last downgrade did not learn its outcome; guarded by downgrading
}

// newQueueClaim makes the grant of one of an attempt's nodes.
func newQueueClaim(a *attempt, node string, lease uint64) *queueClaim {
	c := &queueClaim{fair: a.lock, waited: a.waited, delayMarker: a.delayMarker}
	c.init(c, &a.lock.lockBase, a.id, node, a.token, a.data, slices.Contains(a.revoked, node), lease)
	return c
}

// owns returns true: no name of a node in a queue is ever used again.
func (c *queueClaim) owns(zk.Stat) bool { return true }

func (c *queueClaim) discard() { c.fair.cleaner.add(c.leftovers()) }

// leftovers returns what is to be removed of a grant that has ended. If it was lost, its delay marker stays: that is for the next
// holder to see.
func (c *queueClaim) leftovers() leftovers {
	d := leftovers{id: c.id, nodes: c.nodes()}
	if c.delayMarker != "" && c.loss() == nil {
		d.nodes = slices.Insert(d.nodes, 0, c.delayMarker)
	}
	return d
}

// nodes returns the path of the node. While the outcome of a downgrade is open there are two, that of the write node first: if
// they are deleted in this order, neither is left, even if the downgrade is carried out in between or later.
func (c *queueClaim) nodes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.next != "" {
		return []string{c.mu.node, c.mu.next}
	}
	return []string{c.mu.node}
}

func (c *queueClaim) remove(p *client.Pipeline) {
	c.announced = c.announces()
	c.delete(p)
}

func (c *queueClaim) awaitRemoval(ctx context.Context) error {
	for unknown := false; ; {
		err := c.deleted(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, zk.ErrConnectionLoss):
			unknown = true
		case c.s.Err() != nil && c.s.Gone(ctx):
			return nil // the node has gone with the session
		case c.announced && !client.MaybeApplied(err) && ctx.Err() == nil:
			c.announced = false // whatever is wrong with the marker, the node must go
		case errors.Is(err, zk.ErrNoNode) && c.hasMoved(): // deleted next
		case errors.Is(err, zk.ErrNoNode):
			if unknown { // by us, in the request whose answer was lost
				return nil
			}
			return &LostError{Path: c.fair.path, Cause: ErrNodeDeleted}
		default:
			c.fair.cleaner.add(c.leftovers())
			return releasePending(c.fair.path, err)
		}
		p := c.s.Pipeline()
		c.delete(p)
		p.Send(ctx)
	}
}

// hasMoved reports whether a downgrade of unknown outcome must have put another node in the place of the one that was to be deleted
// and is not there.
func (c *queueClaim) hasMoved() bool {
	other := c.otherPath(c.removing)
	if other == "" {
		return false
	}
	c.noteMoved(other)
	return true
}

// announces reports whether the release has to be announced: if another contender may have seen the node behind another one, or if
// the node's end alone could be a downgrade. While the outcome of a downgrade is open there is no announcement, and the
// contenders behind list the directory.
func (c *queueClaim) announces() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.next == "" && c.fair.rules.AnnouncesRelease(c.waited, c.mu.kind != c.fair.rules.Kind)
}

// delete adds the deletion of the node. If the release is announced, the same transaction makes and deletes a znode,
// the release marker, whose creation tells the waiter behind us that a holder has left and not a waiter:
// a waiter that joined when others were still ahead of us would otherwise have to list the directory to know.
// No listing ever shows it.
//
// The delay marker goes ahead of the node, in a request of its own: in between, the holder does not
// need it any more. It does no harm if the marker is gone already.
func (c *queueClaim) delete(p *client.Pipeline) {
	if c.delayMarker != "" {
		p.Delete(c.delayMarker, -1)
	}
	c.removing = c.nodePath()
	if !c.announced {
		c.deleted = outcome(p.Delete(c.removing, -1))
		return
	}
	marker := zk.Join(c.fair.dir, c.id.ReleaseMarker())
	c.deleted = outcome(p.Multi(
		client.OpCreate(marker, nil, zk.Ephemeral, c.fair.opt.ACL),
		client.OpDelete(marker, -1),
		client.OpDelete(c.removing, -1)))
}

// outcome returns a function that waits for the error of a request.
func outcome[T any](k *client.Pending[T]) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := k.Wait(ctx)
		return err
	}
}
