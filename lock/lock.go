package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Locker is a lock whose Lock returns one hold: a *Mutex, an *Unfair, an *RWMutex (its write side), or the Reader of one.
// Functions that work with any of them take a Locker. It is a Member of an All, too: a wrapper is a Locker if it embeds one; an All uses the
// lock that is embedded, and calls no method of the wrapper.
type Locker interface {
	Member
	Path() string
	Session() *client.Session
	Lock(ctx context.Context) (*Hold, error)
	TryLock(ctx context.Context) (*Hold, error)
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// A locker is a fair or an unfair lock whose Lock returns one hold: a mutex, a side of a read/write lock, an unfair lock, a semaphore's
// single permit, or the lock under an election. The zero value is that of a lock that was not made by a function such as NewMutex.
type locker struct{ lock *lockBase }

// noLock is the lock of a zero locker.
var noLock = &lockBase{}

func (l locker) base() *lockBase { return cmp.Or(l.lock, noLock) }

// Path returns the path of the lock's directory, or of an unfair lock's znode.
func (l locker) Path() string { return l.base().path }

// Session returns the session that the lock belongs to.
func (l locker) Session() *client.Session { return l.base().s }

// Lock waits for the lock and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one of hold and error is not nil.
//
// If ctx derives from the Context of a hold of this lock, by the same session, Lock fails with ErrReentered, or
// re-enters if Options.Reentrant is set. Only the context tells.
func (l locker) Lock(ctx context.Context) (*Hold, error) { return l.take(ctx, false) }

// TryLock returns a hold if that takes no waiting for other contenders, and otherwise a *BusyError that
// names the holder, if there is one. It never waits for others; ctx bounds the time that the servers may take to answer.
func (l locker) TryLock(ctx context.Context) (*Hold, error) { return l.take(ctx, true) }

// Do takes the lock as Lock does, and runs f under it; see Hold.Do.
func (l locker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := l.take(ctx, false)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

// take re-enters if ctx derives from a hold of this lock, and otherwise makes a claim. If try is set, it does not wait.
func (l locker) take(ctx context.Context, try bool) (*Hold, error) {
	if l.lock == nil {
		return nil, errZero
	}
	h, err := l.lock.reenter(ctx, try)
	if h == nil && err == nil {
		ctx = l.lock.tellAsked(ctx)
		var holds []*Hold
		if holds, err = l.lock.algorithm.takeHolds(ctx, 1, try); err == nil {
			h = holds[0]
		}
	}
	return h, l.lock.tellRefused(ctx, l.lock.withOp(err, try))
}

// errZero is the error of a lock that was not made by a function such as NewMutex.
var errZero = errors.New("lock: the zero value of a lock cannot be used (make one with NewMutex, NewRWMutex, NewSemaphore or NewUnfair)")

// An algorithm is what fair and unfair locks do differently.
type algorithm interface {
	// takeHolds makes count claims and returns as many holds, or none. If try is set, it does not wait.
	takeHolds(ctx context.Context, count int, try bool) ([]*Hold, error)

	// removeNode deletes the node of a grant that was released, and returns nil when the node is known to be gone. The error is
	// zk.ErrNoNode if another client has deleted it.
	removeNode(ctx context.Context, g *grant) error

	// clean removes what an attempt or a hold has left.
	clean(ctx context.Context, left *ownNodes) error
}

// lockBase is what lock values of all kinds have, and what holds and grants need to know of their lock.
type lockBase struct {
	s     *client.Session
	path  string  // that the lock is known by
	dir   string  // path of its directory or znode: the same, except for Curator's semaphore
	opt   Options // with defaults
	rules *queue.Rules
	owner Owner  // of its nodes
	data  []byte // of a node that says no more than its owner, or Options.Data

	algorithm algorithm // nil in noLock
	cleaner   *cleaner  // removes what attempts and holds leave
}

func newBase(s *client.Session, dir string, opt Options, r *queue.Rules) lockBase {
	b := lockBase{s: s, path: dir, dir: dir, opt: opt, rules: r, owner: opt.Owner(), data: opt.Data}
	if b.data == nil {
		b.data = queue.Record{Owner: b.owner}.Encode()
	}
	return b
}

// nodeData returns the data of a node: its owner, and what r says besides. Options.Data replaces both.
func (b *lockBase) nodeData(r *queue.Record) []byte {
	if b.opt.Data != nil || r == nil {
		return b.data
	}
	said := *r
	said.Owner = b.owner
	return said.Encode()
}

// claimRecord returns what the node of a new claim says, nil if nothing. A waiter names the holds that it works under: those of
// ctx. A try names none, because it does not wait.
func (o *Options) claimRecord(ctx context.Context, try bool) *queue.Record {
	if try {
		return &queue.Record{Passing: true}
	}
	ids := heldChainOf(ctx).holdIDs()
	for _, node := range o.underNodes {
		if zk.ValidatePath(node) != nil {
			continue
		}
		if id := queue.HoldIDOf(zk.Parent(node), zk.Base(node)); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return &queue.Record{Under: ids[:min(len(ids), queue.UnderMax)], Yields: o.Deadlock > 0}
}

func (b *lockBase) op(try bool) string {
	if try {
		return "try " + b.rules.Verb
	}
	return b.rules.Verb
}

// withOp returns err with the operation and the lock. A *BusyError and a *LockError say already which lock it is.
func (b *lockBase) withOp(err error, try bool) error {
	switch err.(type) {
	case nil, *BusyError, *LockError:
		return err
	}
	return &LockError{b.op(try), b.path, err}
}

// tellAsked tells that the lock is asked for, and returns the context to go on with.
func (b *lockBase) tellAsked(ctx context.Context) context.Context {
	if b.opt.Hooks.Asked == nil {
		return ctx
	}
	return cmp.Or(b.opt.Hooks.Asked(ctx, b.path), ctx)
}

func (b *lockBase) tellWaiting(ctx context.Context, at Place) {
	if b.opt.Hooks.Waiting != nil {
		b.opt.Hooks.Waiting(ctx, b.path, at)
	}
}

// tellRefused tells of an error, and returns it.
func (b *lockBase) tellRefused(ctx context.Context, err error) error {
	if err != nil && b.opt.Hooks.Refused != nil {
		b.opt.Hooks.Refused(ctx, b.path, err)
	}
	return err
}
