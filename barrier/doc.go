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
//     enough (Curator's issue 1290). That PATH/ready came while Enter waited is enough, since a member of kazoo's may have left by now.
//   - Lost answers are resolved, and a session that ends is replaced: an Enter that was under way enters again. The exception
//     is a Set after which it cannot be told whether another client has opened the barrier again: see there.
//   - An Enter that fails takes its znode away again.
//   - One double barrier serves round after round: Enter, Leave, Enter and so on, with members as fast and as slow as they are.
//   - A second Enter without a Leave between, and a Leave without an Enter, are errors that change nothing (ErrEntered,
//     ErrNotEntered).
//   - What was left behind when all members died does not open a double barrier.
//
// # Formats
//
// Those of Curator's DistributedBarrier and DistributedDoubleBarrier and of kazoo's Barrier and DoubleBarrier: a barrier
// is closed while its znode is there. The members of a double barrier are ephemeral znodes PATH/<32 hex digits>; PATH/ready
// says that all are there. Every child but that counts.
//
// The members of a round are the znodes that are older than the last write of PATH/ready. A member whose session ended when
// the barrier opened writes it again when it is back, if another one of the round is still there and no more znodes than the
// barrier has members. PATH/ready is deleted in one transaction with the znode of the last member, or by another client if that
// member has died.
//
// # Limits
//
// A member that dies while others wait to enter is missing until another one comes, and its znode counts until its session
// has ended; one that dies later has left. If the session of a member ends just when the barrier opens, the others may
// begin without it. It then takes part if it is back before the others have left, and otherwise waits for the next round.
//
// A client that comes while a round is on waits until that is over, and then for the next one. Curator lets its own clients
// in at once: they look only whether PATH/ready is there, and so enter alone if that was left behind. Clients of kazoo
// delete PATH/ready when the first one leaves, so beside them no client should come before all have left.
package barrier
