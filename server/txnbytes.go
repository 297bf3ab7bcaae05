package server

import (
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
)

// txnBytes is what a transaction takes in the log, or a little more.
func txnBytes(t *txn.Txn) int {
	const header, digest = 32, 12
	return header + digest + changeBytes(&t.Change)
}

func changeBytes(c *txn.Change) int {
	n := 40 + len(c.Path) + len(c.Data)
	for i := range c.ACL {
		n += 12 + len(c.ACL[i].Scheme) + len(c.ACL[i].ID)
	}
	for _, p := range c.Paths {
		n += 4 + len(p)
	}
	for i := range c.Subs {
		n += changeBytes(&c.Subs[i])
	}
	return n
}

// completePaths makes sure that the transaction that closes a session lists the session's ephemerals, also if there are
// none: without a list, ZooKeeper would take the digest behind it for the list. A list that is too long for the log is
// left out, and then the digest must be left out too. Without both, everything that the session owns is deleted, now and
// in every replay. This concerns only sessions whose ephemerals another server let grow beyond ephemeralBytesMax.
func completePaths(tx *txn.Txn) (leftOut bool) {
	if tx.Paths == nil {
		tx.Paths = []string{}
	}
	if txnBytes(tx) > store.TxnBytesMax {
		tx.Paths = nil
	}
	return tx.Paths == nil
}
