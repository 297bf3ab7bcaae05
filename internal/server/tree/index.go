package tree

import "hash/maphash"

// An index finds nodes by parent and name: one hash table for the whole tree, chained through the
// nodes, so that a directory of a million costs no more than a million directories of one, and
// children come and go in constant time.
type index struct {
	seed    maphash.Seed // of this process, so that clients cannot choose names that collide
	buckets []ref        // a power of two, at least one for each node
}

const bucketsMin = 1 << 10

func (x *index) hash(parent ref, name string) uint32 {
	h := maphash.String(x.seed, name) ^ uint64(parent)*0x9e3779b97f4a7c15
	return uint32(h ^ h>>32)
}

func (x *index) bucket(hash uint32) *ref { return &x.buckets[hash&uint32(len(x.buckets)-1)] }

// child returns the child of parent called name, or 0.
func (t *Tree) child(parent ref, name string) ref {
	h := t.index.hash(parent, name)
	for r := *t.index.bucket(h); r != 0; {
		n := t.nodes.At(r)
		if n.hash == h && n.parent == parent && n.name() == name {
			return r
		}
		r = n.chain
	}
	return 0
}

// enter puts a node that has its parent and name into the index.
func (t *Tree) enter(r ref) {
	if t.count >= len(t.index.buckets) {
		t.growIndex()
	}
	n := t.nodes.At(r)
	n.hash = t.index.hash(n.parent, n.name())
	b := t.index.bucket(n.hash)
	n.chain, *b = *b, r
}

func (t *Tree) leave(r ref) {
	n := t.nodes.At(r)
	at := t.index.bucket(n.hash)
	for *at != r {
		at = &t.nodes.At(*at).chain
	}
	*at = n.chain
}

// growIndex doubles the buckets and deals the nodes out anew. They carry their hashes, so that it
// is a walk through memory: some ten milliseconds for a million.
func (t *Tree) growIndex() {
	old := t.index.buckets
	t.index.buckets = make([]ref, 2*len(old))
	for _, r := range old {
		for r != 0 {
			n := t.nodes.At(r)
			rest := n.chain
			b := t.index.bucket(n.hash)
			n.chain, *b = *b, r
			r = rest
		}
	}
}

// find returns the node at path, or 0. A path that is not well formed leads nowhere.
func (t *Tree) find(path string) ref {
	if path == "" || path[0] != '/' {
		return 0
	}
	if len(path) == 1 {
		return rootRef
	}
	at := ref(rootRef)
	for start := 1; at != 0; {
		end := start
		for end < len(path) && path[end] != '/' {
			end++
		}
		if end == start {
			return 0
		}
		at = t.child(at, path[start:end])
		if end == len(path) {
			return at
		}
		start = end + 1
	}
	return 0
}

// path returns the path of a node.
func (t *Tree) path(r ref) string {
	if r == rootRef {
		return "/"
	}
	b := make([]byte, t.pathLen(r))
	for at := len(b); r != rootRef; {
		n := t.nodes.At(r)
		name := n.name()
		at -= len(name)
		copy(b[at:], name)
		at--
		b[at] = '/'
		r = n.parent
	}
	return string(b)
}

// pathLen returns the length of a node's path; the root's counts as 0.
func (t *Tree) pathLen(r ref) int {
	size := 0
	for r != rootRef {
		n := t.nodes.At(r)
		size += 1 + len(n.name())
		r = n.parent
	}
	return size
}
