package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// An All is several locks that are taken all or none: mutexes, sides of read/write locks, permits.
//
// They are taken in the order of their paths, whatever order they are named in. No caller waits for one of them
// while it has, or waits for, one that comes later. So callers of an All cannot wait for each other in a
// cycle, nor can callers that take the same locks one after the other in that order.
//
// If all are free, taking them takes one round trip, as one lock does: the requests leave in one write for each
// session. Each lock that has to be waited for costs its wait, and one more round trip for those after it, whose
// places in the queue are given up meanwhile. Until they are, another contender's TryLock may find such a lock busy that is
// free a moment later. Some members are asked for one at a time: unfair locks, locks with Options.Delay, Curator
// semaphores, and semaphores that are used for the first time.
type All struct{ members []member }

// ErrDuplicate is returned when a lock is named twice among those that are to be held together.
var ErrDuplicate = errors.New("named twice")

// NewAll returns an All of the given locks. They may be of different sessions, but no two may have the same path:
// that is ErrDuplicate, also if they are of different kinds or sessions. Several permits of a semaphore are one
// member; see Semaphore.Permits.
func NewAll(members ...Member) (*All, error) {
	if len(members) == 0 {
		return nil, errors.New("lock: no locks to be held together")
	}
	a := &All{}
	for i, m := range members {
		if v := reflect.ValueOf(m); m == nil || v.Kind() == reflect.Pointer && v.IsNil() {
			return nil, fmt.Errorf("lock: member %d to be held together is nil", i)
		}
		c := m.resolve()
		switch {
		case c.lock == nil:
			return nil, c.err
		case c.err != nil:
			return nil, &LockError{"hold together", c.lock.path, c.err}
		}
		if slices.ContainsFunc(a.members, func(m member) bool { return m.lock.path == c.lock.path || m.lock.dir == c.lock.dir }) {
			return nil, &LockError{"hold together", c.lock.path, ErrDuplicate}
		}
		a.members = append(a.members, c)
	}
	slices.SortFunc(a.members, func(a, b member) int { return strings.Compare(a.lock.path, b.lock.path) })
	return a, nil
}

// Paths returns the paths of the locks, in the order in which they are taken.
func (a *All) Paths() []string {
	paths := make([]string, len(a.members))
	for i, m := range a.members {
		paths[i] = m.lock.path
	}
	return paths
}

// Lock waits until it has all locks, and returns them as Holds. ctx bounds the waiting for all of them together, not
// the holding. If anything goes wrong, such as the loss of one that it has already got, it keeps none: what
// cannot be given back before ctx ends is given back in the background.
//
// If ctx derives from the context of Holds or of a Hold, members that are held under it are re-entered as by their
// own Lock, which needs Options.Reentrant.
func (a *All) Lock(ctx context.Context) (*Holds, error) { return a.take(ctx, false) }

// TryLock is Lock if that takes no waiting, and otherwise returns a *BusyError that names the first lock, in
// the order of paths, that another contender holds or waits for. ctx bounds the time that the servers may take to answer.
func (a *All) TryLock(ctx context.Context) (*Holds, error) { return a.take(ctx, true) }

// Do runs f while holding all locks; see Mutex.Do.
func (a *All) Do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := a.Lock(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

func (a *All) take(ctx context.Context, try bool) (*Holds, error) {
	if len(a.members) == 0 {
		return nil, errZero
	}
	t, err := takeMembers(ctx, a.members, try)
	if err != nil {
		for i, m := range a.members {
			if t.holds[i] == nil {
				m.lock.tellRefused(t.ctx, err)
			}
		}
		return nil, err
	}
	return newHolds(t.ctx, t.flat()), nil
}

// Holds are several locks held at once. They are one loan: the loss of one is the loss of the whole. The
// others are kept then until Release, so that the work can be stopped in order. Zero Holds, and nil ones, are over.
type Holds struct {
	flat   []*Hold // of each member
	ctx    context.Context
	cancel context.CancelCauseFunc

	listening sync.Once     // for revoked
	revoked   chan struct{} // closed when one of them was asked for; nil until Revoked is called
}

// newHolds makes the whole of the holds of each member. ctx already carries the heldChain of all of them.
func newHolds(ctx context.Context, flat []*Hold) *Holds {
	h := &Holds{flat: flat}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	for _, one := range h.flat {
		context.AfterFunc(one.Context(), func() { h.cancel(one.Cause()) }) // by then the cause of one is known
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
	var of []*Hold
	for _, one := range h.holds() {
		if one.g.lock.path == path {
			of = append(of, one)
		}
	}
	return of
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

// Release gives all of them back, in one round trip. The holds are over at once.
// The error joins those that Hold.Release would return for each: nil says that all nodes are known to be gone.
// Releasing again does nothing and returns nil.
func (h *Holds) Release(ctx context.Context) error {
	if h.isZero() {
		return errNoHold
	}
	h.cancel(ErrReleased)
	return releaseAll(ctx, h.flat)
}

// Do runs f and releases the whole when f returns and when it panics. f's context is that of the whole and also
// ends when ctx does, with the cause. The error is f's, joined with the loss or the failure to release.
func (h *Holds) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return workUnder(ctx, h, f)
}

// A Member is a claim that can be made together with others, by an All: a Locker, or permits of a Semaphore.
type Member interface{ resolve() member }

// member is the resolved form of a Member.
type member struct {
	lock  *lockBase // nil if err says that there is none
	taker lockTaker
	fair  *fairLock // in which the claims can be made together with those of other members; nil if there is no queue
	count int       // of claims
	err   error
}

func (m member) resolve() member { return m }

func (l locker) resolve() member {
	if l.from == nil {
		return member{err: errZero}
	}
	fair, _ := l.from.(*fairLock)
	return member{lock: l.from.base(), taker: l.from, fair: fair, count: 1}
}

// isSeparate reports whether the claim is made by itself: more has to happen before or after it than to join the
// queue and to find that no claim is ahead.
func (m member) isSeparate() bool {
	return m.fair == nil || m.lock.opt.Delay > 0 || m.fair.gate != nil || m.fair.permits.varies() && !m.fair.permits.agreed.Load()
}
