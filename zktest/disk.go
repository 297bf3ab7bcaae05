package zktest

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/zk"
)

// dataDir is where the server's files are on its disk.
const dataDir = "/data"

// readDisk returns the znodes, in no particular order, that a server would find after a crash at this
// moment. The disk is not touched.
func readDisk(disk *vfs.Mem) (Tree, error) {
	var r reader
	s, err := store.Open(disk.CrashClone(nil), store.Options{DataDir: dataDir}, &r)
	if err != nil {
		return nil, fmt.Errorf("read the tree from the disk: %w", err)
	}
	if err := s.Close(); err != nil {
		return nil, fmt.Errorf("read the tree from the disk: %w", err)
	}
	return r.nodes(), nil
}

// A reader is the store.Loader that builds the tree and nothing else.
type reader struct {
	restorer *tree.Restorer
	tree     *tree.Tree
	outcome  tree.Outcome
}

func (r *reader) Reset() { *r = reader{restorer: tree.NewRestorer(false)} }

func (r *reader) Session(txn.SessionEntry) error { return nil }

func (r *reader) ACL(e txn.ACLEntry) error { return r.restorer.AddACL(e) }

func (r *reader) Node(n txn.Node) error { return r.restorer.Add(&n) }

func (r *reader) EndSnapshot(zxid int64, _ *store.SnapshotDigest) error {
	r.tree = r.restorer.Finish(zxid)
	return nil
}

func (r *reader) Apply(t *txn.Txn, _ *txn.Digest) error {
	r.tree.Apply(t, &r.outcome)
	return nil
}

// nodes returns the nodes of the tree.
func (r *reader) nodes() Tree {
	cursor := r.tree.Snapshot()
	lists := map[int64][]zk.ACL{txn.OpenACLID: zk.OpenACL()}
	for _, e := range cursor.ACLs() {
		lists[e.ID] = e.ACL
	}
	t := make(Tree, 0, r.tree.Count())
	for _, n := range cursor.Next(nil, r.tree.Count()) {
		path := n.Path
		if path == "" {
			path = "/"
		}
		stat, _ := r.tree.Lookup(path)
		t = append(t, Node{Path: path, Data: n.Data, Stat: stat, ACL: lists[n.ACLID], Mode: modeOf(n.Owner)})
	}
	return t
}

// modeOf returns the mode that the stored owner of a znode stands for.
func modeOf(owner int64) zk.Mode {
	switch {
	case owner == 0:
		return zk.Persistent
	case owner == txn.OwnerContainer:
		return zk.Container
	case txn.OwnerSession(owner) == 0:
		return zk.PersistentTTL
	}
	return zk.Ephemeral
}
