package tree

import (
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Effect is an event, and the access control list of its znode: a
// watcher without PermRead in ACL gets no event (its one-shot watch is used up nevertheless).
type Effect struct {
	zk.Event
	ACL *AccessList
}

// An Outcome is what became of a transaction. Apply overwrites it whole and reuses its slices, so
// that one Outcome can serve many transactions.
type Outcome struct {
	Err   zk.Code            // of an error transaction; in a replay also ErrNoNode and ErrNodeExists, to be ignored
	Path  string             // created
	Stat  zk.Stat            // after create, set and setACL
	Multi []wire.MultiResult // the answer to a multi, ready to send; Err is OK even if the multi failed

	// Effects are the events, in the order in which they must be sent: created, deleted and data
	// changed of a znode, each of the first two followed by children changed of its parent.
	Effects []Effect
}

func (o *Outcome) reset() {
	clear(o.Multi)
	clear(o.Effects)
	*o = Outcome{Multi: o.Multi[:0], Effects: o.Effects[:0]}
}

func (o *Outcome) effect(typ zk.EventType, path string, zxid int64, acl *AccessList) {
	o.Effects = append(o.Effects, Effect{zk.Event{Type: typ, Path: path, Zxid: zxid}, acl})
}

// Apply carries out a transaction: the only way the tree changes once it serves. It is a pure step:
// same tree, same transaction, same result on every server and in every replay. Replaying a log
// over a snapshot that already holds some or all of its effects ends in the same tree.
func (t *Tree) Apply(tx *txn.Txn, out *Outcome) {
	out.reset()
	if tx.Type == wire.OpMulti {
		t.applyMulti(tx, out)
	} else {
		out.Err, out.Path, out.Stat = t.applyChange(tx, &tx.Change, out)
	}
	t.countNew()
	t.lastZxid = max(t.lastZxid, tx.Zxid)
}

// applyMulti applies all parts of a multi or, if one of them is an error, none.
func (t *Tree) applyMulti(tx *txn.Txn, out *Outcome) {
	failed := tx.Failed()
	out.Multi = slices.Grow(out.Multi, len(tx.Subs)) // as in Draft.CloseSession
	out.Effects = slices.Grow(out.Effects, 2*len(tx.Subs))
	for i := range tx.Subs {
		sub := &tx.Subs[i]
		if failed {
			out.Multi = append(out.Multi, wire.MultiResult{Op: wire.OpError, Err: sub.Err})
			continue
		}
		code, path, stat := t.applyChange(tx, sub, out)
		res := wire.MultiResult{Op: sub.Type, Err: code, Path: path, Stat: stat}
		switch {
		case code != zk.OK:
			res.Op = wire.OpError
		case sub.Type == wire.OpCreateContainer || sub.Type == wire.OpCreateTTL:
			res.Op = wire.OpCreate2
		}
		out.Multi = append(out.Multi, res)
	}
}

// applyChange applies a transaction that is not a multi, or a part of one.
func (t *Tree) applyChange(tx *txn.Txn, c *txn.Change, out *Outcome) (zk.Code, string, zk.Stat) {
	switch c.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return t.applyCreate(tx, c, out)
	case wire.OpDelete, wire.OpDeleteContainer:
		return t.applyDelete(c.Path, tx.Zxid, out), "", zk.Stat{}
	case wire.OpSetData, wire.OpReconfig:
		return t.applySet(tx, c, out)
	case wire.OpSetACL:
		return t.applySetACL(c)
	case wire.OpCloseSession:
		t.applyClose(tx, c, out)
	case wire.OpError:
		return c.Err, "", zk.Stat{}
	}
	return zk.OK, "", zk.Stat{} // a check and the opening of a session change no znode
}

