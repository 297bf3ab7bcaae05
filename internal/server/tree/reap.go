package tree

import "github.com/lockkeeper/lockkeeper/internal/server/txn"

// A Reaper looks for containers that have lost their last child and for znodes that have outlived their time to live, a
// stretch at a time, while the tree may change between the stretches. The draft's DeleteContainer looks again: what was
// found may have come to life since.
type Reaper struct {
	tree   *Tree
	groups []int64 // left to look through
	last   ref     // looked at last in the first of them, and not found; 0 is none
	czxid  int64   // of last
}

// Reaper begins to look.
func (t *Tree) Reaper() *Reaper {
	return &Reaper{tree: t, groups: []int64{txn.OwnerContainer, txn.OwnerTTL}}
}

// Next looks at up to n further znodes and returns the paths of those that it has found, at most max; more is false if all
// have been looked at. The time now is in milliseconds since 1970. Containers that never had a child count once they are
// neverUsed milliseconds old, unless that is 0. What was found is to be deleted before the next call, which finds it again
// otherwise.
func (r *Reaper) Next(now, neverUsed int64, n, max int) (paths []string, more bool) {
	t := r.tree
	for ; len(r.groups) > 0; r.groups, r.last = r.groups[1:], 0 {
		for at := r.next(); at != 0; at = t.younger(at) {
			if n == 0 || len(paths) == max {
				return paths, true
			}
			n--
			node := t.nodes.At(at)
			a := t.attrs(node)
			if a.reapable(t.children(node), now, neverUsed) {
				paths = append(paths, t.path(at))
			} else {
				r.last, r.czxid = at, node.czxid
			}
		}
	}
	return paths, false
}

// next returns where to go on in the first group: behind the last, or where the group begins if that is gone.
func (r *Reaper) next() ref {
	t, key := r.tree, r.groups[0]
	if r.last != 0 {
		if n := t.nodes.At(r.last); n.blob != "" && n.czxid == r.czxid && groupOf(n.owner) == key {
			return t.younger(r.last)
		}
	}
	return t.groups[key].first
}

func (a *attrs) reapable(children int32, now, neverUsed int64) bool {
	switch {
	case children != 0:
		return false
	case groupOf(a.owner) == txn.OwnerContainer:
		// The counter of a container that was used is not 0; past its end it is negative.
		return a.cversion != 0 || neverUsed != 0 && now-a.mtime > neverUsed
	case groupOf(a.owner) == txn.OwnerTTL:
		return now-a.mtime > a.owner&txn.TTLMax
	}
	return false
}
