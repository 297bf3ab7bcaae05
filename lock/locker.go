package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A Locker is a lock that one hold is taken of at a time: a *Mutex, a side of an RWMutex or an *Unfair. Functions that work
// with any of them take a Locker, and so does NewAll. A wrapper is a Locker if it embeds one; an All takes the lock that is
// embedded, without the wrapper's methods.
type Locker interface {
	Member
	Path() string
	Session() *client.Session
	Lock(ctx context.Context) (*Hold, error)
	TryLock(ctx context.Context) (*Hold, error)
	Do(ctx context.Context, f func(ctx context.Context) error) error
}

// A locker is a fair or an unfair lock that one hold is taken of at a time: a mutex, a side of a read/write lock, an unfair
// lock, a semaphore's single permit, or the lock under an election. The zero value is that of a lock that was not made by a function such as NewMutex.
type locker struct{ from takeable }

// Path returns the path of the lock's directory, or of an unfair lock's znode.
func (l locker) Path() string {
	if l.from == nil {
		return ""
	}
	return l.from.base().path
}

// Session returns the session that the lock belongs to.
func (l locker) Session() *client.Session {
	if l.from == nil {
		return nil
	}
	return l.from.base().s
}

// Lock waits for the lock and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one
// of hold and error is not nil.
//
// If ctx derives from the Context of a hold of this lock, by the same session, Lock fails with ErrReentered, or
// re-enters if Options.Reentrant is set. Only the context tells.
func (l locker) Lock(ctx context.Context) (*Hold, error) { return l.take(ctx, false) }

// TryLock returns a hold if that takes no waiting for other contenders, and otherwise a *BusyError that
// names the holder, if there is one. It never waits for others; ctx bounds the time that the servers may take to answer.
func (l locker) TryLock(ctx context.Context) (*Hold, error) { return l.take(ctx, true) }

// Do runs f while holding the lock. f's context ends when ctx does and when the hold is lost, with the
// cause. The lock is released when f returns and when it panics. The error is f's, joined with the loss
// of the lock or the failure to release it, if there was one.
func (l locker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := l.take(ctx, false)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}

// take returns one hold: another one of the grant under whose hold ctx is, or else one of a new claim. If try is set, it does not wait.
func (l locker) take(ctx context.Context, try bool) (*Hold, error) {
	if l.from == nil {
		return nil, errZero
	}
	b := l.from.base()
	h, err := b.reenter(ctx, try)
	if h == nil && err == nil {
		ctx = b.tellAsked(ctx)
		var holds []*Hold
		if holds, err = l.from.takeClaims(ctx, 1, try); err == nil {
			h = holds[0]
		}
	}
	return h, b.tellRefused(ctx, err)
}

// errZero is the error of a lock that was not made by a function such as NewMutex.
var errZero = errors.New("lock: the zero value of a lock cannot be used (make one with NewMutex, NewRWMutex, NewSemaphore or NewUnfair)")

// A takeable is a fair or an unfair lock that holds can be taken from.
type takeable interface {
	base() *lockBase
	takeClaims(ctx context.Context, count int, try bool) ([]*Hold, error) // makes count claims and returns as many holds, or none
}

// lockBase is what lock values of all kinds have, and what holds and grants need to know of their lock.
type lockBase struct {
	s     *client.Session
	path  string  // that the lock is known by
	dir   string  // path of its directory or znode: path, but of Curator's semaphore
	opt   Options // with defaults
	rules *queue.Rules
	owner Owner  // of its nodes
	data  []byte // of a node that says no more than its owner, or Options.Data
}

func newBase(s *client.Session, dir string, opt Options, r *queue.Rules) lockBase {
	b := lockBase{s, dir, dir, opt, r, opt.Owner(), opt.Data}
	if b.data == nil {
		b.data = queue.Record{Owner: b.owner}.Encode()
	}
	return b
}

// nodeData returns the data of a node: its owner, and what r says besides. With Options.Data it is that.
func (b *lockBase) nodeData(r queue.Record) []byte {
	if b.opt.Data != nil || r.Empty() {
		return b.data
	}
	r.Owner = b.owner
	return r.Encode()
}

func (b *lockBase) base() *lockBase { return b }

func (b *lockBase) op(try bool) string {
	if try {
		return "try " + b.rules.Verb
	}
	return b.rules.Verb
}

// withOp returns err with the operation and the lock, unless it says them already.
func (b *lockBase) withOp(err error, try bool) error {
	switch err.(type) {
	case nil, *BusyError, *LockError:
		return err
	}
	return &LockError{b.op(try), b.path, err}
}
