package tree

import "github.com/lockkeeper/lockkeeper/internal/server/txn"

// A Cursor walks the tree for a snapshot, a stretch at a time, while the tree may change between
// the stretches. What it gives is fuzzy, as ZooKeeper's own snapshots are: replaying all
// transactions after Zxid over it gives the tree that the log describes. Guarantees:
//  1. the root comes first, with path "", and parents come before their children;
//  2. a znode that was there at the start and still is when the cursor ends has come exactly once;
//  3. no znode refers to a list that ACLs lacks.
//
// The table of lists stands before the nodes, so that a list made while the walk goes on cannot be
// in it. A znode that has one and is itself younger than the walk is left out, with all below it:
// the log creates it. An older znode goes out as one that all may read and none may change; the
// log, which every recovery replays, sets its list right.
type Cursor struct {
	tree   *Tree
	zxid   int64
	acls   []txn.ACLEntry
	lastID int64 // no list in the table has a larger id
	stack  []level
	path   []byte // of the directory on top of the stack
	begun  bool
}

// A level is a directory that the walk is in.
type level struct {
	size   int   // of its path: kept whole for each level, the paths of a deep tree would take more memory than the tree
	kids   []ref // left to visit, as they were when the walk came here
	listed int64 // no node was younger then
}

// Snapshot begins a walk.
func (t *Tree) Snapshot() *Cursor {
	return &Cursor{tree: t, zxid: t.lastZxid, acls: t.lists.entries(), lastID: t.lists.lastID}
}

// Zxid returns the last transaction that is in the snapshot for certain: its name.
func (c *Cursor) Zxid() int64 { return c.zxid }

// ACLs returns the table of lists, which a snapshot holds before its nodes.
func (c *Cursor) ACLs() []txn.ACLEntry { return c.acls }

// Next appends at least one and at most max further znodes to dst; none means the walk is over.
// It must be called under the tree's guard for readers. Data is the tree's own.
func (c *Cursor) Next(dst []txn.Node, max int) []txn.Node {
	end := len(dst) + max
	if !c.begun && len(dst) < end {
		c.begun = true
		dst = c.visit(dst, rootRef, "")
	}
	for len(dst) < end && len(c.stack) > 0 {
		top := &c.stack[len(c.stack)-1]
		if len(top.kids) == 0 {
			c.stack[len(c.stack)-1] = level{}
			c.stack = c.stack[:len(c.stack)-1]
			if len(c.stack) > 0 {
				c.path = c.path[:c.stack[len(c.stack)-1].size]
			}
			continue
		}
		r := top.kids[0]
		top.kids = top.kids[1:]
		// If the node has been deleted since, its place may hold another: a younger one. If it has
		// not, everything above it is still there as well.
		if n := c.tree.nodes.At(r); n.blob != "" && n.czxid <= top.listed {
			dst = c.visit(dst, r, string(c.path)+"/"+n.name())
		}
	}
	return dst
}

func (c *Cursor) visit(dst []txn.Node, r ref, path string) []txn.Node {
	t := c.tree
	n := t.nodes.At(r)
	id := t.lists.slots[n.acl].id
	if id > c.lastID {
		if n.czxid > c.zxid {
			return dst
		}
		id = t.lists.slots[slotReadOnly].id
	}
	a := t.attrs(n)
	dst = append(dst, txn.Node{
		Path: path, Data: n.data(), ACLID: id,
		Czxid: a.czxid, Mzxid: a.mzxid, Pzxid: a.pzxid, Ctime: a.ctime, Mtime: a.mtime,
		Version: a.version, Cversion: a.cversion, Aversion: a.aversion, Owner: a.owner,
	})
	if t.children(n) > 0 {
		kids := make([]ref, 0, t.children(n))
		for kid := t.firstChild(n); kid != 0; kid = t.nodes.At(kid).next {
			kids = append(kids, kid)
		}
		c.stack = append(c.stack, level{size: len(path), kids: kids, listed: t.youngest})
		c.path = append(c.path[:0], path...)
	}
	return dst
}
