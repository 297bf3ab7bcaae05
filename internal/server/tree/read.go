package tree

import (
	"iter"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Exists returns the stat of a znode. It is ErrNoAuth if the znode is there and may not be read.
func (t *Tree) Exists(who Identities, path string) (zk.Stat, zk.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return zk.Stat{}, zk.ErrBadArguments
	}
	r, code := t.open(who, path, zk.PermRead)
	if code != zk.OK {
		return zk.Stat{}, code
	}
	return t.stat(t.nodes.At(r)), zk.OK
}

// Get returns the data of a znode; nil is null.
func (t *Tree) Get(who Identities, path string) ([]byte, zk.Stat, zk.Code) {
	r, code := t.open(who, path, zk.PermRead)
	if code != zk.OK {
		return nil, zk.Stat{}, code
	}
	n := t.nodes.At(r)
	return n.data(), t.stat(n), zk.OK
}

// Children returns the direct children, as many as stat says. They are to be looked at before the tree changes.
func (t *Tree) Children(who Identities, path string) (kids Kids, stat zk.Stat, code zk.Code) {
	r, code := t.open(who, path, zk.PermRead)
	if code != zk.OK {
		return Kids{}, zk.Stat{}, code
	}
	n := t.nodes.At(r)
	return Kids{t, t.firstChild(n), t.attrs(n), t.children(n)}, t.stat(n), zk.OK
}

// Kids are the children of a znode. Two Kids of one path are equal if the children are the same.
type Kids struct {
	t     *Tree
	first ref
	of    attrs // of the parent, which change with its children
	count int32
}

// Names yields their names in no particular order.
func (k Kids) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, ok := k.Next(); ok && yield(name); {
			name, ok = k.Next()
		}
	}
}

// Next takes one of the children out of k and returns its name; ok is false if there is none left.
func (k *Kids) Next() (name string, ok bool) {
	if k.first == 0 {
		return "", false
	}
	n := k.t.nodes.At(k.first)
	k.first = n.next
	return n.name(), true
}

// Empty reports whether there are no children, or none left.
func (k Kids) Empty() bool { return k.first == 0 }

// ACL returns the access control list of a znode. Those without the admin permission are not shown
// the hashes of digest identities.
func (t *Tree) ACL(who Identities, path string) ([]zk.ACL, zk.Stat, zk.Code) {
	r, code := t.open(who, path, zk.PermRead|zk.PermAdmin)
	if code != zk.OK {
		return nil, zk.Stat{}, code
	}
	n := t.nodes.At(r)
	list := t.lists.acl(n.acl)
	acl := list.entries
	if !who.May(list, zk.PermAdmin) {
		acl = maskHashes(acl)
	}
	return acl, t.stat(n), zk.OK
}

// A Count counts the znodes below one, at any depth, in steps. The tree must not change between them.
type Count struct {
	N       int32 // counted so far
	t       *Tree
	top, at ref // at was counted last; 0 is none left
}

// CountBelow begins to count the znodes below path.
func (t *Tree) CountBelow(who Identities, path string) (Count, zk.Code) {
	top, code := t.open(who, path, zk.PermRead)
	switch {
	case code != zk.OK:
		return Count{}, code
	case top == rootRef:
		return Count{N: int32(t.count - 1)}, zk.OK
	}
	return Count{t: t, top: top, at: top}, zk.OK
}

// Next counts so many further znodes, and reports whether there may be more.
func (c *Count) Next(znodes int) (more bool) {
	for ; c.at != 0 && znodes > 0; znodes-- {
		c.at = c.t.after(c.at, c.top)
		if c.at != 0 {
			c.N++
		}
	}
	return c.at != 0
}

// below yields the nodes of the subtree at top, parents first; 0 has none.
func (t *Tree) below(top ref) iter.Seq[ref] {
	return func(yield func(ref) bool) {
		for r := top; r != 0 && yield(r); {
			r = t.after(r, top)
		}
	}
}

// after returns the node behind r in the subtree at top, or 0. Parents come first.
func (t *Tree) after(r, top ref) ref {
	if kid := t.firstChild(t.nodes.At(r)); kid != 0 {
		return kid
	}
	for r != top && t.nodes.At(r).next == 0 {
		r = t.nodes.At(r).parent
	}
	if r == top {
		return 0
	}
	return t.nodes.At(r).next
}

// Lookup returns the stat of a znode, without a check of permissions. Setting watches again needs it.
func (t *Tree) Lookup(path string) (stat zk.Stat, ok bool) {
	r := t.find(path)
	if r == 0 {
		return zk.Stat{}, false
	}
	return t.stat(t.nodes.At(r)), true
}

// NamesBytes returns how many bytes the list of a znode's children takes in an answer; that of none takes 0.
func (t *Tree) NamesBytes(path string) int {
	r := t.find(path)
	if r == 0 || t.nodes.At(r).extra == 0 {
		return 0
	}
	const length = 4 // in front of each name
	x := t.extras.At(t.nodes.At(r).extra)
	return length*int(x.children) + int(x.names)
}

// ACLBytes returns how many bytes a znode's access control list takes in an answer.
func (t *Tree) ACLBytes(path string) int {
	r := t.find(path)
	if r == 0 {
		return 0
	}
	return len(t.lists.slots[t.nodes.At(r).acl].key)
}

// EphemeralSize returns how many ephemerals a session has, and how many bytes their paths take in an answer.
func (t *Tree) EphemeralSize(session int64) (znodes, bytes int) {
	g := t.groups[session]
	return g.count, g.bytes
}

// Ephemerals returns the paths of the session's ephemeral znodes that begin with prefix, oldest
// first; "" and "/" ask for all.
func (t *Tree) Ephemerals(session int64, prefix string) []string {
	paths := []string{}
	if !isSession(session) {
		return paths
	}
	for r := t.groups[session].first; r != 0; r = t.younger(r) {
		if p := t.path(r); strings.HasPrefix(p, prefix) {
			paths = append(paths, p)
		}
	}
	return paths
}

// EphemeralSessions returns the sessions that own ephemeral znodes, in increasing order.
func (t *Tree) EphemeralSessions() []int64 {
	var sessions []int64
	for key := range t.groups {
		if isSession(key) {
			sessions = append(sessions, key)
		}
	}
	slices.Sort(sessions)
	return sessions
}

// open returns the node at path if the identities have one of the permissions in perm on it.
func (t *Tree) open(who Identities, path string, perm zk.Perm) (ref, zk.Code) {
	r := t.find(path)
	if r == 0 {
		return 0, zk.ErrNoNode
	}
	if !who.May(t.lists.acl(t.nodes.At(r).acl), perm) {
		return 0, zk.ErrNoAuth
	}
	return r, zk.OK
}
