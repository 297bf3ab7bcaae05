// Package memnet is a network inside the process that tests can break.
//
// A Network has listeners with names and clients with labels. Its connections behave like TCP's:
// a byte stream each way with a bounded buffer, deadlines, half close. What tests come for is a
// Link, the way between a client and an address, which can be slowed, muted, made to lose bytes,
// cut, or made to refuse.
//
// Nothing here touches a socket: every wait is on a sync.Cond, and deadlines and latencies
// are timers of package time. So within a testing/synctest bubble a connection that waits counts
// as idle and virtual time moves on. Create the Network inside the bubble that uses it.
//
// It is a network of bytes. It knows nothing of the frames that travel in them.
package memnet
