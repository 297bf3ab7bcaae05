package cache

import (
	"cmp"
	"context"
	"iter"
	"slices"
)

// A Kind says what has happened to a znode, or to the cache.
type Kind int

// The kinds of changes.
const (
	Created Kind = iota + 1 // the znode is new to the reader
	Changed                 // its data has been set
	Deleted                 // it is gone; Node is what it was
	Reread                  // events may have been missed before: versions in between are unknown; Node is empty
)

func (k Kind) String() string {
	switch k {
	case Created:
		return "created"
	case Changed:
		return "changed"
	case Deleted:
		return "deleted"
	case Reread:
		return "reread"
	}
	return "unknown"
}

// A Change is a difference between two views that follow each other. A znode that was deleted and created again is told
// as both.
type Change struct {
	Kind Kind
	Node Node
	Old  Node // of Changed: what the znode was before
}

// Changes returns what there is, as changes of the kind Created, and then what changes. Of changes that the cache
// learned of together, deletions come first, children before parents, and then the others in the order of their zxids.
// A reader that falls far behind gets a Reread and the differences, as after a lost connection. The sequence ends with
// an error, when ctx or the cache ends.
func (c *Cache) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var view *chunks // as the reader knows it; one old version at most is kept for it
		at := uint64(0)  // the number of its last change; 0 before the first
		for {
			news, now, last, changed := c.since(at)
			if news == nil && last != at { // the log does not go back that far
				news = difference(view, now)
				if at > 0 {
					news = slices.Insert(news, 0, Change{Kind: Reread})
				}
			}
			view, at = now, last
			for _, change := range news {
				if !yield(change, nil) {
					return
				}
			}
			if len(news) > 0 {
				continue
			}
			if err := c.wait(ctx, changed); err != nil {
				yield(Change{}, err)
				return
			}
		}
	}
}

// difference returns the changes from one version to another. It passes over the pieces that both share.
func difference(before, after *chunks) []Change {
	var gone, news []Change
	olds, nows := before.all(), after.all()
	for {
		if olds.sharePiece(nows) {
			olds.pieces, nows.pieces = olds.pieces[1:], nows.pieces[1:]
			continue
		}
		switch old, n := olds.node(), nows.node(); {
		case old == nil && n == nil:
			return sortChanges(gone, news)
		case n == nil || old != nil && compare(old.Path, n.Path) < 0:
			gone = append(gone, Change{Kind: Deleted, Node: *old})
			olds.next()
		case old == nil || old.Path != n.Path:
			news = append(news, Change{Kind: Created, Node: *n})
			nows.next()
		default:
			gone, news = appendDifferences(gone, news, old, n)
			olds.next()
			nows.next()
		}
	}
}

// A cursor is a place in a version.
type cursor struct {
	pieces [][]*Node // from the place on
	at     int       // in the first of them
}

// all returns the place of the first znode.
func (c *chunks) all() *cursor {
	if c == nil {
		return &cursor{}
	}
	return &cursor{pieces: c.pieces}
}

// node returns the znode at the place; nil at the end.
func (c *cursor) node() *Node {
	if len(c.pieces) == 0 {
		return nil
	}
	return c.pieces[0][c.at]
}

func (c *cursor) next() {
	c.at++
	if c.at == len(c.pieces[0]) {
		c.pieces, c.at = c.pieces[1:], 0
	}
}

// sharePiece reports whether both are at the beginning of the same piece.
func (c *cursor) sharePiece(d *cursor) bool {
	return c.at == 0 && d.at == 0 && len(c.pieces) > 0 && len(d.pieces) > 0 && len(c.pieces[0]) == len(d.pieces[0]) &&
		&c.pieces[0][0] == &d.pieces[0][0]
}

// appendDifferences adds what has happened to a znode that is in both versions.
func appendDifferences(gone, news []Change, old, n *Node) (_, _ []Change) {
	switch {
	case old == n || old.Stat.Czxid == n.Stat.Czxid && old.Stat.Mzxid == n.Stat.Mzxid:
	case old.Stat.Czxid == n.Stat.Czxid:
		news = append(news, Change{Kind: Changed, Node: *n, Old: *old})
	default:
		gone = append(gone, Change{Kind: Deleted, Node: *old})
		news = append(news, Change{Kind: Created, Node: *n})
	}
	return gone, news
}

// sortChanges puts deletions first, children before parents, and the others in the order of their zxids.
func sortChanges(gone, news []Change) []Change {
	slices.SortFunc(gone, func(a, b Change) int { return compare(b.Node.Path, a.Node.Path) })
	slices.SortStableFunc(news, func(a, b Change) int {
		if d := cmp.Compare(a.zxid(), b.zxid()); d != 0 {
			return d
		}
		return compare(a.Node.Path, b.Node.Path) // of one transaction
	})
	return append(gone, news...)
}

// zxid returns the transaction that the change is told as.
func (c Change) zxid() int64 {
	if c.Kind == Created {
		return c.Node.Stat.Czxid
	}
	return c.Node.Stat.Mzxid
}
