package lock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Options configure a lock. The zero value of every field means its default.
type Options struct {
	// Label is shown to whoever asks who holds the lock or waits for it.
	Label string

	// PID is the process that they are shown, for a process that takes the lock on behalf of another.
	// Default: the one that we are.
	PID int

	// Data is what the nodes say, instead of an Owner; for those who share a lock with clients that
	// write other things.
	Data []byte

	// Vouch says how much must be known of the session for a hold to go on. Default VouchSync.
	Vouch client.Vouch

	// ACL is that of the nodes in line; default: anybody may do anything.
	ACL []zk.ACL

	// ParentACL is that of directories that have to be made. Default: anybody may do anything.
	ParentACL []zk.ACL

	// Requeue makes a waiter whose node was deleted by somebody go to the end of the line instead of
	// failing with ErrPlaceLost.
	Requeue bool

	// OneKind refuses, with a *KindError, to stand behind contenders of another kind, such as those of a semaphore
	// behind those of a mutex: neither would wait for the other. Those of a mutex and of a read/write lock are of
	// one kind. An unfair lock is refused without it. Default: the others are passed over.
	OneKind bool

	// Delay, if not zero, protects what is written under the lock from writes of the last holder that are still
	// on their way: after a hold that ended without a release, because its session ended, its node was
	// deleted or its deadline passed, whoever comes next is granted only when that long has passed since it
	// noticed. After a release nobody waits. The holder asks for it and the next one keeps to it, so it works
	// among those that set it; others come in at once, and leave nothing to wait for. If the one who waits
	// gives up or dies, the next one begins anew, unless it is of the same process and lock.
	//
	// It costs one round trip with one write for each grant, for a znode that says who holds the lock, and a
	// second deletion with the release. If the lock is not wanted again after such an end, that znode stays,
	// and with it the directory; one for all readers that ended so, as long as readers alone want it. Tokens
	// protect better, where they can be checked. At most DelayMax; not for semaphores and unfair locks. Default:
	// no delay.
	Delay time.Duration

	// Deadlock, if not zero, makes a waiter that works under other holds look whether it waits in a circle of
	// contenders that wait for each other: for the first time after that long, and then ever more rarely, up to
	// sixteen times as long. If it still is, as long again later, and is the youngest of those in the circle that
	// look, it gives up with a *DeadlockError; see there. A look reads the lines that the circle may go through.
	// Whoever holds nothing while it waits does not look, for others do in every circle. Default: never.
	Deadlock time.Duration

	// QueueMax refuses to wait, with ErrQueueFull, behind that many contenders. Default: no limit.
	QueueMax int

	// CleanupTimeout bounds how long Do waits for its release to be confirmed. Default 5 s.
	CleanupTimeout time.Duration

	// Waiting, if not nil, is called with the place in line whenever it is looked up: when the wait
	// begins, and again when a predecessor has gone. It runs on the goroutine that waits.
	Waiting func(Place)

	// Logger gets a line for what an operator should know. Default: silent.
	Logger *slog.Logger
}

// A Place is where a waiter stands.
type Place struct {
	Ahead int    // contenders in front, the holder included; 0 while a delay is waited for
	Node  string // our node's path
	First string // path of the holder's node

	Delay time.Duration // what is left of the delay after the last holder (Options.Delay)
}

const defaultCleanupTimeout = 5 * time.Second

// withDefaults fills in what was left out and refuses what makes no sense, for a lock at path.
func (o Options) withDefaults(path string) (Options, error) {
	if err := zk.ValidatePath(path); err != nil {
		return o, err
	}
	switch {
	case path == "/":
		return o, &zk.PathError{Path: path, Reason: "is the root, which cannot be a lock"}
	case !o.Vouch.Valid():
		return o, fmt.Errorf("lock %s: option Vouch: %d is not a level", path, int(o.Vouch))
	case o.QueueMax < 0 || o.CleanupTimeout < 0 || o.Deadlock < 0:
		return o, fmt.Errorf("lock %s: a limit is negative", path)
	case o.Delay < 0 || o.Delay > DelayMax:
		return o, fmt.Errorf("lock %s: option Delay: %v, want 0 to %v", path, o.Delay, DelayMax)
	}
	if o.CleanupTimeout == 0 {
		o.CleanupTimeout = defaultCleanupTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// withoutDelay refuses a delay, for locks that have none.
func (o Options) withoutDelay(path string) error {
	if o.Delay != 0 {
		return fmt.Errorf("lock %s: option Delay: a lock of this kind has none", path)
	}
	return nil
}
