// Package election makes one of several candidates the leader, and tells everybody who it is.
//
// # Leadership is a held lock
//
// An election is a directory in which candidates stand in line, as for a lock of package lock, and whoever
// has the lock leads. Everything that is true of a lock.Hold is true of a [Term]: it ends once, with a
// cause, before the ensemble can let somebody else lead; its Token grows from leader to leader; and no
// client can exclude that it is paused between looking at its term and writing somewhere. Candidates have
// the names of Curator's LeaderLatch, so Java and Go exclude each other on one path.
//
// # Work and hand-over
//
// Work that is done by [Term.Do], [Election.Lead] or [Run] has a context that ends with the term, and the
// next leader is let in only after it has returned:
//
//   - A leader that resigns keeps its znode until its work has returned, for Options.Grace at most.
//   - A leader that hears nothing from the ensemble any more is told to stop Options.Margin before its lock
//     could be given away.
//   - Only where the ensemble has ended the session, or somebody has deleted the znode, the news comes
//     late; then the token is what protects.
//
// Work that goes on after the grace is reported as [ErrOverran]. There is no way to stop it but to end the
// process.
//
// # After a loss
//
// A session that has expired never comes back, and with it ends the Election. [Run] opens another and
// campaigns again, with a pause that grows when terms are short. A candidate whose znode was deleted joins
// the line again. Nobody ever answers a surprise by deleting a node and making another, so candidates
// cannot chase each other.
package election
