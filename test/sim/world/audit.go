package world

import (
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// An audit compares what holders were told with what the server's logs say in the end.
type audit struct {
	mu     sync.Mutex
	claims []auditClaim // guarded by mu
}

// An auditClaim is what a process was told about a node, or about its session.
type auditClaim struct {
	who     int
	node    string
	session int64 // instead of a node
	token   int64 // of its holder
	goneBy  int64 // zxid by which it was gone; 0: this is about its creation, by the token
}

func (a *audit) add(c auditClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims = append(a.claims, c)
}

// check reads the logs.
func (a *audit) check(w *World) {
	created, deleted := map[string][]int64{}, map[string][]int64{}
	closed := map[int64]int64{} // zxid, by session
	var visit func(t *txn.Txn, c *txn.Change)
	visit = func(t *txn.Txn, c *txn.Change) {
		switch c.Type {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer:
			created[c.Path] = append(created[c.Path], t.Zxid)
		case wire.OpDelete, wire.OpDeleteContainer:
			deleted[c.Path] = append(deleted[c.Path], t.Zxid)
		case wire.OpCloseSession:
			closed[t.Session] = t.Zxid
			for _, p := range c.Paths {
				deleted[p] = append(deleted[p], t.Zxid)
			}
		case wire.OpMulti:
			for i := range c.Subs {
				if !c.Failed() {
					visit(t, &c.Subs[i])
				}
			}
		}
	}
	clear(w.keeper.disk.read)
	txns := w.keeper.disk.newTxns()
	for i := range txns {
		visit(&txns[i], &txns[i].Change)
	}
	for _, c := range a.claims {
		if c.session != 0 {
			if zxid := closed[c.session]; zxid == 0 || zxid > c.goneBy {
				w.violated("F23: p%d was told by %#x that its session %#x is closed, the log says by %#x", c.who, c.goneBy, c.session, zxid)
			}
			continue
		}
		if c.goneBy == 0 && !slices.Contains(created[c.node], c.token) {
			w.violated("I6: p%d held %s with token %#x, the log says it was created by %#x", c.who, c.node, c.token, created[c.node])
		}
		gone := func(zxid int64) bool { return c.token <= zxid && zxid <= c.goneBy }
		if c.goneBy != 0 && !slices.ContainsFunc(deleted[c.node], gone) {
			w.violated("F23: p%d was told by %#x that %s is gone, the log says it went by %#x", c.who, c.goneBy, c.node, deleted[c.node])
		}
	}
}
