// Package election makes one of several candidates the leader, and tells which one.
//
// # Leadership is a held lock
//
// An election is a directory in which candidates queue as for a lock of package lock. The holder of the lock leads. Everything that
// is true of a lock.Hold is true of a [Term]: it ends once, with a cause, before the ensemble can let another candidate lead; its
// Token grows from leader to leader; and no client can exclude that it is paused between looking at its term and writing somewhere.
// Candidates have the names of Curator's LeaderLatch, so Java and Go exclude each other on one path.
//
// # Work and hand-over
//
// Work that is done by [Term.Work], [Election.Lead] or [Run] has a context that ends with the term, and the
// next leader is let in only after it has returned:
//
//   - A leader that resigns keeps its znode until its work has returned, for Options.Grace at most.
//   - A leader that hears nothing from the ensemble any more is told to stop Options.Margin before the deadline of its lock.
//   - If another client has deleted the leader's znode or ended its session, another may lead before it hears of that;
//     then only the token protects.
//
// Work that goes on after the grace is reported as [ErrOverran]. There is no way to stop it but to end the process.
//
// # After a loss
//
// A session that has expired never comes back, and with it ends the Election. [Run] campaigns again under the next session of its
// Keeper, with a pause that grows when terms are short. A candidate whose znode was deleted joins the queue again. No candidate ever
// reacts to a change by deleting its node and making another one, so candidates cannot keep each other from ever having a leader.
package election
