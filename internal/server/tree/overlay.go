package tree

import "github.com/lockkeeper/lockkeeper/zk"

// An overlay holds the znodes that a batch of decisions has looked at, as they will be. Guarantees:
//  1. a znode that is not in it is as the tree says;
//  2. one that is in it dead does not exist, whatever the tree says;
//  3. what it costs grows with the batch, not with the tree.
type overlay struct {
	tree   *Tree
	nodes  []pending
	byPath map[string]int // into nodes

	births []int              // nodes created as ephemerals, in order; good if the node says so too
	bytes  map[int64]int      // by how much a session's ephemeral paths will grow
	usages map[string]usage   // by how much a quota's usage will grow
	closed map[int64]struct{} // sessions
	grown  uint64             // by how much the digest will grow

	// While a multi is being decided: how things were before it.
	multi bool
	undo  []undo
	saved uint64 // grown
	pad   digester
}

// A pending is a znode as it will be.
type pending struct {
	attrs
	path     string
	alive    bool
	birth    int // if it was created as an ephemeral since the last reset: its place in births, from 1
	children int32
	digest   uint32
	head     head
	acl      *AccessList
	data     []byte
}

type undo struct {
	node   int
	before pending
}

func (o *overlay) init(t *Tree) {
	o.tree = t
	o.byPath = map[string]int{}
	o.bytes = map[int64]int{}
	o.usages = map[string]usage{}
	o.closed = map[int64]struct{}{}
}

// overlayFew is up to how many entries it is cheaper to delete one by one than to clear a map that
// a large batch may have left large.
const overlayFew = 64

func (o *overlay) reset() {
	if len(o.nodes) <= overlayFew {
		for i := range o.nodes {
			delete(o.byPath, o.nodes[i].path)
		}
	} else {
		clear(o.byPath)
	}
	clear(o.nodes) // let go of data and lists
	clear(o.bytes)
	clear(o.usages)
	clear(o.closed)
	o.nodes, o.births, o.grown = o.nodes[:0], o.births[:0], 0
}

// begin and end stand around the operations of a multi. Unless keep is true, end takes back what
// was decided between them.
func (o *overlay) begin() {
	o.multi = true
	o.saved = o.grown
}

func (o *overlay) end(keep bool) {
	o.multi = false
	if !keep {
		for i := len(o.undo) - 1; i >= 0; i-- {
			u := &o.undo[i]
			o.account(&o.nodes[u.node], -1)
			o.nodes[u.node] = u.before
			o.account(&o.nodes[u.node], 1)
		}
		o.grown = o.saved
	}
	clear(o.undo)
	o.undo = o.undo[:0]
}

// account adds a node to what its session's ephemerals take and to what its quota counts, or takes
// it off.
func (o *overlay) account(p *pending, sign int) {
	if !p.alive {
		return
	}
	if isSession(p.owner) {
		o.bytes[p.owner] += sign * (len(p.path) + pathOverhead)
	}
	if top, ok := o.tree.quotaOver(p.path); ok {
		u := o.usages[top]
		o.usages[top] = usage{u.count + int64(sign), u.bytes + int64(sign*len(p.data))}
	}
}

// at returns the number of the node at path, or −1 if there will be none.
func (o *overlay) at(path string) int {
	if i, ok := o.byPath[path]; ok {
		if o.nodes[i].alive {
			return i
		}
		return -1
	}
	r := o.tree.find(path)
	if r == 0 {
		return -1
	}
	n := o.tree.nodes.At(r)
	return o.add(pending{
		attrs: o.tree.attrs(n), path: path, alive: true, children: o.tree.children(n),
		digest: n.digest, head: o.tree.head(n), acl: o.tree.lists.acl(n.acl), data: n.data(),
	})
}

func (o *overlay) add(p pending) int {
	i := len(o.nodes)
	o.nodes = append(o.nodes, p)
	o.byPath[p.path] = i
	return i
}

// change returns a node for changing; the pointer is good until the next call of at or add.
// The caller calls changed when it has changed it.
func (o *overlay) change(i int) *pending {
	if o.multi {
		o.undo = append(o.undo, undo{i, o.nodes[i]})
	}
	return &o.nodes[i]
}

func (o *overlay) noteChange(p *pending) {
	if !o.tree.digests {
		return
	}
	sum := uint32(0)
	if p.alive {
		sum = o.pad.sum(&p.head, p.path, p.data, &p.attrs)
	}
	o.grown += uint64(sum) - uint64(p.digest)
	p.digest = sum
}

// create adds a node that is not there below one that is.
func (o *overlay) create(parent int, n pending, parentCversion int32) {
	zxid := n.czxid
	up := o.change(parent)
	up.childCreated(parentCversion, zxid)
	up.children++
	o.noteChange(up)

	i, ok := o.byPath[n.path]
	if !ok {
		i = o.add(pending{path: n.path})
	}
	p := o.change(i)
	*p = n
	p.alive = true
	o.noteChange(p)
	o.account(p, 1)
	if isSession(p.owner) {
		o.births = append(o.births, i)
		p.birth = len(o.births)
	}
}

// delete takes away a node that is there.
func (o *overlay) delete(path string, zxid int64) {
	i, parent := o.at(path), o.at(zk.Parent(path))
	p := o.change(i)
	o.account(p, -1)
	p.alive = false
	o.noteChange(p)

	up := o.change(parent)
	up.childDeleted(zxid)
	up.children--
	o.noteChange(up)
}

// ephemerals returns the paths of the session's ephemerals, never nil, the oldest first.
func (o *overlay) ephemerals(session int64) []string {
	paths := o.tree.Ephemerals(session, "")
	kept := paths[:0]
	for _, path := range paths {
		i, ok := o.byPath[path]
		if !ok || o.nodes[i].alive && o.nodes[i].owner == session && o.nodes[i].birth == 0 {
			kept = append(kept, path)
		}
	}
	for k, i := range o.births {
		p := &o.nodes[i]
		if p.alive && p.owner == session && p.birth == k+1 {
			kept = append(kept, p.path)
		}
	}
	return kept
}
