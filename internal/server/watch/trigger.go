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

// tellAbove tells the recursive watchers of the event's path and of all paths above it. A path may have thousands of others above it,
// too many to look each of them up from its first byte, so one hash goes along the path.
func (t *Table) tellAbove(dst []Delivery, ev zk.Event) []Delivery {
	if len(t.recursive) == 0 {
		return dst
	}
	hash := t.seed
	from, to := 0, min(len("/"), len(ev.Path))
	for {
		hash = extend(hash, ev.Path[from:to])
		if t.recursive[hash] > 0 {
			if p, ok := t.byPath[ev.Path[:to]]; ok {
				dst = t.tell(dst, p, zk.WatchPersistentRecursive, ev)
			}
		}
		if to == len(ev.Path) {
			return dst
		}
		from, to = to, len(ev.Path)
		if cut := strings.IndexByte(ev.Path[from+1:], '/'); cut >= 0 {
			to = from + 1 + cut
		}
	}
}

// extend returns the hash of a text and what follows it (FNV-1a), from the hash of the text; that of no text is any number.
func extend(hash uint64, more string) uint64 {
	for i := range len(more) {
		hash = (hash ^ uint64(more[i])) * 0x100000001b3
	}
	return hash
}

// tell appends the deliveries for the watches of one kind on one path. Dropping the last watch gives the place back,
// so that it is not looked at again.
func (t *Table) tell(dst []Delivery, p uint32, kind zk.WatchKind, ev zk.Event) []Delivery {
	once := kind == zk.WatchData || kind == zk.WatchChildren
	for i := t.paths.At(p).first[kind]; i != 0; {
		v := t.watches.At(i)
		next := v.placeNext
		if h := t.watchers.At(v.holder); h.stamp != t.stamp {
			h.stamp = t.stamp
			dst = append(dst, Delivery{h.id, ev, once})
		}
		if once {
			t.drop(i)
		}
		i = next
	}
	return dst
}
