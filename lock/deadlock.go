package lock

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/lock/internal/waitgraph"
)

// A Wait is one contender that waits for another: its fields are the Path of the lock, the Contender Waiter, and the Contender
// For, which is ahead of it in the same queue.
type Wait = queue.Wait

// A Deadlock is a cycle of waits, a []Wait: the For of each waits in the next one, and the For of the last in the first.
type Deadlock = queue.Deadlock

// A DeadlockError says that a waiter gave up because it stood in a cycle of contenders that waited for each other, and was the last
// to come of those in it that look for cycles (Options.Deadlock). The caller should release what it holds and begin again; to lock
// the same path again would only close the cycle again. errors.Is(err, ErrDeadlock) holds.
//
// Cycles are found from the znodes alone: the node of a waiter names the holds that it waits under, those whose
// contexts the context of its Lock derives from, and those that the command names for a run within a run. Locks that are held in any
// other way, or by other clients, are not seen as held by a waiter, nor any that it holds while it waits for a lock with Options.Data.
//
// There are no false alarms: all nodes of the cycle were there at one instant, and none of the waiters had been
// granted (for other clients' nodes, going by the rules of their recipes). But a cycle may be about to open by
// itself: a waiter may give up for reasons of its own, and one whose process has died waits until its session
// expires. If Options.Deadlock is longer than the session timeouts, no deadlock is reported because of the dead.
//
// A semaphore is taken into account if its directory was made with the number of permits, and has not been written to since. Paths
// are compared as they are, so all contenders must see the same names, under the same chroot.
type DeadlockError struct {
	Path     string // of the lock that was waited for
	Deadlock Deadlock
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("waiting for %s would never end: deadlock of %d: %v", e.Path, len(e.Deadlock), e.Deadlock)
}

func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }

// detectorRarest bounds the pause between two looks for a deadlock, in multiples of Options.Deadlock.
const detectorRarest = 16

// detect returns a context for an attempt's wait. A goroutine looks for deadlocks meanwhile; if the attempt is the one to give up, the
// context ends with a *DeadlockError as its cause.
func (f *fairLock) detect(ctx context.Context, id queue.ID) (waitCtx context.Context, stop func()) {
	waitCtx, end := context.WithCancelCause(ctx)
	var looking sync.WaitGroup
	looking.Go(func() {
		if found := f.awaitDeadlock(waitCtx, id); found != nil {
			end(found)
		}
	})
	return waitCtx, func() {
		end(nil)
		looking.Wait()
	}
}

// awaitDeadlock looks for a cycle that an attempt waits in and is the one to give up, as often as Options.Deadlock says, until it
// has found one twice in a row or ctx ends; then it returns nil. A look that fails proves nothing.
func (f *fairLock) awaitDeadlock(ctx context.Context, id queue.ID) *DeadlockError {
	pause := f.opt.Deadlock
	var seen *waitgraph.Reader // of the last look, if it found a cycle
	for ending.Pause(ctx, pause) {
		now := waitgraph.NewReader(ctx, f.s, seen)
		found, err := now.Cycle(f.dir, id.HoldID(f.dir), (*queue.Entry).YieldsBefore)
		switch {
		case err != nil:
			f.opt.Logger.Debug("cannot look for deadlocks", "lock", f.dir, "error", err)
		case found == nil && seen == nil:
			pause = min(2*pause, detectorRarest*f.opt.Deadlock)
		case found == nil:
			seen = nil
		case seen == nil:
			seen, pause = now, f.opt.Deadlock
		default:
			return &DeadlockError{Path: f.path, Deadlock: found}
		}
	}
	return nil
}
