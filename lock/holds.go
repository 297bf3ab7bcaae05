package lock

import (
	"context"
	"slices"
	"time"
)

// Holds are several locks held at once. They are one loan: the loss of one is the loss of the whole. The
// others are kept then until Release, so that the work can be stopped in order. Zero Holds, and nil ones, are over.
type Holds struct {
	flat    []*Hold // of each member
	ctx     context.Context
	cancel  context.CancelCauseFunc
	revoked context.Context // ends when the owner of one of them is asked to give up
	revoke  context.CancelFunc
}

// newHolds makes the whole of the holds of each member. ctx already carries the heldChain of all of them.
func newHolds(ctx context.Context, flat []*Hold) *Holds {
	h := &Holds{flat: flat}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.revoked, h.revoke = context.WithCancel(context.Background())
	for _, one := range h.flat {
		one.endWith(h.cancel)
		stop := context.AfterFunc(one.g.revoked, h.revoke)
		context.AfterFunc(h.ctx, func() { stop() }) // a grant that was entered anew lasts longer
	}
	return h
}

// Context returns a context that ends when the whole is released or one of its locks is lost, with Cause as
// its cause. It carries the values of the context that the locks were asked for with, but not its end.
// A Lock of one of the paths with a context derived from it re-enters, if Options.Reentrant allows that.
func (h *Holds) Context() context.Context {
	if h.isZero() {
		return noHold
	}
	return h.ctx
}

func (h *Holds) isZero() bool { return h == nil || h.ctx == nil }

// holds returns what All does, without a copy; none of zero Holds.
func (h *Holds) holds() []*Hold {
	if h.isZero() {
		return nil
	}
	return h.flat
}

// Done is closed when the whole is over.
func (h *Holds) Done() <-chan struct{} { return h.Context().Done() }

// Cause returns nil while all are held, and then why that ended: ErrReleased, or the *LostError of the lock that was
// lost first. It looks at the clock, as Hold.Cause does.
func (h *Holds) Cause() error {
	for _, one := range h.holds() {
		if cause := one.Cause(); cause != nil {
			h.cancel(cause)
		}
	}
	return context.Cause(h.Context())
}

// Remaining returns how long all of them are good for if no further heartbeat is answered; see Hold.Remaining.
func (h *Holds) Remaining() time.Duration {
	if h.Context().Err() != nil {
		return 0
	}
	left := h.flat[0].Remaining()
	for _, one := range h.flat[1:] {
		left = min(left, one.Remaining())
	}
	return left
}

// Of returns the holds of the lock at path: one, or one for each permit; none if path is not that of a member.
// Releasing one of them ends the context of the whole.
func (h *Holds) Of(path string) []*Hold {
	return slices.DeleteFunc(h.All(), func(one *Hold) bool { return one.g.lock.path != path })
}

// All returns all holds, in the order in which the locks are taken. Releasing one of them ends the context of the whole.
func (h *Holds) All() []*Hold { return slices.Clone(h.holds()) }

// Tokens returns the fencing token of each lock by its path; see Hold.Token. What is protected by several of
// them compares each with the highest that it has seen for that path.
func (h *Holds) Tokens() map[string]int64 {
	tokens := map[string]int64{}
	for _, one := range h.holds() {
		tokens[one.g.lock.path] = one.Token()
	}
	return tokens
}

// Release gives all of them back, in one round trip. The holds are over at once. The error joins those that Hold.Release would
// return for each: nil says that all nodes are known to be gone. Releasing again does nothing and returns nil.
func (h *Holds) Release(ctx context.Context) error {
	if h.isZero() {
		return errNoHold
	}
	_ = ctx.Err() // as in releaseAll
	h.cancel(ErrReleased)
	return releaseAll(ctx, h.flat)
}

func (h *Holds) endWith(cancel context.CancelCauseFunc) {
	for _, one := range h.holds() {
		one.endWith(cancel)
	}
}

// Do is Hold.Do for the whole.
func (h *Holds) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return workUnder(ctx, h, f)
}
