package lock

import (
	"context"
	"strings"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An ensemble may lose a transaction that it has acknowledged: three servers of ZooKeeper 3.8.0 did so when leaders were killed
// (the family of ZOOKEEPER-4643, 4646, 4685, 4712 and 4785). If that transaction deleted a claim, the claim is there again. It
// blocks its queue for as long as the session that made it lives, and no attempt, hold or cleaner knows of it: it is undeleted. A
// session removes undeleted claims of its own when an attempt of its waits behind them. It takes no others: the id says that this process
// made the claim, and the server that this session owns it.

// isUndeleted reports whether the id was made by this process, which no longer knows it. A listing that was on its way while a claim was
// removed shows one, too: then the cleaner finds the node gone.
func isUndeleted(id queue.ID) bool {
	return strings.HasPrefix(string(id), processDigits()) && !attemptIDs.has(id)
}

// removeUndeleted has the cleaner remove the undeleted ones among the claims ahead.
func (f *fairLock) removeUndeleted(ahead []queue.Claim) {
	for _, claim := range ahead {
		if id, ok := queue.IDOf(claim.Name); ok && isUndeleted(id) {
			id = queue.ID(strings.Clone(string(id))) // it would keep the whole listing
			f.cleaner.add(ownNodes{id: id, nodes: []string{zk.Join(f.dir, claim.Name)}, undeleted: true})
		}
	}
}

// checkUndeleted takes an undeleted claim out of left, so that it is not deleted, unless the session owns it.
func (f *fairLock) checkUndeleted(ctx context.Context, left *ownNodes) error {
	if !left.undeleted {
		return nil
	}
	stat, ok, err := f.s.Exists(ctx, left.nodes[0])
	if err != nil {
		return err
	}
	left.undeleted = false
	if !ok || stat.EphemeralOwner != f.s.ID() {
		left.nodes = nil
		return nil
	}
	f.opt.Logger.Warn("removing a claim of ours that had been removed before: the ensemble has lost a transaction",
		"lock", f.dir, "node", left.nodes[0])
	return nil
}
