package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Hold is a lock that we hold, as far as we know. It is a loan, which may end before it is released: work under its Context, and send its
// Token with every write whose late arrival would do harm. Any goroutine may use and release it. A zero Hold, and a nil one, are over.
type Hold struct {
	g      *grant
	ctx    context.Context
	cancel context.CancelCauseFunc

	released atomic.Bool // Release of this hold has been called

	enders []context.CancelCauseFunc // of contexts that end with the hold; guarded by g.mu
}

// Context returns a context that ends with the hold; context.Cause of it is then what Cause returns. It carries the
// values of the context that the lock was asked for with, but does not end with that one. A Lock of the same path
// with a context derived from it re-enters if Options.Reentrant is set.
func (h *Hold) Context() context.Context {
	if h.isZero() {
		return noHold
	}
	return h.ctx
}

func (h *Hold) isZero() bool { return h == nil || h.g == nil }

// errNoHold is the error of a Hold, or of Holds, that no lock has returned.
var errNoHold = errors.New("lock: a hold that no lock has returned cannot be used (was the error of Lock looked at?)")

// noHold is the context of such a Hold.
var noHold = ending.Ended(errNoHold)

// Done is closed when the hold is over.
func (h *Hold) Done() <-chan struct{} { return h.Context().Done() }

// Cause returns nil while the lock is held, ErrReleased after a release, and a *LostError if the hold ended before
// that. It looks at the clock: after the machine was suspended it tells at once if the deadline has passed, while
// Done depends on timers, which may be late by up to a second then.
func (h *Hold) Cause() error {
	ctx := h.Context()
	if ctx.Err() == nil {
		h.g.checkDeadline()
	}
	return context.Cause(ctx)
}

// Token returns the fencing token: the creation zxid of the node that the lock was got with. Tokens of one lock grow from holder to
// holder for the life of the ensemble, even if the directory is deleted in between. Whatever is written to (a database, a service)
// can remember the highest token it has seen and refuse a holder that has been overtaken; package fence does so. Tokens of a
// semaphore or of readers name the holders but do not order them, and permits that were acquired together share theirs.
func (h *Hold) Token() int64 {
	if h.isZero() {
		return 0
	}
	return h.g.token
}

// Node returns the path of the holder's node. A downgrade gives the hold another one.
func (h *Hold) Node() string {
	if h.isZero() {
		return ""
	}
	return h.g.nodePath()
}

// Check returns an operation that makes a Multi fail unless the holder's node is still there: a write inside ZooKeeper that carries
// it takes effect only while the lock has not passed on. That of an unfair lock proves less; see Unfair.
func (h *Hold) Check() client.Op { return client.OpCheck(h.Node(), zk.AnyVersion) }

// Remaining returns how long the hold lasts if no further heartbeat is answered: work that cannot be stopped should not
// begin unless it takes less. It is 0 once the hold is over. Package internal/lease has the rule.
func (h *Hold) Remaining() time.Duration {
	if h.Context().Err() != nil {
		return 0
	}
	return max(h.g.remaining(), 0)
}

// Do runs f, and releases the hold when f returns or panics. If the hold is over already, f does not run and the error is the hold's
// Cause. Otherwise it is f's, joined with the loss of the lock or the failure to release it.
//
// f's context ends when ctx or the hold ends, with its cause. A value that it is asked for is that of the hold's context, or else that
// of ctx. A Lock with it counts as one under the holds of both.
func (h *Hold) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return workUnder(ctx, h, f)
}

// A releasable is a Hold or Holds.
type releasable interface {
	Context() context.Context
	Cause() error
	Release(context.Context) error
	endWith(context.CancelCauseFunc)
}

// endWith has cancel called with the cause when the hold ends, or at once if it has ended. context.AfterFunc would call it on another
// goroutine, when the lock may have another holder.
func (h *Hold) endWith(cancel context.CancelCauseFunc) {
	if h.isZero() {
		cancel(errNoHold)
		return
	}
	h.g.mu.Lock()
	h.enders = append(h.enders, cancel)
	h.g.mu.Unlock()
	if h.ctx.Err() != nil {
		cancel(context.Cause(h.ctx))
	}
}

// workUnder is Do for what may be one hold or several.
func workUnder(ctx context.Context, h releasable, f func(ctx context.Context) error) (err error) {
	chain := heldChainOf(h.Context()).before(heldChainOf(ctx))
	values := context.WithValue(context.WithoutCancel(h.Context()), heldChainKey{}, chain)
	work, stop := context.WithCancelCause(workContext{ctx, values})
	defer stop(nil)
	h.endWith(stop)
	defer func() {
		if e := h.Release(context.WithoutCancel(ctx)); e != nil && !errors.Is(err, e) { // f may have told of the loss
			err = ending.Join(err, e)
		}
	}()
	if cause := h.Cause(); cause != nil { // by the clock: timers may be late
		return cause
	}
	return f(work)
}

// A workContext has the deadline and the end of the context that work is called with, and the values of the hold's.
type workContext struct {
	context.Context
	values context.Context
}

// Value returns a value of the hold's context, or else of the caller's.
func (w workContext) Value(key any) any {
	if v := w.values.Value(key); v != nil {
		return v
	}
	return w.Context.Value(key)
}
