package lock

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// DelayMax is the largest Options.Delay.
const DelayMax = queue.DelayMax

// Options configure a lock. The zero value of every field means its default.
type Options struct {
	// Label is free text about this user of the lock, stored in its znode. A look at the lock (Look of package inspect, a
	// BusyError, "lockkeeper locks") sees it beside host and process; see Owner.
	Label string

	// Data, if not nil, is stored in the znode as it is, in place of the JSON that describes the Owner: for locks
	// that are shared with clients which expect something else there. A look at the lock then shows no Owner.
	Data []byte

	// Vouch is how much an answered heartbeat has to prove for a hold to go on; see client.Vouch. The levels differ
	// in which failures of the ensemble they cover, and in cost. Default: client.VouchSync.
	Vouch client.Vouch

	// ACL is the access control list of the znodes in the queue. Contenders have to be able to read each other's and their own:
	// a Lock that has to wait for a znode that it must not read fails with zk.ErrNoAuth. Default: every client may do anything.
	ACL []zk.ACL

	// ParentACL is the access control list of the lock's directory and of those above it, where they have to be
	// made. Default: every client may do anything.
	ParentACL []zk.ACL

	// Reentrant lets Lock and TryLock re-enter: with a context that derives from the Context of a hold of the same lock, by
	// the same session, they return at once with another hold of the same znode, and the lock is free when all its holds
	// are released. All goroutines that work under the hold's context can do so, and do not exclude each other. Default:
	// such a call fails with ErrReentered. Semaphores do not re-enter: such a call asks for another permit.
	Reentrant bool

	// Requeue makes a waiter whose znode was deleted join the queue again, at its end. Default: Lock fails with ErrPlaceLost.
	Requeue bool

	// AllowOtherKinds lets a lock be used although contenders of another kind are ahead in the directory, such as those of
	// a semaphore ahead of those of a mutex. Kinds do not wait for each other, so both hold at once; only a mutex and
	// a read/write lock do, and may share a path. Default: Lock and TryLock fail with a *KindError, since probably a path was
	// used twice by mistake. An unfair lock fails on such a path in any case.
	AllowOtherKinds bool

	// OneKind was the option for what is the default now.
	//
	// Deprecated: a lock with OneKind is refused. Leave it out; AllowOtherKinds has the opposite meaning.
	OneKind bool

	// Delay, if not zero, keeps the lock closed for that long after a hold that ended without a release: because
	// its session ended, its node was deleted or its deadline passed. It protects what is written under the lock
	// from the last holder's writes that are still on their way. After a release there is no delay.
	//
	// The last holder's option says how long, and the next contender waits, by its own clock, from when it notices the end: so
	// both have to set the option. If the waiter gives up or dies, the next one begins anew, unless it uses the same lock
	// value. The read side of an RWMutex waits for a delay and causes none, unless the reader has downgraded.
	//
	// Each grant costs one more round trip, and a second one with a write of a delay marker unless it is to a reader, and each release a
	// second deletion. The marker, a persistent znode, outlives a lost hold, and with it the directory, until the next contender comes.
	// Tokens protect better, where they can be checked. At most DelayMax; not for semaphores and unfair locks. Default: no delay.
	Delay time.Duration

	// Deadlock, if not zero, looks for cycles of contenders that wait for each other. A waiter that holds other locks (its Lock
	// was called with a context derived from theirs) looks for the first time after that long, and then ever more rarely, up
	// to sixteen times as long between two looks. A cycle has to be there still at a second look, Deadlock later. Then, of
	// those in it that look, the one that came last fails with a *DeadlockError. Each look reads the queues that the cycle
	// may go through. Not with Data, which replaces what the znodes of waiters say for it. Default: never.
	Deadlock time.Duration

	// AdoptPermits makes a semaphore take the number of permits that is stored with it, whatever number it was made with. Its own
	// is stored only where none is. Default: another number is a *ConflictError.
	AdoptPermits bool

	// QueueMax is the largest number of claims, the holder's included, that Lock waits behind; AcquireN(k) makes k. With more ahead it
	// fails with ErrQueueFull. With NewCuratorSemaphore it counts on the way in, and again among the permits. Default: no limit.
	QueueMax int

	// CleanupTimeout bounds how long Release and Do wait for the release to be confirmed, whatever their context. Default 5 s.
	CleanupTimeout time.Duration

	// Hooks are told of each wait, grant, release, loss and refusal. Default: none.
	Hooks Hooks

	// Logger gets a line for whatever an operator should know, such as a lost hold. Default: silent.
	Logger *slog.Logger

	pid        int      // see bridge.OnBehalf
	user       string   // the same
	underNodes []string // the same
}

// forLock fills in what was left out and refuses contradictions, for a lock of that session at path.
func (o Options) forLock(s *client.Session, path string) (Options, error) {
	if s == nil {
		return o, fmt.Errorf("lock %s: there is no session (open one with client.Open)", path)
	}
	if err := zk.ValidatePath(path); err != nil {
		return o, err
	}
	switch {
	case path == "/":
		return o, &zk.PathError{Path: path, Reason: "is the root, which cannot be a lock"}
	case o.OneKind:
		return o, fmt.Errorf("lock %s: option OneKind: is the default now (leave it out; AllowOtherKinds is its opposite)", path)
	case !o.Vouch.Valid():
		return o, fmt.Errorf("lock %s: option Vouch: %d is not a level", path, int(o.Vouch))
	case o.QueueMax < 0:
		return o, fmt.Errorf("lock %s: option QueueMax: %d is negative", path, o.QueueMax)
	case o.CleanupTimeout < 0:
		return o, fmt.Errorf("lock %s: option CleanupTimeout: %v is negative", path, o.CleanupTimeout)
	case o.Deadlock < 0:
		return o, fmt.Errorf("lock %s: option Deadlock: %v is negative", path, o.Deadlock)
	case o.Deadlock > 0 && o.Data != nil:
		return o, fmt.Errorf("lock %s: option Deadlock: a waiter is found by what its znode says, which option Data replaces", path)
	case o.Delay < 0 || o.Delay > DelayMax:
		return o, fmt.Errorf("lock %s: option Delay: %v, want 0 to %v", path, o.Delay, DelayMax)
	}
	o.Data, o.ACL, o.ParentACL = slices.Clone(o.Data), slices.Clone(o.ACL), slices.Clone(o.ParentACL) // the caller may use its slices again
	o.CleanupTimeout = cmp.Or(o.CleanupTimeout, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o, nil
}
