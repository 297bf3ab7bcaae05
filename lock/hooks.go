package lock

import "context"

// Hooks are functions that are told what becomes of a lock: for metrics, spans and logs. Any of them may be nil. ctx is the
// context that the lock was asked for with; its values are there also after it has ended. path is that of the lock's
// directory or znode. A hook runs on the goroutine on which the event happens, which goes on when the hook returns: it must be
// quick, and must not wait for the lock. Lost may run on a goroutine of its own.
type Hooks struct {
	// Asked is called when a lock is asked for that the caller does not hold yet. It returns the context that the other hooks get,
	// and from whose values those of the hold's context come: ctx, or one that derives from it and carries what belongs to this
	// request, such as its time; nil stands for ctx. Granted or Refused follows. Refused may also come without Asked, when
	// re-entering is refused. An All asks for all its members at first.
	Asked func(ctx context.Context, path string) context.Context

	// Waiting is called whenever the place in the queue of a waiter is looked up, as Options.Waiting is.
	Waiting func(ctx context.Context, path string, at Place)

	// Granted is called with each hold that is granted, before Lock returns it. A re-entered hold is not granted anew.
	Granted func(ctx context.Context, path string, h *Hold)

	// Released is called when the last hold of a znode is released, before the znode is deleted.
	Released func(ctx context.Context, path string)

	// Lost is called when a lock is lost, which the end of its session is too: before Session.Close returns, unless that takes
	// more than a tenth of a second.
	Lost func(ctx context.Context, path string, err *LostError)

	// Refused is called with the error of a Lock, TryLock or Acquire that fails. When an All fails, the hook of each member
	// that was not granted is called.
	Refused func(ctx context.Context, path string, err error)
}
