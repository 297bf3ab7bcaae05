package tree

import (
	"strings"
	"unsafe"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A ref is the number of a node in the tree's slab; 0 is none. A number is used again once its
// node is gone, so that a ref kept while the tree may change has to be checked against czxid.
type ref = uint32

// A node is a znode in memory. There may be millions, nearly all of them leaves, hence the shape:
// 96 bytes and one pointer. What leaves have no use for is set apart in an extra; name and data
// share one allocation; siblings are a list through the nodes; there are no maps or locks.
type node struct {
	blob         string // name and data, see pack; "" if the place is free
	czxid, mzxid int64
	ctime, mtime int64
	owner        int64 // as txn.Node.Owner
	version      int32
	aversion     int32
	acl          int32  // slot in the table of lists
	digest       uint32 // what the node adds to the tree's digest
	parent       ref    // 0 for the root
	prev, next   ref    // siblings, the newest first
	extra        uint32 // number of its extra; 0 if it has none
	hash         uint32 // of parent and name
	chain        ref    // next in the index's bucket
}

// An extra is the part of a node that has had children or belongs to a group. A node without one
// has never had children: its pzxid is its czxid.
type extra struct {
	pzxid          int64
	cversion       int32 // stored counter: creates of children
	children       int32
	first          ref    // the newest child
	names          uint32 // bytes of the children's names
	older, younger ref    // in the same group
	head           head   // of the tree's digest
}

// pack puts a name and data into one string: the length of the name, doubled, as a varint whose
// lowest bit is set if the data is null; the name; the data.
func pack(name string, data []byte) string {
	var b strings.Builder
	head := uint64(len(name)) << 1
	if data == nil {
		head |= 1
	}
	size := 1
	for h := head; h >= 0x80; h >>= 7 {
		size++
	}
	b.Grow(size + len(name) + len(data))
	for ; head >= 0x80; head >>= 7 {
		b.WriteByte(byte(head) | 0x80)
	}
	b.WriteByte(byte(head))
	b.WriteString(name)
	b.Write(data)
	return b.String()
}

// split returns where in the blob the name begins and ends, and whether the data is null.
func (n *node) split() (start, end int, null bool) {
	head := int(n.blob[0])
	start = 1
	if head >= 0x80 {
		head &= 0x7f
		for shift := 7; ; shift += 7 {
			c := n.blob[start]
			start++
			head |= int(c&0x7f) << shift
			if c < 0x80 {
				break
			}
		}
	}
	return start, start + head>>1, head&1 != 0
}

func (n *node) name() string {
	start, end, _ := n.split()
	return n.blob[start:end]
}

// data returns the data without copying it. The caller must not write to it.
func (n *node) data() []byte {
	_, end, null := n.split()
	if null {
		return nil
	}
	return view(n.blob[end:])
}

// text returns the data as a string.
func (n *node) text() string {
	_, end, _ := n.split()
	return n.blob[end:]
}

func (n *node) dataLen() int {
	_, end, _ := n.split()
	return len(n.blob) - end
}

// view returns the bytes of s, which must not be written to. It is never nil.
func view(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// attrs are the numbers that a znode keeps, as they are stored.
type attrs struct {
	czxid, mzxid, pzxid         int64
	ctime, mtime                int64
	version, cversion, aversion int32
	owner                       int64
}

// born returns the attributes of a node created by transaction zxid at time now.
func born(zxid, now, owner int64) attrs {
	return attrs{czxid: zxid, mzxid: zxid, pzxid: zxid, ctime: now, mtime: now, owner: owner}
}

// childCreated raises the counter of creates to cversion. It never goes down: a create replayed
// late, or one past the end of the counter, leaves it and pzxid alone.
func (a *attrs) childCreated(cversion int32, zxid int64) {
	if cversion == -1 {
		cversion = a.cversion + 1
	}
	if cversion > a.cversion {
		a.cversion, a.pzxid = cversion, zxid
	}
}

func (a *attrs) childDeleted(zxid int64) { a.pzxid = max(a.pzxid, zxid) }

func (t *Tree) attrs(n *node) attrs {
	a := attrs{
		czxid: n.czxid, mzxid: n.mzxid, pzxid: n.czxid, ctime: n.ctime, mtime: n.mtime,
		version: n.version, aversion: n.aversion, owner: n.owner,
	}
	if n.extra != 0 {
		x := t.extras.At(n.extra)
		a.pzxid, a.cversion = x.pzxid, x.cversion
	}
	return a
}

func (t *Tree) setAttrs(n *node, a *attrs) {
	n.czxid, n.mzxid, n.ctime, n.mtime = a.czxid, a.mzxid, a.ctime, a.mtime
	n.version, n.aversion, n.owner = a.version, a.aversion, a.owner
	if n.extra != 0 || a.pzxid != a.czxid || a.cversion != 0 {
		x := t.extra(n)
		x.pzxid, x.cversion = a.pzxid, a.cversion
	}
}

// extra returns the extra of n, which gets one if it has none.
func (t *Tree) extra(n *node) *extra {
	if n.extra == 0 {
		n.extra = t.extras.Take()
		t.extras.At(n.extra).pzxid = n.czxid
	}
	return t.extras.At(n.extra)
}

// head returns the head that is kept with n.
func (t *Tree) head(n *node) head {
	if n.extra == 0 {
		return head{}
	}
	return t.extras.At(n.extra).head
}

func (t *Tree) forgetHead(n *node) {
	if n.extra != 0 {
		t.extras.At(n.extra).head = head{}
	}
}

func (t *Tree) children(n *node) int32 {
	if n.extra == 0 {
		return 0
	}
	return t.extras.At(n.extra).children
}

func (t *Tree) firstChild(n *node) ref {
	if n.extra == 0 {
		return 0
	}
	return t.extras.At(n.extra).first
}

// stat returns what clients are shown: of the counter of creates, creates and deletes together;
// of the owner, only a session.
func (t *Tree) stat(n *node) zk.Stat {
	a, children := t.attrs(n), t.children(n)
	return zk.Stat{
		Czxid: a.czxid, Mzxid: a.mzxid, Pzxid: a.pzxid, Ctime: a.ctime, Mtime: a.mtime,
		Version: a.version, Cversion: 2*a.cversion - children, Aversion: a.aversion,
		EphemeralOwner: txn.OwnerSession(a.owner),
		DataLength:     int32(n.dataLen()), NumChildren: children,
	}
}
