// Package lock makes distributed locks on a ZooKeeper session.
//
// # How a lock works
//
// A lock is a directory in ZooKeeper. Whoever wants it creates an ephemeral sequential znode there, its
// place in line; the lowest number holds the lock. Everybody else watches the one ahead and its own znode,
// so that one release wakes one waiter. The znodes are named as Curator's InterProcessMutex and
// go-zookeeper's Lock name them, and all of these exclude each other on one path. A read/write lock and a
// semaphore are the same line with other rules of whom one waits for. An [Unfair] lock has no line.
//
// Who holds any of these locks and who waits is shown by [Look] and, as it changes, by [Watch]. A holder can
// be asked to give up, by [Revoke], and be put out, by [Break].
//
// # What a hold is worth
//
// A [Hold] is a loan. It ends once, with a cause: released, session expired, own znode deleted by
// somebody, deadline passed, session closed. Work runs under [Hold.Context], which ends with it.
// The deadline is two thirds of the session timeout after the last heartbeat that was answered was
// sent, so it passes before the ensemble can give the lock to somebody else, even if we no longer
// hear from it. What an answered heartbeat proves is up to Options.Vouch.
//
// No client can exclude that it is paused between looking at its hold and writing somewhere. Whoever
// must not accept a late write compares [Hold.Token], which grows from holder to holder.
//
// # Several locks
//
// [NewAll] takes several at once, all or none, in an order that cannot end in a deadlock. Where locks are
// taken under others in other orders, Options.Deadlock has a waiter look whether it waits for itself.
//
// # What an error means
//
// An error names the operation and the lock, and errors.Is finds in it what went wrong: [ErrBusy], [ErrLost] and so on.
// When a call ends because its context does, errors.Is finds context.Canceled or context.DeadlineExceeded, and the
// context's cause if there is one: under the context of a lost hold it finds [ErrLost]. It does not find a zk.Code in the
// cause, such as zk.ErrNoNode, because that is a server's answer to another request. [context.Cause] has the cause as it is.
//
// # What is left behind
//
// Nothing, except where a lock has a delay (Options.Delay) and a hold of it was lost: then one znode, its
// delay marker, waits for the next holder. When the answer to a request was lost, what became of it is looked up
// after the reconnect. What a caller gives up, because its context ends or an error occurs, is removed in
// the background for as long as that takes; and with the session, at the latest, all of its znodes go.
package lock
