package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var (
	// ErrBusy: somebody else has the lock. The error is a *BusyError.
	ErrBusy = errors.New("lock is busy")
	// ErrLost: a hold ended before it was released. The error is a *LostError.
	ErrLost = errors.New("lock lost")
	// ErrReleased is the cause of a hold that was released.
	ErrReleased = errors.New("lock released")
	// ErrPlaceLost: the waiting node was deleted by somebody, and the place in line with it.
	ErrPlaceLost = errors.New("place in line lost: the waiting znode was deleted")
	// ErrReleasePending: the release was not confirmed in time. The hold is over, and the node goes as
	// soon as the server can be reached, or with the session.
	ErrReleasePending = errors.New("release not confirmed yet")
	// ErrCounterExhausted: the directory's sequence counter has come to its end, so that nobody can
	// say who came first. Let the directory become empty and delete it; it starts again at 0.
	ErrCounterExhausted = errors.New("sequence counter of the lock directory is exhausted; delete the empty directory to start again")
	// ErrQueueFull: more contenders wait than Options.QueueMax allows.
	ErrQueueFull = errors.New("too many contenders wait")

	// ErrNoPermits: the number of permits was left to what is stored with the semaphore, and nothing is.
	ErrNoPermits = errors.New("no number of permits is stored with the semaphore")

	// ErrPermitsConflict: another number of permits is stored with the semaphore than it was asked for with. The
	// error is a *ConflictError.
	ErrPermitsConflict = errors.New("another number of permits is stored with the semaphore")

	// ErrTooManyPermits: more permits were asked for at once than there are. The error is a *TooManyError.
	ErrTooManyPermits = errors.New("more permits asked for at once than there are")

	// ErrUpgrade: whoever holds the read side asked for the write side. Two who did that would wait for
	// each other for ever: release first.
	ErrUpgrade = errors.New("a read lock cannot be upgraded; release it first")

	// ErrNotEphemeral: at the path of an unfair lock is a znode that no session's end removes, perhaps the
	// directory of another kind of lock.
	ErrNotEphemeral = errors.New("a znode is there that belongs to no session: perhaps the directory of another kind of lock")

	// ErrNotWriter: only the one hold of a write side can be downgraded.
	ErrNotWriter = errors.New("not the only hold of a write lock")

	// ErrNodeDeleted is the cause of a loss: somebody deleted the holder's node.
	ErrNodeDeleted = errors.New("the holder's znode was deleted")
	// ErrDeadline is the cause of a loss: no heartbeat was answered for so long that the ensemble may
	// give the lock to somebody else before we hear of it.
	ErrDeadline = errors.New("no heartbeat was answered in time")
)

// A LockError says which operation on which lock went wrong.
type LockError struct {
	Op   string // what was called: "lock", "try lock", "acquire", "release", …
	Path string // of the lock
	Err  error
}

func (e *LockError) Error() string { return fmt.Sprintf("%s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *LockError) Unwrap() error { return e.Err }

// A BusyError says who has the lock. errors.Is(err, ErrBusy) holds.
type BusyError struct {
	Path   string
	Holder Contender // as far as it could be read; Node is empty if it left while we looked

	// Delay, if not zero, says that nobody holds the lock, and what is left of the delay after its last
	// holder, which did not release it; see Options.Delay. Later attempts of this process do not begin anew.
	Delay time.Duration
}

func (e *BusyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %s is busy", e.Path)
	if who := e.Holder.Who(); who != "" {
		b.WriteString(": held by " + who)
	}
	if e.Delay > 0 {
		fmt.Fprintf(&b, ": its last holder did not release it; free in %v", e.Delay)
	}
	return b.String()
}

// Is makes errors.Is(err, ErrBusy) hold.
func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// A KindError says that contenders of another kind are there, which would not wait for ours, nor ours for them; see
// Options.OneKind.
type KindError struct {
	Path string
	Kind Kind // of theirs
}

func (e *KindError) Error() string {
	return fmt.Sprintf("lock %s is in use as another kind of lock (%s)", e.Path, e.Kind)
}

// A LostError says why a hold ended before it was released. errors.Is(err, ErrLost) holds, and so does
// errors.Is with the cause: ErrNodeDeleted, ErrDeadline, zk.ErrSessionExpired or zk.ErrClosed.
type LostError struct {
	Path  string
	Cause error
}

func (e *LostError) Error() string { return fmt.Sprintf("lock %s lost: %v", e.Path, e.Cause) }

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, ErrLost) hold.
func (e *LostError) Is(target error) bool { return target == ErrLost }
