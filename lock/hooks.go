package lock

import (
	"cmp"
	"context"
	"time"
)

// Hooks are functions that are told what becomes of a lock: for metrics, spans and logs. Any of them may be nil. ctx is the
// context that the lock was asked for with; its values are there also after it has ended. path is that of the lock's
// directory or znode. A hook runs on the goroutine on which the event happens, which goes on when the hook returns: it must be
// quick, and must not wait for the lock. Lost may run on a goroutine of its own.
type Hooks struct {
	// Asked is called when a lock is asked for that the caller does not hold yet. It returns the context that the other hooks get,
	// and from whose values those of the hold's context come: ctx, or one that derives from it and carries what belongs to this
	// request, such as its time; nil stands for ctx. Granted or Refused follows. Refused may also come without Asked, when
	// re-entering is refused. An All calls Asked for every member before it takes the first, each time with the context that the
	// one before has returned, and the hooks of all members get the last one: what belongs to one lock needs a key with its path.
	Asked func(ctx context.Context, path string) context.Context

	// Waiting is called whenever the place in the queue of a waiter is looked up: when the wait begins, and again when the one ahead
	// has gone or something else calls for another look, such as a reconnect.
	Waiting func(ctx context.Context, path string, at Place)

	// Granted is called with each hold that is granted, before Lock returns it. A re-entered hold is not granted anew. The context of
	// the hold does not end by itself before it returns; Hold.Cause says meanwhile whether it is over, and may call Lost.
	Granted func(ctx context.Context, path string, h *Hold)

	// Released is called when the last hold of a znode is released, before the znode is deleted.
	Released func(ctx context.Context, path string)

	// Lost is called when a lock is lost, which the end of its session is too: before Session.Close returns, unless that takes more than
	// a tenth of a second. If Release, Downgrade, Hold.Cause or Lock finds the loss, it is called within them; else a panic of it ends the process.
	// A deletion that Release is the first to find out has been told as Released; only the error of Release tells of it.
	Lost func(ctx context.Context, path string, err *LostError)

	// Refused is called with the error of a Lock, TryLock or Acquire that fails. When an All fails, that of each member not granted is.
	Refused func(ctx context.Context, path string, err error)
}

// A Place is where a waiter stands in the queue.
type Place struct {
	Ahead int    // how many claims are ahead, holders' included; 0 while only a delay is waited for
	Node  string // path of our znode; empty for an unfair lock
	First string // path of the znode at the head of the queue; empty while a delay is waited for

	Delay time.Duration // what is left of the delay after the last holder (Options.Delay); 0 if there is none
}

// JoinHooks returns hooks that call those of all, in this order (metrics and spans, for example), each Asked with the last one's context.
func JoinHooks(all ...Hooks) Hooks {
	return Hooks{
		Asked: func(ctx context.Context, path string) context.Context {
			for _, h := range all {
				if h.Asked != nil {
					ctx = cmp.Or(h.Asked(ctx, path), ctx)
				}
			}
			return ctx
		},
		Waiting: joined(all, func(h Hooks) func(context.Context, string, Place) { return h.Waiting }),
		Granted: joined(all, func(h Hooks) func(context.Context, string, *Hold) { return h.Granted }),
		Lost:    joined(all, func(h Hooks) func(context.Context, string, *LostError) { return h.Lost }),
		Refused: joined(all, func(h Hooks) func(context.Context, string, error) { return h.Refused }),
		Released: func(ctx context.Context, path string) {
			for _, h := range all {
				if h.Released != nil {
					h.Released(ctx, path)
				}
			}
		},
	}
}

// joined returns a function that calls the functions that pick finds, where there are any.
func joined[T any](all []Hooks, pick func(Hooks) func(context.Context, string, T)) func(context.Context, string, T) {
	return func(ctx context.Context, path string, what T) {
		for _, h := range all {
			if hook := pick(h); hook != nil {
				hook(ctx, path, what)
			}
		}
	}
}
