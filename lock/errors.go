package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

var (
	// ErrBusy is returned by TryLock when another contender holds the lock or waits for it. The error is a *BusyError, which
	// the error of a Lock that ended with its context wraps too: errors.Is finds the context's error there as well.
	ErrBusy = errors.New("lock is busy")
	// ErrLost is returned when a hold has ended before it was released. The error is a *LostError, which has the cause.
	ErrLost = errors.New("lock lost")
	// ErrReleased is the cause with which a hold's context ends after Release.
	ErrReleased = errors.New("lock released")
	// ErrPlaceLost is returned when the znode of a waiting Lock was deleted, and with it the place in the queue.
	// Options.Requeue joins the queue again instead.
	ErrPlaceLost = errors.New("place in the queue lost: the waiting znode was deleted")
	// ErrReleasePending is returned when a release was not confirmed in time. The hold is over. The znode is deleted in the
	// background as soon as a server can be reached, or goes with the session; a delay marker (Options.Delay) that the session did
	// not get to delete stays, and delays the next holder.
	ErrReleasePending = errors.New("release not confirmed yet")
	// ErrCounterExhausted is returned when the counter of the lock's directory has come to its end, 2^31-1, at a server where it does
	// not wrap: the order of arrival is unknown. Let the directory become empty and delete it; the counter starts again at 0.
	ErrCounterExhausted = errors.New("sequence counter of the lock directory is exhausted; delete the empty directory to start again")
	// ErrQueueFull is returned when more claims are ahead than Options.QueueMax allows.
	ErrQueueFull = errors.New("too many contenders wait")
	// ErrDeadlock is returned to a waiter that gave up because it waited for itself. The error is a *DeadlockError.
	ErrDeadlock = errors.New("deadlock")
	// ErrDuplicate is returned when a lock is named twice among those that are to be held together.
	ErrDuplicate = errors.New("named twice")
	// ErrNoPermits is returned when the semaphore was made with 0 permits, which means "as many as are stored", and none are.
	ErrNoPermits = errors.New("no number of permits is stored with the semaphore")
	// ErrPermitsConflict is returned when the number of permits that is stored with the semaphore is not the one that it was
	// made with. The error is a *ConflictError, which has both numbers.
	ErrPermitsConflict = errors.New("another number of permits is stored with the semaphore")
	// ErrTooManyPermits is returned when more permits are asked for at once than there are. The error is a *TooManyError.
	ErrTooManyPermits = errors.New("more permits asked for at once than there are")
	// ErrReentered is returned when the lock is asked for with a context that derives from a hold of the same lock, without
	// Options.Reentrant. The caller would wait for itself, or several goroutines that were started under the hold would all be let in.
	ErrReentered = errors.New("its context derives from a hold of this lock: pass another context, or set Options.Reentrant")
	// ErrUpgrade is returned when the write side is asked for under a hold of the read side. Two readers that did so would
	// wait for each other for ever: release the read side first.
	ErrUpgrade = errors.New("a read lock cannot be upgraded; release it first")
	// ErrOtherKind is returned when the directory is in use as another kind of lock. The error is a *KindError.
	ErrOtherKind = errors.New("the path is in use as another kind of lock")
	// ErrNotEphemeral is returned when the znode at the path of an unfair lock belongs to no session, so that waiting for
	// its end could take for ever. It may be the directory of another kind of lock.
	ErrNotEphemeral = errors.New("a znode is there that belongs to no session: perhaps the directory of another kind of lock")
	// ErrNotWriter is returned by Downgrade of a hold that is not of a write side, or not the only one of its znode, or that has been
	// downgraded or is being downgraded by another call.
	ErrNotWriter = errors.New("not the only hold of a write lock")
	// ErrNodeDeleted is the cause of a loss when the holder's znode was deleted: by an operator, perhaps with Break of package
	// inspect, or by the ensemble when the session expired, which the client may hear of a moment later.
	ErrNodeDeleted = errors.New("the holder's znode was deleted")
	// ErrDeadline is the cause of a loss when no request was answered in time that proves that the session lives, so that the
	// ensemble may soon give the lock to another contender: two thirds of the session timeout after the last such request
	// was sent, or sooner if answers were slow before. If there was no connection, the text of the loss says why.
	ErrDeadline = errors.New("no heartbeat was answered in time")
)

// A LockError says which operation on which lock went wrong.
type LockError struct {
	Op   string // what was called: "lock", "try lock", "acquire", "release", …
	Path string // of the lock
	Err  error
}

func (e *LockError) Error() string {
	at := e.Op + " " + e.Path
	why := e.Err.Error()
	for _, said := range []string{at, "lock " + e.Path} { // once is enough
		if rest, ok := strings.CutPrefix(why, said); ok && rest != "" && strings.ContainsAny(rest[:1], ": ") {
			why = strings.TrimLeft(rest, ": ")
		}
	}
	return at + ": " + why
}

func (e *LockError) Unwrap() error { return e.Err }

