package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// lockBase is what every lock value has, whatever its kind: all that its holds and grants need to know of it.
type lockBase struct {
	s         *client.Session
	dir       string          // path
	opt       Options         // with defaults
	verb      string          // what Lock is called in errors
	kind      queue.ClaimKind // of its claims
	reenters  bool            // Lock under a hold's context is re-entering, which Options.Reentrant allows
	signature []byte          // see nodeData
	held      any             // its heldKey
}

// newBase returns the base of a lock whose claims stand in one line with those of the kinds that it heeds.
func newBase(s *client.Session, dir string, opt Options, verb string, kind, heeds queue.ClaimKind, reenters bool) lockBase {
	return lockBase{s, dir, opt, verb, kind, reenters, opt.signature(), heldKey{s, dir, heeds}}
}

// errZero is the error of a lock that was not made by a function such as NewMutex.
var errZero = errors.New("lock: the zero value of a lock cannot be used (make one with NewMutex, NewRWMutex, NewSemaphore or NewUnfair)")

// path and session return what a lock was made with. They work for the zero value of a lock, too.
func (b *lockBase) path() string {
	if b == nil {
		return ""
	}
	return b.dir
}

func (b *lockBase) session() *client.Session {
	if b == nil {
		return nil
	}
	return b.s
}

// op returns what errors call the operation.
func (b *lockBase) op(try bool) string {
	if try {
		return "try " + b.verb
	}
	return b.verb
}

// heldKey is the key under which a hold's context carries its grant.
type heldKey struct {
	s    *client.Session
	dir  string
	line queue.ClaimKind // kinds that it heeds: a directory may have several lines, which do not hide each other
}

// reenter returns another hold of the node whose hold ctx derives from; nil if there is none, and the lock is to be
// asked for in line. Without Options.Reentrant that is refused, and always the write side under a hold of the read side,
// which could never be granted.
func (b *lockBase) reenter(ctx context.Context, try bool) (*Hold, error) {
	g, _ := ctx.Value(b.held).(*grant)
	if g == nil || !b.reenters {
		return nil, nil
	}
	g.check() // the deadline may have passed while the machine was suspended
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case ctx.Err() != nil && g.mu.lost != nil: // which is why ctx has ended, and about this lock
		return nil, &LockError{b.op(try), b.dir, g.mu.lost}
	case ctx.Err() != nil:
		return nil, nil
	}
	reads := g.mu.holds != nil && g.mu.kind == queue.Shared
	if reads && b.kind == queue.Exclusive {
		return nil, &LockError{b.op(try), b.dir, ErrUpgrade}
	}
	if g.mu.holds != nil && !b.opt.Reentrant {
		return nil, &LockError{b.op(try), b.dir, ErrReentered}
	}
	return g.holdLocked(context.WithoutCancel(ctx)), nil
}
