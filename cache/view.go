package cache

import (
	"iter"
	"slices"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Node is a znode. Its data is shared with other readers and must not be changed.
type Node struct {
	Path string
	Data []byte
	Stat zk.Stat // see Limits in the package's comment about what it says of children
}

// size returns how many bytes the path and the data have.
func (n *Node) size() int64 { return int64(len(n.Path) + len(n.Data)) }

// A View is the cached part of the tree at one moment. It never changes, and its methods take no lock. Holding on to a
// View keeps its znodes in memory.
type View struct{ chunks *chunks }

// Get returns the znode at path, and whether there is one.
func (v View) Get(path string) (Node, bool) {
	n := v.chunks.get(path)
	if n == nil {
		return Node{}, false
	}
	return *n, true
}

// All returns all znodes, parents before their children, siblings by name.
func (v View) All() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for n := range v.chunks.from("") {
			if !yield(*n) {
				return
			}
		}
	}
}

// Children returns the children of the znode at path, by name.
func (v View) Children(path string) iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for n := range v.chunks.from(path) {
			switch {
			case n.Path == path:
			case !below(n.Path, path):
				return
			case zk.Parent(n.Path) == path:
				if !yield(*n) {
					return
				}
			}
		}
	}
}

// Len returns the number of znodes.
func (v View) Len() int {
	if v.chunks == nil {
		return 0
	}
	return v.chunks.nodes
}

// Bytes returns how many bytes the paths and the data of the znodes have.
func (v View) Bytes() int64 {
	if v.chunks == nil {
		return 0
	}
	return v.chunks.bytes
}

// Zxid returns the newest transaction that was seen in a znode of the view, or in one that has gone since all was read last.
func (v View) Zxid() int64 {
	if v.chunks == nil {
		return 0
	}
	return v.chunks.zxid
}

// below reports whether path lies below dir.
func below(path, dir string) bool {
	if dir == "/" {
		return len(path) > 1
	}
	return len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// compare orders paths so that what is below a znode follows it, before the znode's next sibling: "/" sorts first.
func compare(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		switch {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		case x < y:
			return -1
		default:
			return 1
		}
	}
	return len(a) - len(b)
}

// chunks are znodes in the order of compare, in pieces that versions share. A version never changes: with and bulk make
// a new one. nil is an empty one.
type chunks struct {
	pieces [][]*Node // none is empty
	nodes  int
	bytes  int64
	zxid   int64
}

// chunkNodesMax is how many znodes a piece holds at most: each version copies the pieces that it changes, and the list
// of pieces.
const chunkNodesMax = 256

// bulk returns a version with the given znodes, which are sorted and different.
func bulk(nodes []*Node) *chunks {
	c := &chunks{nodes: len(nodes)}
	for piece := range slices.Chunk(nodes, chunkNodesMax*3/4) { // with room for a few more
		c.pieces = append(c.pieces, slices.Clone(piece))
	}
	for _, n := range nodes {
		c.count(n, 1)
	}
	return c
}

// count adds a znode to the sums, or takes it away.
func (c *chunks) count(n *Node, sign int64) {
	c.bytes += sign * n.size()
	c.zxid = max(c.zxid, n.Stat.Czxid, n.Stat.Mzxid)
}

// find returns the piece where path is or belongs, and the place in it.
func (c *chunks) find(path string) (piece, at int, found bool) {
	piece, found = slices.BinarySearchFunc(c.pieces, path, func(p []*Node, path string) int { return compare(p[0].Path, path) })
	if found {
		return piece, 0, true
	}
	if piece > 0 {
		piece--
	}
	if piece == len(c.pieces) {
		return piece, 0, false
	}
	at, found = slices.BinarySearchFunc(c.pieces[piece], path, func(n *Node, path string) int { return compare(n.Path, path) })
	return piece, at, found
}

func (c *chunks) get(path string) *Node {
	if c == nil {
		return nil
	}
	piece, at, found := c.find(path)
	if !found {
		return nil
	}
	return c.pieces[piece][at]
}

// from returns the znodes from path on.
func (c *chunks) from(path string) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if c == nil {
			return
		}
		piece, at, _ := c.find(path)
		for ; piece < len(c.pieces); piece, at = piece+1, 0 {
			for _, n := range c.pieces[piece][at:] {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// An edit is a version in the making, which shares what it has not touched with the version it began from.
type edit struct {
	chunks
	own map[*Node]bool // first znodes of pieces that belong to the edit alone
}

// edit begins a new version.
func (c *chunks) edit() *edit {
	e := &edit{own: map[*Node]bool{}}
	if c != nil {
		e.chunks = *c
		e.pieces = slices.Clone(c.pieces)
	}
	return e
}

// set puts a znode in, in place of the one that has its path.
func (e *edit) set(n *Node) {
	piece, at, found := e.find(n.Path)
	if piece == len(e.pieces) {
		e.pieces = append(e.pieces, nil)
	}
	p := e.touch(piece)
	if found {
		e.count(p[at], -1)
		p[at] = n
	} else {
		p = slices.Insert(p, at, n)
		e.nodes++
	}
	e.count(n, 1)
	e.put(piece, p)
	if len(p) > chunkNodesMax {
		half := len(p) / 2
		e.pieces = slices.Insert(e.pieces, piece+1, slices.Clone(p[half:]))
		e.put(piece, slices.Clone(p[:half]))
		e.own[e.pieces[piece+1][0]] = true
	}
}

// remove takes out the znode at path, if there is one.
func (e *edit) remove(path string) {
	piece, at, found := e.find(path)
	if !found {
		return
	}
	p := e.touch(piece)
	e.count(p[at], -1)
	e.nodes--
	p = slices.Delete(p, at, at+1)
	if len(p) == 0 {
		e.pieces = slices.Delete(e.pieces, piece, piece+1)
		return
	}
	e.put(piece, p)
}

// touch returns a piece that may be changed. put has to follow.
func (e *edit) touch(piece int) []*Node {
	p := e.pieces[piece]
	if len(p) > 0 && e.own[p[0]] {
		delete(e.own, p[0]) // the first znode may become another one
		return p
	}
	return append(make([]*Node, 0, len(p)+8), p...)
}

// put puts a piece of the edit's own in its place.
func (e *edit) put(piece int, p []*Node) {
	e.pieces[piece] = p
	e.own[p[0]] = true
}

// done ends the edit and returns the version. One with many small pieces, after many deletions, is built anew.
func (e *edit) done() *chunks {
	c := e.chunks
	if len(c.pieces) > 16+8*c.nodes/chunkNodesMax {
		zxid := c.zxid
		c = *bulk(slices.Collect(c.from("")))
		c.zxid = max(c.zxid, zxid)
	}
	return &c
}
