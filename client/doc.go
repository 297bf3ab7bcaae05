// Package client keeps one session with a ZooKeeper ensemble.
//
// One [Session] value is one ZooKeeper session, for ever. It finds a server, keeps its heartbeat going, moves to another server
// when a connection breaks, and when the ensemble says that the session is over, the value is over too: no request, watch or lock
// of one session ever continues under another. To go on, open a new one.
//
// # What an error means
//
// Every error of an operation is an [*OpError] that names the operation and the path, and errors.Is
// finds in it the [zk.Code] that the server answered. When an operation ends because its context does, errors.Is
// finds context.Canceled or context.DeadlineExceeded, and the context's cause if there is one. It does not find a [zk.Code]
// in the cause, because that is a server's answer to another request, as with an errgroup.
//
// A write whose answer was lost is neither done nor failed but unknown, and [MaybeApplied] says so: look behind [Session.AwaitWrites]
// before writing again. Writes are never repeated, but for those of EnsurePath, Put and DeleteAll, which may be. Reads have no such
// doubt, so the plain methods (Get, Children, …) repeat a read whose connection broke, until their context ends.
//
// # Order
//
// Requests go out in the order in which they were handed over, and answers come back in that order.
// A [Pipeline] hands over several at once: they leave in one write, with no other request between them.
// An event of a watch is delivered before the answer of any request that was processed after the change.
package client
