package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
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
	return newHolds(t.ctx, slices.Concat(t.holds...)), nil
}

// A Member is what an All takes together with others: a Locker, or permits of a Semaphore.
type Member interface{ resolve() member }

// member is the resolved form of a Member.
type member struct {
	lock  *lockBase // nil if err says that there is none
	from  takeable
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
	return member{lock: l.from.base(), from: l.from, fair: fair, count: 1}
}

// isSeparate reports whether the claim is made by itself: more has to happen before or after it than to join the
// queue and to find that no claim is ahead.
func (m member) isSeparate() bool {
	return m.fair == nil || m.lock.opt.Delay > 0 || m.fair.gate != nil || m.fair.permits != nil && m.fair.permits.isUndecided()
}
