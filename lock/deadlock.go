package lock

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// ErrDeadlock is returned to a waiter that gave up because it waited for itself. The error is a *DeadlockError.
var ErrDeadlock = errors.New("deadlock")

// A Wait is one contender that waits for another.
type Wait = queue.Wait

// A Deadlock is a cycle of waits.
type Deadlock = queue.Deadlock

// A DeadlockError says that a waiter gave up because it stood in a cycle of contenders that waited for each other,
// and was the last to come of those in it that look for cycles (Options.Deadlock). The caller should release
// what it holds and begin again; to lock the same path again would only close the cycle again.
// errors.Is(err, ErrDeadlock) holds.
//
// Cycles are found from the znodes alone: the node of a waiter names the holds that it waits under, those whose
// contexts the context of its Lock derives from, and those that the command names for a run within a run. Locks that are
// held in any other way, by other clients, or with Options.Data, are not seen as held by a waiter.
//
// There are no false alarms: all nodes of the cycle were there at one instant, and none of the waiters had been
// granted (for other clients' nodes, going by the rules of their recipes). But a cycle may be about to open by
// itself: a waiter may give up for reasons of its own, and one whose process has died waits until its session
// expires. If Options.Deadlock is longer than the session timeouts, no deadlock is reported because of the dead.
//
// A semaphore is taken into account if its number of permits is stored with it and has never been changed. Paths are
// compared as they are, so all contenders must see the same names, under the same chroot.
type DeadlockError struct {
	Path     string // of the lock that was waited for
	Deadlock Deadlock
}

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("waiting for %s would never end: deadlock of %d: %v", e.Path, len(e.Deadlock), e.Deadlock)
}

// Is makes errors.Is(err, ErrDeadlock) hold.
func (e *DeadlockError) Is(target error) bool { return target == ErrDeadlock }
