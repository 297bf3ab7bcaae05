package tree

import (
	"hash/maphash"

	"github.com/lockkeeper/lockkeeper/internal/server/slab"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Tree holds the znodes. Make one with New or a Restorer.
type Tree struct {
	nodes  slab.Slab[node]
	extras slab.Slab[extra]
	index  index
	lists  lists
	groups map[int64]group     // by groupOf of the owner
	quotas map[string]struct{} // the tops of the subtrees that have limits

	uncounted  map[string]struct{} // the tops of the subtrees whose usage was created and still has to be counted
	recovering bool                // the log is being replayed

	lastZxid   int64
	youngest   int64 // the largest czxid that there has ever been
	count      int   // nodes
	ephemerals int   // of all sessions
	bytes      int64 // of all paths and data

	digests bool // whether digest is kept
	digest  uint64
	pad     digester // for writers only
}

const rootRef = 1 // the first place that a slab gives

// New returns the tree of a server that has seen no transaction: the root and /zookeeper with what
// is built in below it. With digests it keeps the sum that Digest returns up to date.
func New(digests bool) *Tree {
	t := empty(digests)
	t.lists.use(slotOpen)
	t.insert(0, "/", []byte{}, slotOpen, &attrs{})
	t.addBuiltIn()
	return t
}

func empty(digests bool) *Tree {
	return &Tree{
		index:   index{seed: maphash.MakeSeed(), buckets: make([]ref, bucketsMin)},
		lists:   newLists(),
		groups:  map[int64]group{},
		digests: digests,
	}
}

// builtIn are the nodes that every tree has besides the root. They cannot be deleted.
var builtIn = []struct {
	path     string
	slot     int32
	aversion int32
}{
	{"/zookeeper", slotOpen, 0},
	{"/zookeeper/quota", slotOpen, 0},
	{"/zookeeper/config", slotReadOnly, -1},
}

// addBuiltIn adds those of the built-in nodes that are not there.
func (t *Tree) addBuiltIn() {
	for _, b := range builtIn {
		if t.find(b.path) == 0 {
			t.lists.use(b.slot)
			t.insert(t.find(zk.Parent(b.path)), b.path, []byte{}, b.slot, &attrs{aversion: b.aversion})
		}
	}
}

// LastZxid returns the zxid of the last transaction applied.
func (t *Tree) LastZxid() int64 { return t.lastZxid }

// Count returns the number of znodes, the built-in ones and the root included. What ZooKeeper
// shows as its node count is one more: it counts the root twice.
func (t *Tree) Count() int { return t.count }

// EphemeralCount returns the number of ephemeral znodes.
func (t *Tree) EphemeralCount() int { return t.ephemerals }

// DataBytes returns the bytes of all data and all paths: ZooKeeper's approximate data size.
func (t *Tree) DataBytes() int64 { return t.bytes }

// Digest returns the sum over the whole tree as Apply left it; ok is false if the tree keeps none.
func (t *Tree) Digest() (d txn.Digest, ok bool) {
	return txn.Digest{Version: digestVersion, Tree: t.digest}, t.digests
}

// insert adds a node below parent, which has none of that name, and takes over one use of the
// slot. The parent's own attributes are left alone.
func (t *Tree) insert(parent ref, path string, data []byte, slot int32, a *attrs) ref {
	r := t.nodes.Take()
	n := t.nodes.At(r)
	n.parent = parent
	n.blob = pack(zk.Base(path), data)
	n.acl = slot
	t.setAttrs(n, a)
	t.youngest = max(t.youngest, a.czxid)
	pathLen := 0
	if parent != 0 {
		pathLen = len(path)
		t.enter(r)
		x := t.extra(t.nodes.At(parent))
		n.next = x.first
		if n.next != 0 {
			t.nodes.At(n.next).prev = r
		}
		x.first = r
		x.children++
		x.names += uint32(len(zk.Base(path)))
	}
	t.join(r, pathLen)
	t.count++
	t.bytes += int64(pathLen + len(data))
	t.redigest(r, path)
	t.noteUsage(path, usage{1, int64(len(data))})
	return r
}

// remove takes a node away, and all below it. There is something below it only in a replay over a
// snapshot that is ahead of the log, which is going to create it again.
func (t *Tree) remove(r ref) {
	for {
		kid := t.firstChild(t.nodes.At(r))
		if kid == 0 {
			break
		}
		for below := kid; below != 0; below = t.firstChild(t.nodes.At(kid)) {
			kid = below
		}
		t.removeLeaf(kid)
	}
	t.removeLeaf(r)
}

func (t *Tree) removeLeaf(r ref) {
	n := t.nodes.At(r)
	pathLen := t.pathLen(r)
	if len(t.quotas)+len(t.uncounted) > 0 {
		t.quotaDeleted(t.path(n.parent), n.name())
		t.noteUsage(t.path(r), usage{-1, -int64(n.dataLen())})
	}
	t.quit(r, pathLen)
	t.leave(r)
	x := t.extra(t.nodes.At(n.parent))
	if n.prev != 0 {
		t.nodes.At(n.prev).next = n.next
	} else {
		x.first = n.next
	}
	if n.next != 0 {
		t.nodes.At(n.next).prev = n.prev
	}
	x.children--
	x.names -= uint32(len(n.name()))
	t.count--
	t.bytes -= int64(pathLen + n.dataLen())
	t.digest -= uint64(n.digest)
	t.lists.release(n.acl)
	if n.extra != 0 {
		t.extras.Give(n.extra)
	}
	t.nodes.Give(r)
}

// redigest brings the tree's digest up to date after a change of the node at path. After a change of its data the head is
// forgotten first.
func (t *Tree) redigest(r ref, path string) {
	if !t.digests {
		return
	}
	n := t.nodes.At(r)
	a := t.attrs(n)
	var h head
	kept := &h
	if n.extra != 0 {
		kept = &t.extras.At(n.extra).head
	}
	sum := t.pad.sum(kept, path, n.data(), &a)
	t.digest += uint64(sum) - uint64(n.digest)
	n.digest = sum
}
