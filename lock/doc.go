// Package lock makes distributed locks on a ZooKeeper session.
//
// # How a lock works
//
// A lock is a directory in ZooKeeper. A contender creates an ephemeral sequential znode there, its claim; the lowest number holds
// the lock. The others watch the claim ahead and their own, so that one release wakes one waiter. The znodes are named as Curator's
// InterProcessMutex and go-zookeeper's Lock name them, and all of these exclude each other on one path. A read/write lock and a
// semaphore are the same queue with other rules. An [Unfair] lock has no queue.
//
// Package inspect shows the holders of any of these locks, and the waiters of a queue. It asks a holder to give up, and breaks a lock.
//
// # What a hold is worth
//
// A [Hold] is a loan. It ends once, with a cause: released, session expired, own znode deleted, deadline passed, session closed,
// credentials refused. Work runs under [Hold.Context], which ends with it. The deadline counts from when the newest answered heartbeat,
// or request that proves as much, was sent. It is at most two thirds of the session timeout later. So it passes before the ensemble can
// give the lock to another contender, even if we no longer hear from it. What an answered heartbeat proves is up to Options.Vouch.
//
// No client can exclude that it is paused between looking at its hold and writing somewhere. A resource that
// must not accept a late write compares [Hold.Token], which grows from holder to holder.
//
// # Several locks
//
// An [All] takes several at once, all or none, in an order that cannot end in a deadlock. Where locks are
// taken under others in other orders, Options.Deadlock has a waiter look whether it waits for itself.
//
// # What an error means
//
// An error names the operation and the lock, and errors.Is finds in it what went wrong: [ErrBusy], [ErrLost] and so on.
// When a call ends because its context does, errors.Is finds context.Canceled or context.DeadlineExceeded, and the
// context's cause if there is one: under the context of a lost hold it finds [ErrLost]. It does not find a zk.Code in the
// cause, such as zk.ErrNoNode, because that is a server's answer to another request. [context.Cause] has the cause as it is.
//
// # Terms
//
//   - A claim is a contender's znode in a lock's queue. Its name says what is claimed, and ends in its number.
//   - An attempt takes one caller through the queue: join, wait, be granted.
//   - A grant is a claim of this process that holds the lock. All holds of the claim share it.
//   - A [Hold] is the caller's handle of a grant. A grant has several after re-entering.
//   - The queue is the claims of one lock in the order of their numbers, as a listing showed them.
//   - Rules say which claims a claim waits for. Each kind of lock has its own.
//   - A lease is the time for which a hold is safe without another answer from the servers.
//   - Vouching asks for heartbeats of a level, whose answers renew the lease.
//   - A release marker is a znode that a release creates and deletes in its transaction. It tells the next waiter that the claim
//     ahead was the holder's.
//   - A delay marker is a persistent znode beside a claim that may write, where Options.Delay is set. A release deletes it. One
//     whose claim is gone is an orphan: its hold was lost.
//   - Leftovers are znodes that an attempt, a lost hold or an unconfirmed release left. The cleaner deletes them.
//   - An undeleted claim is one that is back after its deletion, which the ensemble has lost. Its session deletes it again.
//   - The watchdog is the goroutine that looks after all grants of a session, and ends those that are lost.
//   - The gate of Curator's semaphore is the lock that a contender holds on its way into the queue.
//   - A fencing token is a number that grows from holder to holder, so that a resource can refuse a late one.
//
// # Where to look first
//
// The queue is lock/internal/queue/queue.go, and its rules are in rules.go beside it. The way to a hold is lock.go (what a caller
// sees), fairlock.go (what locks with a queue have in common), attempt.go (create, list, decide) and wait.go; heldchain.go is where a
// lock is asked for under its own hold. A hold.go is the handle of a grant.go, which ends because of what leasecheck.go, watchdog.go and
// release.go find, with cleaner.go after an error. The rule of the deadline is package internal/lease at the root of the module;
// client/lease.go keeps the session's lease by it. "make walk" lists the files that a free mutex goes through.
//
// # What is left behind
//
// No claim; where a lock has a delay (Options.Delay), a delay marker for the next holder after a hold that was lost. A directory
// stays, unless the server removes containers; that of a semaphore does. When the answer to a request was lost, its outcome is looked up
// after the reconnect. Abandoned claims are deleted in the background, at the latest when the session ends.
package lock
