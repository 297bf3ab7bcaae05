package watch

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// Trigger appends to dst the deliveries of ev, each watcher once, and takes away the one-shot
// watches that it uses up. Watchers come in no particular order.
func (t *Table) Trigger(dst []Delivery, ev zk.Event) []Delivery {
	t.stamp++
	if p, ok := t.byPath[ev.Path]; ok {
		for _, kind := range hearing[ev.Type] {
			dst = t.tell(dst, p, kind, ev)
		}
	}
	if ev.Type != zk.NodeChildrenChanged {
		dst = t.tellAbove(dst, ev)
	}
	return dst
}

// hearing says which kinds of watches on a path an event of that path is for, recursive ones aside.
var hearing = [...][]zk.WatchKind{
	zk.NodeCreated:         {zk.WatchData, zk.WatchPersistent},
	zk.NodeDeleted:         {zk.WatchData, zk.WatchChildren, zk.WatchPersistent},
	zk.NodeDataChanged:     {zk.WatchData, zk.WatchPersistent},
	zk.NodeChildrenChanged: {zk.WatchChildren, zk.WatchPersistent},
}

// tellAbove tells the recursive watchers of the event's path and of all paths above it.
func (t *Table) tellAbove(dst []Delivery, ev zk.Event) []Delivery {
	for path := ev.Path; len(t.recursive) > 0; {
		if t.recursive[len(path)] > 0 { // a path may have thousands of others above it, too many to look all of them up
			if p, ok := t.byPath[path]; ok {
				dst = t.tell(dst, p, zk.WatchPersistentRecursive, ev)
			}
		}
		cut := strings.LastIndexByte(path, '/')
		if cut < 0 || path == "/" {
			break
		}
		path = path[:max(cut, 1)]
	}
	return dst
}

// tell appends the deliveries for the watches of one kind on one path. Dropping the last watch gives the place back,
// so that it is not looked at again.
func (t *Table) tell(dst []Delivery, p uint32, kind zk.WatchKind, ev zk.Event) []Delivery {
	for i := t.paths.At(p).first[kind]; i != 0; {
		v := t.watches.At(i)
		next := v.placeNext
		if h := t.watchers.At(v.holder); h.stamp != t.stamp {
			h.stamp = t.stamp
			dst = append(dst, Delivery{h.id, ev})
		}
		if kind == zk.WatchData || kind == zk.WatchChildren {
			t.drop(i)
		}
		i = next
	}
	return dst
}
