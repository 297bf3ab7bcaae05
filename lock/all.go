package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
)

// An All is several locks that are taken all or none: mutexes, sides of read/write locks, permits.
//
// They are taken in the order of their paths on the servers, with the chroots, whatever order they are named in. No caller waits for one
// of them while it has, or waits for, one that comes later, but for one that it has re-entered. So callers that re-enter nothing cannot
// wait for each other in a cycle, nor can callers that take the same locks one after the other in that order.
//
// Taking them takes as many round trips as taking each by itself, and giving them back takes one.
type All struct{ members []member }

// NewAll returns an All of the given locks. They may be of different sessions, but no two may have the same path on the servers: that is
// ErrDuplicate, also if they are of different kinds or sessions. Several permits of a semaphore are one member; see Semaphore.Permits.
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
		case c.lock.algorithm == nil:
			return nil, errZero
		case c.err != nil:
			return nil, &LockError{"hold together", c.lock.path, c.err}
		}
		path, dir := c.onServer(c.lock.path), c.onServer(c.lock.dir)
		if slices.ContainsFunc(a.members, func(m member) bool { return m.onServer(m.lock.path) == path || m.onServer(m.lock.dir) == dir }) {
			return nil, &LockError{"hold together", c.lock.path, ErrDuplicate}
		}
		a.members = append(a.members, c)
	}
	slices.SortFunc(a.members, func(a, b member) int { return strings.Compare(a.onServer(a.lock.path), b.onServer(b.lock.path)) })
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

// take takes all members or none. If try is set, it does not wait.
func (a *All) take(ctx context.Context, try bool) (all *Holds, err error) {
	if len(a.members) == 0 {
		return nil, errZero
	}
	t := &allAttempt{members: a.members, holds: make([][]*Hold, len(a.members))}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	defer func() {
		for _, stop := range t.stops {
			stop()
		}
		t.cancel(nil)
		if all != nil {
			return
		}
		releaseAll(ctx, slices.Concat(t.holds...)) // deletions that ctx cuts short go on in the background
		for i, m := range t.members {
			if t.holds[i] == nil {
				m.lock.tellRefused(t.ctx, err) // nil if a function of the user's has panicked
			}
		}
	}()
	missing, err := t.reenter(ctx, try)
	for _, i := range missing {
		t.ctx = t.members[i].lock.tellAsked(t.ctx)
	}
	for _, i := range missing {
		if err = t.takeMember(ctx, i, try); err != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return newHolds(t.ctx, slices.Concat(t.holds...)), nil
}

// An allAttempt takes the members of an All, one after the other. It is used by one goroutine.
type allAttempt struct {
	members []member
	holds   [][]*Hold // of each member; nil if not yet

	ctx    context.Context // ends with the caller's, and with each of the holds; carries their heldChain
	cancel context.CancelCauseFunc
	stops  []func() bool
}

// reenter takes what ctx says is held already, and returns the places of the other members.
func (t *allAttempt) reenter(ctx context.Context, try bool) (missing []int, err error) {
	for i, m := range t.members {
		h, err := m.lock.reenter(ctx, try)
		switch {
		case err != nil:
			return nil, err
		case h == nil:
			missing = append(missing, i)
		default:
			t.add(i, h)
		}
	}
	return missing, nil
}

// takeMember takes a member under the holds of the others. The loss of one of these ends the wait, and is the error then.
func (t *allAttempt) takeMember(ctx context.Context, i int, try bool) error {
	m := t.members[i]
	holds, err := m.lock.algorithm.takeHolds(t.ctx, m.count, try)
	lost := context.Cause(t.ctx)
	switch {
	case err == nil:
		t.add(i, holds...)
	case ctx.Err() == nil && lost != nil:
		err = lost
	}
	return m.lock.withOp(err, try)
}

// add notes holds of a member. If one of them ends, the way to the others is over.
func (t *allAttempt) add(i int, holds ...*Hold) {
	t.holds[i] = holds
	for _, h := range holds {
		t.ctx = h.g.withHold(t.ctx)
		t.stops = append(t.stops, context.AfterFunc(h.Context(), func() { t.cancel(h.Cause()) }))
	}
}

// A Member is what an All takes together with others: a Locker, or permits of a Semaphore.
type Member interface{ resolve() member }

// member is the resolved form of a Member.
type member struct {
	lock  *lockBase // noLock if there is none
	count int       // of claims
	err   error
}

func (m member) resolve() member { return m }

// onServer returns the servers' name for a path of the member's session: two sessions may have different chroots.
func (m member) onServer(path string) string { return bridge.ServerPath(m.lock.s, path) }

func (l locker) resolve() member { return member{lock: l.base(), count: 1} }

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