func (t *Tree) applyCreate(tx *txn.Txn, c *txn.Change, out *Outcome) (zk.Code, string, zk.Stat) {
	parentPath, name := zk.Parent(c.Path), zk.Base(c.Path)
	parent := t.find(parentPath)
	switch {
	case name == "":
		return zk.ErrBadArguments, "", zk.Stat{}
	case parent == 0:
		return zk.ErrNoNode, "", zk.Stat{}
	}
	up := t.nodes.At(parent)
	a := t.attrs(up)
	a.childCreated(c.ParentCversion, tx.Zxid)
	t.setAttrs(up, &a)
	if r := t.child(parent, name); r != 0 {
		// The snapshot under this replay was ahead. It may have lacked the node's list.
		n := t.nodes.At(r)
		slot := t.lists.intern(c.ACL)
		t.lists.release(n.acl)
		n.acl = slot
		t.redigest(parent, parentPath)
		return zk.ErrNodeExists, "", zk.Stat{}
	}
	na := born(tx.Zxid, tx.Time, ownerOf(c, tx.Session))
	r := t.insert(parent, c.Path, c.Data, t.lists.intern(c.ACL), &na)
	t.redigest(parent, parentPath)
	t.quotaCreated(parentPath, name)
	n := t.nodes.At(r)
	out.effect(zk.NodeCreated, c.Path, tx.Zxid, t.lists.acl(n.acl))
	out.effect(zk.NodeChildrenChanged, parentPath, tx.Zxid, t.lists.acl(up.acl))
	return zk.OK, c.Path, t.stat(n)
}

func (t *Tree) applyDelete(path string, zxid int64, out *Outcome) zk.Code {
	parentPath, name := zk.Parent(path), zk.Base(path)
	parent := t.find(parentPath)
	switch {
	case name == "":
		return zk.ErrBadArguments
	case parent == 0:
		return zk.ErrNoNode
	}
	up := t.nodes.At(parent)
	a := t.attrs(up)
	a.childDeleted(zxid) // also if the node is gone already: the snapshot may have been ahead
	t.setAttrs(up, &a)
	t.redigest(parent, parentPath)
	r := t.child(parent, name)
	if r == 0 {
		return zk.ErrNoNode
	}
	acl := t.lists.acl(t.nodes.At(r).acl)
	t.remove(r)
	out.effect(zk.NodeDeleted, path, zxid, acl)
	out.effect(zk.NodeChildrenChanged, parentPath, zxid, t.lists.acl(up.acl))
	return zk.OK
}

func (t *Tree) applySet(tx *txn.Txn, c *txn.Change, out *Outcome) (zk.Code, string, zk.Stat) {
	r := t.find(c.Path)
	if r == 0 {
		return zk.ErrNoNode, "", zk.Stat{}
	}
	n := t.nodes.At(r)
	grown := int64(len(c.Data) - n.dataLen())
	t.bytes += grown
	n.blob = pack(n.name(), c.Data)
	t.forgetHead(n)
	n.version, n.mzxid, n.mtime = c.Version, tx.Zxid, tx.Time
	t.redigest(r, c.Path)
	t.noteUsage(c.Path, usage{0, grown})
	t.usageSet(c.Path)
	out.effect(zk.NodeDataChanged, c.Path, tx.Zxid, t.lists.acl(n.acl))
	return zk.OK, "", t.stat(n)
}

func (t *Tree) applySetACL(c *txn.Change) (zk.Code, string, zk.Stat) {
	r := t.find(c.Path)
	if r == 0 {
		return zk.ErrNoNode, "", zk.Stat{}
	}
	n := t.nodes.At(r)
	slot := t.lists.intern(c.ACL)
	t.lists.release(n.acl)
	n.acl, n.aversion = slot, c.Version
	t.redigest(r, c.Path)
	return zk.OK, "", t.stat(n)
}

// applyClose deletes what the transaction lists and then what is left of the session: all, if the
// record is of a release that does not list.
func (t *Tree) applyClose(tx *txn.Txn, c *txn.Change, out *Outcome) {
	out.Effects = slices.Grow(out.Effects, 2*len(c.Paths)) // as in Draft.CloseSession
	for _, path := range c.Paths {
		t.applyDelete(path, tx.Zxid, out)
	}
	for _, path := range t.Ephemerals(tx.Session, "") {
		t.applyDelete(path, tx.Zxid, out)
	}
}

// ownerOf returns the owner to store with a node that c creates for a session.
func ownerOf(c *txn.Change, session int64) int64 {
	switch {
	case c.Type == wire.OpCreateContainer:
		return txn.OwnerContainer
	case c.Type == wire.OpCreateTTL:
		return txn.OwnerTTL | c.TTL
	case c.Ephemeral:
		return session
	}
	return 0
}
