// Package zktest is a ZooKeeper server inside the process, for tests: what httptest is for HTTP. It
// starts in a line and under a millisecond, needs no port, no disk and no JVM, and breaks on demand.
//
//	func TestWorker(t *testing.T) {
//		srv := zktest.New(t, zktest.Options{})
//		s := srv.Session(t, "worker") // a client.Session
//		…
//		srv.Link("worker").Expire()
//		fmt.Print(srv.Tree("/"))
//	}
//
// The server is the one of this module, so it is not a mock: sessions, watches, ACLs, sequence numbers
// and errors are those of Apache ZooKeeper 3.9, standalone. It forgets everything when it is closed.
//
// # Clients
//
// There are three ways to the server, and all can be used at once:
//
//   - [Server.Session] opens a session of package client, and closes it with the test.
//   - [Server.Dial] is for code that takes a dial function, with [Servers], or any other server list.
//   - [Server.Addr] is for all other clients: host:port on the loopback interface.
//
// Every client comes through a [Link], which has a label. Give a client a link of its own and it can
// be broken alone: Server.Session does, and [Link.Dial] and [Link.Addr] are for the rest. The label is
// also the name under which [Server.Tree] shows which session owns an ephemeral znode.
//
// # Faults
//
//	Link.Expire      the session ends, and its ephemeral znodes with it
//	Link.Cut         the connection breaks; the client may come back at once
//	Link.Refuse      the connection breaks, and the client cannot come back until Heal
//	Link.Freeze      nothing arrives any more and neither side is told, until Heal
//	Link.LoseAnswer  the next write is carried out, but its answer is lost
//	Server.Restart   power fails and comes back: what was acknowledged is there, sessions too
//	Server.Crash     power fails; Restart brings it back
//
// # Time
//
// Tests about timeouts belong in a bubble of package testing/synctest, where time is virtual: it
// passes when all goroutines in the bubble wait for something, and then it passes at once. Everything in
// this package that is in memory waits in a way that synctest understands, and so do packages client
// and lock, and other ZooKeeper clients that take a dial function. To advance time is to sleep:
//
//	synctest.Test(t, func(t *testing.T) {
//		srv := zktest.New(t, zktest.Options{})     // inside the bubble
//		worker := srv.Session(t, "worker")
//		startWorking(worker)                       // creates /app/leader, an ephemeral znode
//
//		srv.Link("worker").Freeze()                // as if the process were suspended
//		time.Sleep(worker.Timeout() + srv.TickTime()) // takes no time at all
//		synctest.Wait()                            // lets the others act on this very moment
//		if len(srv.Tree("/app/leader")) > 0 {
//			t.Error("there still is a leader")
//		}
//	})
//
// The rules are synctest's: make the server, its clients and everything that they share inside the
// bubble, and close what you open, because a bubble fails its test if a goroutine is left. What belongs
// to the server and to [Server.Session] goes by itself. Sockets know no virtual time, so [Server.Addr]
// is for tests in real time; make the tick short there, or use [Link.Expire] instead of waiting. A
// session that code under test opens itself also measures real time, and may lose its holds if a bubble
// computes for longer than the session timeout; those of [Server.Session] and [Server.Keeper] do not.
// Time is exact: a session expires at the first multiple of the tick, counted from the server's start,
// that is later than its timeout after the last that was heard of it.
//
// # Limits
//
// It is one server, not an ensemble: what happens when a leader is elected cannot be tested here. A
// client's process cannot be frozen, only its network: the client's own clock goes on. TLS is not
// offered. All data is in memory, and what passes through the links is noted there as well.
package zktest
