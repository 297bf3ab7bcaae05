package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock"
)

var (
	// ErrResigned is the cause of a term that its leader has ended. Work that returns it under Run stands again.
	ErrResigned = errors.New("resigned")
	// ErrOverran is returned when the work did not stop in time, and goes on while another candidate may lead.
	ErrOverran = errors.New("the work goes on after its term")
)

// A Term is our leadership, as far as we know. It is a loan, which may end before we resign: work under its Context,
// and send its Token with every write whose late arrival would do harm. It ends once: by Resign, by the loss of its
// lock, or Options.Margin before the deadline of its lock. A zero Term, and a nil one, are over.
type Term struct {
	// Fixed when made.
	e        *Election
	hold     *lock.Hold
	ctx      context.Context
	cancel   context.CancelCauseFunc
	resigned context.Context         // ends when the end of the term is asked for, with the reason as its cause
	end      context.CancelCauseFunc // asks for it
	over     chan struct{}           // closed when the lock has been given back, or that has failed
	result   error                   // how the term was handed over; fixed when over is closed

	mu      sync.Mutex     // locked while Work looks whether the term is over, and adds to working
	working sync.WaitGroup // calls of Work under way
}

func newTerm(e *Election, hold *lock.Hold) *Term {
	t := &Term{e: e, hold: hold, over: make(chan struct{})}
	t.resigned, t.end = context.WithCancelCause(context.Background())
	t.ctx, t.cancel = context.WithCancelCause(hold.Context())
	log := e.opt.Lock.Logger
	log.Info("leading", "election", e.dir, "node", hold.Node(), "token", hold.Token())
	go func() { // ends with the term: after the grace, and the time for cleaning up
		defer close(t.over)
		lost := t.keep()
		cause := context.Cause(t.ctx)
		t.result = t.handOver(lost, cause)
		log.Info("leading no more", "election", e.dir, "node", hold.Node(), "token", hold.Token(), "cause", cause, "error", t.result)
	}()
	return t
}

// Context returns a context that ends with the term; context.Cause of it is then what Cause returns. It carries the
// values of the context that Campaign was called with, but does not end with that one.
func (t *Term) Context() context.Context {
	if t.lock() == nil {
		return noTerm
	}
	return t.ctx
}

// lock returns the hold of the term; nil, which is over, of a zero Term.
func (t *Term) lock() *lock.Hold {
	if t == nil {
		return nil
	}
	return t.hold
}

// errNoTerm is the error of a Term that Campaign did not return.
var errNoTerm = errors.New("election: a term that Campaign did not return cannot be used (was the error of Campaign looked at?)")

// noTerm is the context of such a Term.
var noTerm = ending.Ended(errNoTerm)

// Done is closed when the term has ended: the work has to stop.
func (t *Term) Done() <-chan struct{} { return t.Context().Done() }

// Cause returns nil during the term, and then why it has ended: ErrResigned, a *lock.LostError, or, under Lead and Run,
// the cause with which their context ended. Like lock.Hold.Cause it looks at the clock.
func (t *Term) Cause() error {
	ctx := t.Context()
	if ctx.Err() == nil && t.Remaining() == 0 {
		t.cancel(t.lossCause())
	}
	return context.Cause(ctx)
}

// Token returns the fencing token: it grows from leader to leader for the life of the ensemble. See lock.Hold.Token.
func (t *Term) Token() int64 { return t.lock().Token() }

// Node returns the path of our znode: the Candidate with this Node is us.
func (t *Term) Node() string { return t.lock().Node() }

// Check returns an operation that makes a Multi fail unless we still lead. See lock.Hold.Check.
func (t *Term) Check() client.Op { return t.lock().Check() }

// Revoked is closed when this leader was asked to give up; see lock.Hold.Revoked. The term goes on.
func (t *Term) Revoked() <-chan struct{} { return t.lock().Revoked() }

