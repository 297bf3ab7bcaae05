// Package load builds the tree and the sessions from what a data directory has kept. The server begins with it, and
// commands that judge a directory see with it what a server would.
package load

import (
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Loader is the store.Loader that builds them. Call Finish when the store has given it everything.
type Loader struct {
	Tree     *tree.Tree
	Sessions map[int64]int32 // timeouts in milliseconds

	digests  bool
	restorer *tree.Restorer
	outcome  tree.Outcome
}

// New returns a Loader whose tree keeps its digest, or does not.
func New(digests bool) *Loader { return &Loader{digests: digests} }

// Reset begins an attempt.
func (l *Loader) Reset() {
	*l = Loader{digests: l.digests, restorer: tree.NewRestorer(l.digests), Sessions: make(map[int64]int32)}
}

// Session adds a session of the snapshot.
func (l *Loader) Session(e txn.SessionEntry) error {
	l.Sessions[e.ID] = e.Timeout
	return nil
}

// ACL adds a list of the snapshot's table.
func (l *Loader) ACL(e txn.ACLEntry) error { return l.restorer.AddACL(e) }

// Node adds a znode of the snapshot.
func (l *Loader) Node(n txn.Node) error { return l.restorer.Add(&n) }

// EndSnapshot makes the tree.
func (l *Loader) EndSnapshot(zxid int64, _ *store.SnapshotDigest) error {
	l.Tree = l.restorer.Finish(zxid)
	return nil
}

// Apply applies a transaction of a log.
func (l *Loader) Apply(t *txn.Txn, _ *txn.Digest) error {
	switch t.Type {
	case wire.OpCreateSession:
		l.Sessions[t.Session] = t.Timeout
	case wire.OpCloseSession:
		delete(l.Sessions, t.Session)
	}
	l.Tree.Apply(t, &l.outcome)
	return nil
}

// Finish deletes the ephemerals of sessions that are over, counts what quotas limit, and returns the paths of what it
// deleted.
func (l *Loader) Finish() (orphans []string) {
	orphans = l.Tree.DropOrphans(func(id int64) bool {
		_, ok := l.Sessions[id]
		return ok
	})
	l.Tree.Recount()
	return orphans
}
