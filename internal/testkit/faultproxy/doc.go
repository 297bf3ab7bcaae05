// Package faultproxy stands between a client and a server of ZooKeeper's protocol, and breaks
// things between them on purpose: at the frame, not at the byte, so that a test can say "let the
// server apply the create, then lose the connection before the answer arrives".
//
// A Proxy carries connections made to a listener (Serve) or through its Dial; both work on any
// net.Conn, so the same test runs over real sockets and, in virtual time, over an in-memory network
// in a testing/synctest bubble. Every goroutine of a proxy blocks only on channels, timers and the
// connections it was given, and is over when Close returns.
//
// Faults come in two kinds. A Rule is for single requests, chosen by a Match when they arrive from
// the client: CutBefore, CutAfter, Hold, and the hooks Before and After. A Flow is for
// everything that travels in one direction: Pass, Stall. Refuse turns new connections away.
//
// What passes is written down (Entry). A test takes a Mark, does something, and asks what went over
// the wire Since: how many requests of each kind, in how many writes.
//
// The proxy reads both ways without ever waiting for the other side, as a kernel does, up to
// queueChunks reads in each direction; a client's write therefore does not block because a reply is
// being held.
package faultproxy