// Remaining returns how long the term lasts if no further heartbeat is answered; 0 once it is over. The work has Options.Margin to stop.
func (t *Term) Remaining() time.Duration {
	if t.Context().Err() != nil {
		return 0
	}
	return max(t.hold.Remaining()-t.e.opt.margin(t.e.s.Timeout()), 0)
}

// Work runs f under the term, and returns its error. No other candidate leads before f has returned, within the limits
// that the package documentation names. If the term is over, f is not run and the error is the term's Cause.
func (t *Term) Work(f func(ctx context.Context) error) error {
	if cause := t.Cause(); cause != nil { // before the mutex is locked, since a hook that hears of a loss may call Work
		return cause
	}
	t.mu.Lock()
	cause := context.Cause(t.ctx)
	if cause == nil {
		t.working.Add(1)
	}
	t.mu.Unlock()
	if cause != nil {
		return cause
	}
	defer t.working.Done()
	return f(t.ctx)
}

// Resign ends the term, waits until all calls of Work have returned, for Options.Grace at most, and lets the next
// candidate lead. It is to be called for a term that has ended by itself, too: by that the caller says that it does
// no more work under the term, outside of Work either.
//
// A nil error says that our znode is known to be gone, and that all work had stopped before. Otherwise errors.Is finds
// ErrOverran if work goes on, and lock.ErrLost if the term was lost before. If ctx ends first, errors.Is finds
// lock.ErrReleasePending, as after lock.Hold.Release, and the hand-over goes on without it.
//
// Do not call it from what Work runs, or from a hook of the lock, such as Hooks.Lost: Resign waits for both, so it would wait for its own
// caller, or not at all with the work's own context, which ends with the term. Return instead, with ErrResigned if Run is to campaign again.
func (t *Term) Resign(ctx context.Context) error {
	if t.lock() == nil {
		return errNoTerm
	}
	_ = ctx.Err() // a nil context panics before anything has ended
	t.end(ErrResigned)
	select {
	case <-t.over:
	case <-ctx.Done():
		select {
		case <-t.over: // before
		default:
			return &lock.LockError{Op: "resign", Path: t.e.dir, Err: fmt.Errorf("%w: %w", lock.ErrReleasePending, ending.Of(ctx))}
		}
	}
	return t.result
}

// keep returns when the term is over, and reports whether that is a loss. A term may be ended because another lock was lost.
func (t *Term) keep() (lost bool) {
	for t.Cause() == nil { // which ends a term that has no time left
		_, changed := t.e.s.State() // a reconnect may shorten the session timeout
		select {
		case <-changed:
		case <-t.ctx.Done():
		case <-t.resigned.Done():
			if t.ctx.Err() == nil {
				t.cancel(context.Cause(t.resigned))
				return false
			}
		case <-time.After(min(t.Remaining(), lease.Glance(t.e.s.Timeout()))):
		}
	}
	return true
}

// lossCause returns why a term with no time left is over.
func (t *Term) lossCause() error {
	if cause := t.hold.Cause(); cause != nil {
		return cause
	}
	return &lock.LostError{Path: t.e.dir, Cause: bridge.Of(t.e.s).CutOff(lock.ErrDeadline)}
}

// handOver waits until all work has stopped, and gives the lock back.
func (t *Term) handOver(lost bool, cause error) error {
	patience, stop := context.WithTimeout(context.Background(), t.e.opt.Grace)
	defer stop()
	t.mu.Lock() // from here on Work adds nothing: the term is over
	idle := ending.AllEnded(&t.working)
	t.mu.Unlock()
	var overran error
	select {
	case <-idle:
	case <-patience.Done():
		overran = &lock.LockError{Op: "hand over", Path: t.e.dir, Err: ErrOverran}
	}
	select { // there may be work that we do not know of, for which Resign speaks; while the lock is ours to keep
	case <-t.resigned.Done():
	case <-t.hold.Done():
	case <-patience.Done():
	}
	err := t.hold.Release(context.Background())
	if lost && !errors.Is(err, lock.ErrLost) {
		err = ending.Join(cause, err) // given up before it was lost
	}
	return ending.Join(overran, err)
}
