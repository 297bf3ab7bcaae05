package tree

import "github.com/lockkeeper/lockkeeper/internal/server/txn"

// A group is a list through the nodes that have to be found together: the ephemerals of a session,
// all containers, or all nodes with a time to live. The oldest comes first.
type group struct {
	first, last ref
	count       int
	bytes       int // of the paths, as a closeSession transaction lists them
}

// pathOverhead is what a path takes in a transaction besides itself.
const pathOverhead = 4

// groupOf returns the key of the group of nodes with this owner: a session, or one of the two that
// no session can be; 0 is none.
func groupOf(owner int64) int64 {
	switch {
	case owner == 0 || owner == txn.OwnerContainer:
		return owner
	case txn.OwnerSession(owner) == 0:
		return txn.OwnerTTL
	}
	return owner
}

// isSession reports whether this is the group of a session.
func isSession(key int64) bool { return txn.OwnerSession(key) != 0 }

func (t *Tree) join(r ref, pathLen int) {
	n := t.nodes.At(r)
	key := groupOf(n.owner)
	if key == 0 {
		return
	}
	if isSession(key) {
		t.ephemerals++
	}
	g := t.groups[key]
	x := t.extra(n)
	x.older = g.last
	if g.last != 0 {
		t.extra(t.nodes.At(g.last)).younger = r
	} else {
		g.first = r
	}
	g.last = r
	g.count++
	g.bytes += pathLen + pathOverhead
	t.groups[key] = g
}

func (t *Tree) quit(r ref, pathLen int) {
	n := t.nodes.At(r)
	key := groupOf(n.owner)
	if key == 0 {
		return
	}
	if isSession(key) {
		t.ephemerals--
	}
	g := t.groups[key]
	x := t.extra(n)
	if x.older != 0 {
		t.extra(t.nodes.At(x.older)).younger = x.younger
	} else {
		g.first = x.younger
	}
	if x.younger != 0 {
		t.extra(t.nodes.At(x.younger)).older = x.older
	} else {
		g.last = x.older
	}
	g.count--
	g.bytes -= pathLen + pathOverhead
	if g.count == 0 {
		delete(t.groups, key)
		return
	}
	t.groups[key] = g
}

// younger returns the next node of r's group, or 0.
func (t *Tree) younger(r ref) ref { return t.extras.At(t.nodes.At(r).extra).younger }
