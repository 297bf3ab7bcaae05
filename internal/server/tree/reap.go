package tree

import "github.com/lockkeeper/lockkeeper/internal/server/txn"

// Reapable returns the paths of at most max containers that have lost their last child and znodes
// that have outlived their time to live, at now (milliseconds since 1970). Containers that never
// had a child count once they are neverUsed milliseconds old, unless that is 0. The draft's
// DeleteContainer looks again: what is returned here may have come to life since.
func (t *Tree) Reapable(now, neverUsed int64, max int) []string {
	var paths []string
	for _, key := range []int64{txn.OwnerContainer, txn.OwnerTTL} {
		for r := t.groups[key].first; r != 0 && len(paths) < max; r = t.younger(r) {
			n := t.nodes.at(r)
			a := t.attrs(n)
			if a.reapable(t.children(n), now, neverUsed) {
				paths = append(paths, t.path(r))
			}
		}
	}
	return paths
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
