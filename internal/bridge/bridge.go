// Package bridge has what packages of this module do with each other's values and programs cannot. The packages that own the
// values provide the functions when they are initialized, so none of this is part of their public face. Values cross the bridge
// as any, because this package imports none of theirs.
package bridge

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
)

// A Session is what package lock does with a *client.Session besides what its methods offer. Levels are those of client.Vouch.
type Session interface {
	// Vouch adds more, 1 or -1, to the number of users of heartbeats of that level. While there is one, heartbeats are at most a
	// sixth of the granted session timeout apart. Ordinary requests whose answers prove as much count as heartbeats. A
	// level that is not valid is taken for client.VouchWrite.
	Vouch(level, more int)

	// Lease returns the session's lease at a level: until its end the ensemble does not free what the session holds. Package
	// internal/lease has the rule.
	Lease(level int) Lease

	// Listen waits until one of watches, a []*client.Watch, has fired, and reads what the server sends on the caller's
	// goroutine meanwhile, which spares the event the way from one goroutine to another. It may return at any time without
	// that, and does at once if another goroutine reads: so look what has happened, and wait for the channels of Done if
	// nothing has. It returns when ctx, the connection or the session ends. Watches that are nil are left out.
	Listen(ctx context.Context, watches any)

	// RunWatchdog runs f, which ends the holds of the session's locks, on a goroutine of its own. f has to return soon after the
	// session's Done is closed, and must call nothing that may block: Close asks the ensemble to free the locks after that.
	// RunWatchdog reports false, and runs nothing, if Done is closed.
	RunWatchdog(f func()) bool

	// Tell runs f, which calls functions of the user's, on a goroutine of its own. Close waits for it a moment and no longer: f
	// may call Close, and take its time.
	Tell(f func())

	// CutOff adds to err, by which something has ended, why there is no connection, if there is none.
	CutOff(err error) error
}

// A Lease is a session's lease at a level, at one moment.
type Lease struct {
	// At is that moment, by a clock that counts the time for which the machine was suspended.
	At clock.Instant

	// Age is how long ago the newest proof was sent: the server that answered has heard from the session since then. It is longer
	// than any timeout if the session is over or being closed.
	Age time.Duration

	// Remaining is how long the lease lasts without another proof; 0 or less once it is over.
	Remaining time.Duration

	// Number tells leases apart. An answer that comes after the end of a lease begins another one and does not prolong it:
	// whatever relied on the first is over.
	Number uint64

	// ReadyIn is how long to wait before another proof makes a lease worth beginning a hold on; mostly 0.
	ReadyIn time.Duration
}

// Package client provides these.
var (
	// Of returns the other side of a *client.Session.
	Of func(session any) Session

	// Join has the Close of a *client.Keeper wait for the caller until it calls leave, within the limits of that Close. The
	// context it returns ends with ctx and with the Keeper.
	Join func(keeper any, ctx context.Context) (joined context.Context, leave func(), err error)

	// Notify puts a token into told when a *client.Watch has fired or a *client.Pending is completed, at once if it is already.
	// If told is full it puts none, so a channel with room for one token serves for any number of sources. A source tells one
	// channel, the last one. A watch that is cancelled or was never set tells nothing.
	Notify func(source any, told chan<- struct{})

	// Conn returns the number of the connection on which a *client.Watch was set, or on which it was set again after a
	// reconnect; 0 if it is not set. Of a *client.Pending that is completed, it is the connection on which the answer came: two
	// answers with the same number came without a break between them. It is 0 if none came.
	Conn func(source any) uint64

	// ServerPath returns the servers' name for a path of a *client.Session, with the chroot.
	ServerPath func(session any, path string) string

	// Zxid returns the newest transaction that a *client.Session has seen in an answer.
	Zxid func(session any) int64

	// Sent returns when the request of a *client.Pending that is completed was sent, by the clock of Lease.At; the zero Instant if
	// it never was.
	Sent func(pending any) clock.Instant
)

// Package lock provides these.
var (
	makeLatch  func(session any, path string, options any) (latch any, err error)
	candidates func(names []string) []string
	onBehalf   func(options any, pid int, user string, under []string)

	// IsLoss reports whether an error says that a lock was lost.
	IsLoss = func(error) bool { return false }

	// SharedHold says what a *lock.Hold is whose lock has other holders at the same time, so that its token does not order them:
	// "a permit of a semaphore", "a read lock". It is empty for any other value.
	SharedHold = func(hold any) string { return "" }
)

// ProvideLocks is called by package lock.
func ProvideLocks(latch func(session any, path string, options any) (any, error), names func([]string) []string, behalf func(options any, pid int, user string, under []string)) {
	makeLatch, candidates, onBehalf = latch, names, behalf
}

// onDisk is provided by package server.
var onDisk func(options any, disk any)

// ProvideServers is called by package server.
func ProvideServers(disk func(options any, disk any)) { onDisk = disk }

// OnDisk returns server.Options for a server whose files are on a disk, a vfs.FS, other than the operating system's.
func OnDisk[Options any](options Options, disk any) Options {
	onDisk(&options, disk)
	return options
}

// NewLatch returns the lock under an election: a mutex whose claims have the names of Curator's LeaderLatch, so that candidates
// of both exclude each other on one path. The session is a *client.Session, options are lock.Options, and L is lock.Locker. It
// does not re-enter: a leader that asks again is one more candidate.
func NewLatch[L any](session any, path string, options any) (latch L, err error) {
	made, err := makeLatch(session, path, options)
	if err != nil {
		return latch, err
	}
	return made.(L), nil
}

// Candidates returns those of names, the children of a directory, that are places in a latch's queue, in order: the first one
// has the latch.
func Candidates(names []string) []string { return candidates(names) }

// OnBehalf returns lock.Options for a process that takes a lock on behalf of another, whose process id is stored in the znode in
// place of its own, with the name of its user; 0 means its own. under are paths of znodes of holds (Hold.Node) that the contender
// works under although its context does not derive from theirs, because another process has them and waits for this one. They count
// for finding deadlocks, behind those of the context, and for nothing else.
func OnBehalf[Options any](options Options, pid int, user string, under []string) Options {
	onBehalf(&options, pid, user, under)
	return options
}
