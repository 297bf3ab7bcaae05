package lock

import (
	"context"
	"strings"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An ensemble may lose a transaction that it has acknowledged: three servers of ZooKeeper 3.8.0 did so when leaders were killed
// (the family of ZOOKEEPER-4643, 4646, 4685, 4712 and 4785). If that transaction deleted a claim, the claim is there again. It
// blocks its queue for as long as the session that made it lives, and no attempt, hold or cleaner knows of it: it is a stray. A
// session removes strays of its own when an attempt of its waits behind them. It takes no others: the id says that this process
// made the claim, and the server that this session owns it.

// isStray reports whether the id was made by this process, which no longer knows it. A listing that was on its way while a claim was
// removed shows one, too: then the cleaner finds the node gone.
func isStray(id queue.ID) bool { return ofThisProcess(id) && !attemptIDs.has(id) }

// removeStrays has the cleaner remove the strays among the claims ahead that the session owns. The id is in use meanwhile, so that of
// many waiters one looks. A look that fails is made again at the next listing.
func (f *fairLock) removeStrays(ahead []queue.Claim) {
	for _, claim := range ahead {
		id, ok := queue.IDOf(claim.Name)
		if !ok || !isStray(id) {
			continue
		}
		id = queue.ID(strings.Clone(string(id))) // it would keep the whole listing
		node := zk.Join(f.dir, claim.Name)
		attemptIDs.add(id)
		looks := f.s.Go(func(ctx context.Context) {
			defer attemptIDs.drop(id)
			stat, ok, err := f.s.Exists(ctx, node)
			if err == nil && ok && stat.EphemeralOwner == f.s.ID() {
				f.opt.Logger.Warn("removing a claim of ours that had been removed before: the ensemble has lost a transaction",
					"lock", f.dir, "node", node)
				f.cleaner.add(ownNodes{id: id, nodes: []string{node}})
			}
		})
		if !looks {
			attemptIDs.drop(id)
		}
	}
}
