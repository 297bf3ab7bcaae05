// Package barrier makes clients wait for each other: a Barrier is closed by one client and opened by one, a Double lets a
// number of clients begin together and end together.
//
//	d, err := barrier.NewDouble(keeper, "/jobs/nightly", 5, barrier.Options{})
//	err = d.Enter(ctx) // returns once five have entered
//	…
//	err = d.Leave(ctx) // returns once all of them have left
//
// # Guarantees
//
//   - Wait and Enter return nil only after they have seen at the server that the barrier is open; being woken is not
//     enough (Curator's issue 1290).
//   - Lost answers are resolved, and a session that ends is replaced: an Enter that was under way enters again.
//   - An Enter that fails takes its znode away again.
//
// # Formats
//
// Those of Curator's DistributedBarrier and DistributedDoubleBarrier and of kazoo's Barrier and DoubleBarrier: a barrier
// is closed while its znode is there. The members of a double barrier are ephemeral znodes PATH/<32 hex digits>; PATH/ready
// says that all are there. Every child but that counts.
//
// # Limits
//
// A double barrier is for one round at a time: a member that has left may enter the next round once all have left. A member
// that dies while others wait to enter is missing until another one comes; one that dies later has left. If the session of a
// member ends just when the barrier opens, the others may begin without it, and its Enter waits until its context ends.
package barrier
