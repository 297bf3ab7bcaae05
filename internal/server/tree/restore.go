package tree

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Restorer builds a tree from a snapshot: its table of lists, and then its znodes.
type Restorer struct {
	tree  *Tree
	slots map[int64]int32 // by the snapshot's ids

	// The last znode added, or one above it. A snapshot is a walk down and up again, so the next one's parent is one of these.
	at     ref
	atPath string
}

// sealed is the list of a znode whose snapshot does not hold its list, because the znode or the
// list came while the snapshot was written: only super may do anything until the log, which
// has the transaction that made the list, sets it right.
var sealed = []zk.ACL{{Perms: 0, Scheme: SchemeWorld, ID: "anyone"}}

// NewRestorer begins a tree.
func NewRestorer(digests bool) *Restorer {
	return &Restorer{tree: empty(digests), slots: map[int64]int32{}}
}

// AddACL adds a list of the table.
func (r *Restorer) AddACL(e txn.ACLEntry) error {
	if _, ok := r.slots[e.ID]; ok || e.ID == txn.OpenACLID {
		return fmt.Errorf("snapshot: list %d of the ACL table comes twice or is reserved", e.ID)
	}
	r.slots[e.ID] = r.tree.lists.intern(e.ACL)
	return nil
}

// Add adds a znode. Its parent must have come before, and the root first of all. The data is copied.
func (r *Restorer) Add(n *txn.Node) error {
	t := r.tree
	path, parent := n.Path, ref(0)
	if path == "" {
		if t.count != 0 {
			return errors.New("snapshot: the root comes twice or not first")
		}
		path = "/"
	} else {
		var err error
		if parent, err = r.place(path); err != nil {
			return err
		}
	}
	slot, ok := r.slots[n.ACLID]
	switch {
	case n.ACLID == txn.OpenACLID:
		slot = slotOpen
		t.lists.use(slot)
	case ok:
		t.lists.use(slot)
	default:
		slot = t.lists.intern(sealed)
	}
	r.at, r.atPath = t.insert(parent, path, n.Data, slot, &attrs{
		czxid: n.Czxid, mzxid: n.Mzxid, pzxid: n.Pzxid, ctime: n.Ctime, mtime: n.Mtime,
		version: n.Version, cversion: n.Cversion, aversion: n.Aversion, owner: n.Owner,
	}), path
	return nil
}

// place returns the parent of a znode other than the root that is to be added at path.
func (r *Restorer) place(path string) (parent ref, err error) {
	if r.tree.count == 0 {
		return 0, fmt.Errorf("snapshot: znode %q comes before the root", path)
	}
	name := zk.Base(path)
	if path[0] != '/' || name == "" {
		return 0, fmt.Errorf("snapshot: znode path %q is malformed", path)
	}
	dirPath := zk.Parent(path)
	for r.at != 0 && r.atPath != dirPath {
		r.at, r.atPath = r.tree.nodes.At(r.at).parent, zk.Parent(r.atPath)
	}
	if r.at == 0 { // the snapshot has another order
		r.at, r.atPath = r.tree.find(dirPath), dirPath
	}
	switch {
	case r.at == 0:
		return 0, fmt.Errorf("snapshot: znode %q comes before its parent", path)
	case r.tree.child(r.at, name) != 0:
		return 0, fmt.Errorf("snapshot: znode %q comes twice", path)
	}
	return r.at, nil
}

// Finish returns the tree as of transaction zxid, a new one if it has no znodes; the Restorer is used up. Built-in
// znodes that an old release did not have are added. The log is to be replayed over the tree, and then DropOrphans and
// Recount called.
func (r *Restorer) Finish(zxid int64) *Tree {
	t := r.tree
	if t.count == 0 {
		t = New(t.digests)
		t.recovering = true
		return t
	}
	for _, slot := range r.slots {
		t.lists.release(slot)
	}
	t.addBuiltIn()
	t.findQuotas()
	t.lastZxid, t.recovering = zxid, true
	r.tree, r.slots = nil, nil
	return t
}

// DropOrphans deletes the ephemerals of sessions that are not known and returns their paths. It
// belongs at the end of a recovery, when the log has said which sessions live.
func (t *Tree) DropOrphans(known func(session int64) bool) []string {
	var dropped []string
	var out Outcome
	for _, session := range t.EphemeralSessions() {
		if known(session) {
			continue
		}
		for _, path := range t.Ephemerals(session, "") {
			t.applyDelete(path, t.lastZxid, &out)
			dropped = append(dropped, path)
		}
	}
	return dropped
}
