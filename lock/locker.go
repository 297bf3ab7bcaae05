package lock

import (
	"cmp"
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Locker is a lock whose Lock returns one hold: a *Mutex, an *Unfair, an *RWMutex (its write side), or the Reader of one.
// Functions that work with any of them take a Locker, and so does NewAll. A wrapper is a Locker if it embeds one; an All uses the
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

// A fairLock is the part that all fair locks have in common: the queue of one directory, and claims by one set of rules. An
// RWMutex has two fairLocks, one for each side.
type fairLock struct {
	lockBase
	permits *permitCount // a semaphore's number of permits; otherwise nil
	gate    *fairLock    // a second lock, held while joining the queue and waiting in it (Curator's semaphore); otherwise nil
	orphans *orphanTimes // delay markers of holders that did not release
}

func newFairLock(s *client.Session, dir string, opt Options, r *queue.Rules) *fairLock {
	f := &fairLock{lockBase: newBase(s, dir, opt, r), orphans: &orphanTimes{}}
	f.algorithm, f.cleaner = f, &cleaner{lock: &f.lockBase}
	return f
}

// takeHolds implements algorithm. A semaphore whose number of permits is stored agrees on it first; Curator's takes the gate.
func (f *fairLock) takeHolds(ctx context.Context, count int, try bool) ([]*Hold, error) {
	if f.permits != nil && f.permits.stored && !f.permits.agreed.Load() {
		if _, err := f.permits.agree(ctx, f, count, false); err != nil {
			return nil, err
		}
	}
	if f.gate != nil {
		gate, err := f.gate.takeHolds(ctx, 1, try)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := gate[0].Release(ctx); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
				f.opt.Logger.Warn("the lock on the way in was not released in time", "lock", f.gate.dir, "error", err)
			}
		}()
	}
	if try {
		f.cleaner.await(ctx)
	}
	for {
		holds, err := newAttempt(f, count, try, f.opt.claimRecord(ctx, try)).run(ctx)
		again := f.opt.Requeue && errors.Is(err, ErrPlaceLost) && ctx.Err() == nil // the cause of ctx may be another lock's ErrPlaceLost
		if try || !again {
			return holds, err
		}
	}
}

// makeDirectory makes the lock's directory, a container where the server has them, or what is missing above it. That of a
// semaphore gets the number of permits. It competes with other contenders and with the removal of empty directories, so a nil
// error promises nothing: the caller's next create tells whether it was enough.
func (f *fairLock) makeDirectory(ctx context.Context) error {
	if f.permits.varies() {
		_, err := f.permits.agree(ctx, f, 0, false)
		return err
	}
	_, err := f.s.Create(ctx, f.dir, nil, zk.Container, f.opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return f.s.EnsurePath(ctx, zk.Parent(f.dir), f.opt.ParentACL)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: it may be there
		return f.s.EnsurePath(ctx, f.dir, f.opt.ParentACL)
	}
	return err
}

// awaitQueue waits for a listing of the directory, and returns the queue that it shows. With an error, nothing is in it.
func (f *fairLock) awaitQueue(ctx context.Context, listed *client.Pending[client.Listing]) (queue.Queue, error) {
	children, err := listed.Wait(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	q := queue.Parse(children.Names, f.rules.Heeds)
	q.Spent = queue.CounterSpent(children.Stat)
	return q, nil
}