// A BusyError says what has the lock. errors.Is(err, ErrBusy) holds. TryLock returns one, and the error of a Lock that ended
// with its context wraps one, if the holder was learned in time.
type BusyError struct {
	Path   string
	Holder Contender // as far as it could be read; its Node is empty if it left meanwhile, or if Delay is not zero

	// Delay, if not zero, says that the lock has no holder: it is closed for so much longer, because its last holder
	// did not release it; see Options.Delay. The time counts on for later attempts with the same lock value.
	Delay time.Duration
}

func (e *BusyError) Error() string {
	switch who := e.Holder.Describe(); {
	case e.Delay > 0:
		return fmt.Sprintf("lock %s is busy: its last holder did not release it; free in %v", e.Path, e.Delay)
	case who != "":
		return fmt.Sprintf("lock %s is busy: held by %s", e.Path, who)
	}
	return fmt.Sprintf("lock %s is busy", e.Path)
}

func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// A Contender is a process that holds a lock or waits for it, as its znode shows it. Its fields are
//
//	Node    string    // path of its znode
//	Session int64     // that owns the znode
//	Token   int64     // creation zxid of the znode: the fencing token, if it holds the lock and has not downgraded
//	Since   time.Time // when it joined the queue, by the server's clock; not when it got the lock
//	Shared  bool      // it asks for the read side of a read/write lock
//	Latch   bool      // it is a candidate of an election
//	Owner   Owner     // which process it is; zero if another library made the znode
//	Data    []byte    // the znode's data as it is
//	Held    bool      // it holds the lock, going by the queue: its process may not have heard of that yet
//	Place   int       // how many are ahead of it in the queue, 0 for the first; readers ahead of a reader count too
//	Revoked bool      // it was asked to give the lock up; see inspect.Revoke
//
// Its method Describe returns words such as "backup pid 4711 on host7 (nightly)".
type Contender = queue.Contender

// A waitError has the reason for which a wait ended, and the holder that was waited for.
type waitError struct {
	err  error
	busy *BusyError
}

func (e *waitError) Error() string {
	return fmt.Sprintf("%v (held by %s)", e.err, e.busy.Holder.Describe())
}

// Unwrap returns both, so that errors.As finds the *BusyError.
func (e *waitError) Unwrap() []error { return []error{e.err, e.busy} }

// A KindError says that the directory is in use as another kind of lock, whose contenders do not wait for ours, nor
// ours for them; see Options.AllowOtherKinds. errors.Is(err, ErrOtherKind) holds.
type KindError struct {
	Path string
	Kind Kind // of lock that is there already
}

func (e *KindError) Error() string {
	return fmt.Sprintf("lock %s is in use as another kind of lock (%s); use another path", e.Path, e.Kind)
}

func (e *KindError) Is(target error) bool { return target == ErrOtherKind }

// A Kind says what a lock is, as its znodes tell; package inspect names the kinds.
type Kind = queue.Kind

// A ConflictError has the two numbers of an ErrPermitsConflict. errors.Is finds that in it.
type ConflictError struct{ Want, Stored int }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("asked for as a semaphore of %d permits, but %d are stored with it", e.Want, e.Stored)
}

func (e *ConflictError) Is(target error) bool { return target == ErrPermitsConflict }

// A TooManyError has the two numbers of an ErrTooManyPermits. errors.Is finds that in it.
type TooManyError struct{ Asked, Permits int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("%d permits asked for at once, there are %d", e.Asked, e.Permits)
}

func (e *TooManyError) Is(target error) bool { return target == ErrTooManyPermits }

// A LostError says why a hold ended before it was released. errors.Is(err, ErrLost) holds, and so does errors.Is with the cause:
// ErrNodeDeleted, ErrDeadline, zk.ErrSessionExpired, zk.ErrClosed or zk.ErrAuthFailed.
type LostError struct {
	Path  string
	Cause error
}

func (e *LostError) Error() string { return fmt.Sprintf("lock %s lost: %v", e.Path, e.Cause) }

func (e *LostError) Unwrap() error { return e.Cause }

// A LossReason is one of a few reasons for which locks are lost, as a label for metrics.
type LossReason string

// The reasons for which locks are lost.
const (
	LossNodeDeleted    LossReason = "node-deleted"    // the holder's znode was deleted; see ErrNodeDeleted
	LossDeadline       LossReason = "deadline"        // no heartbeat was answered in time; see ErrDeadline
	LossSessionExpired LossReason = "session-expired" // the ensemble has ended the session
	LossSessionClosed  LossReason = "session-closed"  // the session was closed on this side
	LossOther          LossReason = "other"           // such as credentials that a server refused
)

// Reason returns the reason of the loss.
func (e *LostError) Reason() LossReason {
	switch {
	case errors.Is(e.Cause, ErrNodeDeleted):
		return LossNodeDeleted
	case errors.Is(e.Cause, ErrDeadline):
		return LossDeadline
	case errors.Is(e.Cause, zk.ErrSessionExpired):
		return LossSessionExpired
	case errors.Is(e.Cause, zk.ErrClosed):
		return LossSessionClosed
	}
	return LossOther
}

func (e *LostError) Is(target error) bool { return target == ErrLost }
