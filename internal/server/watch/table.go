package watch

import (
	"math"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/server/slab"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Watcher identifies a connection that sets watches. The table's owner chooses the numbers.
type Watcher int64

// Delivery is an event and the watcher that it is for.
type Delivery struct {
	To    Watcher
	Event zk.Event
	Once  bool // a one-shot watch was used up
}

// A Table holds watches. The kinds of one watcher on one path are independent of each other;
// setting a watch twice is setting it once. Not safe for concurrent use.
//
// A watch is in two lists, that of its place (path and kind) and that of its watcher, and in one
// map that finds it. What the lists are made of are numbers into slices, so that a waiting lock
// contender costs little more than the text of its paths.
type Table struct {
	watches  slab.Slab[watch]
	paths    slab.Slab[place]
	watchers slab.Slab[holder]

	byKey     map[key]uint32     // into watches
	byPath    map[string]uint32  // into paths
	byWatcher map[Watcher]uint32 // into watchers

	counts    [kinds]int
	recursive map[uint64]int // how many recursive watches there are on paths of each hash
	seed      uint64         // of these hashes
	bytes     int            // of all watches, as Bytes counts them
	stamp     uint64         // of the last trigger
}

// kinds is how many kinds there are, 0 included: that is none, and WatchAny holds none.
const kinds = int(zk.WatchPersistentRecursive) + 1

// key identifies a watch.
type key struct {
	holder, place uint32
	kind          uint8
}

type watch struct {
	key
	placePrev, placeNext   uint32 // of the same path and kind
	holderPrev, holderNext uint32 // of the same watcher
}

// A place is a path that has watches: the first of each kind.
type place struct {
	path  string
	first [kinds]uint32
}

// A holder is a watcher that has watches.
type holder struct {
	id    Watcher
	first uint32
	count int32
	bytes int
	stamp uint64 // the last trigger that reached it
}

// NewTable returns an empty table. seed is any number that clients do not know: otherwise they could choose paths of one hash.
func NewTable(seed uint64) *Table {
	return &Table{
		byKey:     map[key]uint32{},
		byPath:    map[string]uint32{},
		byWatcher: map[Watcher]uint32{},
		recursive: map[uint64]int{},
		seed:      seed,
	}
}

// Add sets a watch; kind is one of WatchChildren, WatchData (also of a znode that is not there),
// WatchPersistent and WatchPersistentRecursive.
func (t *Table) Add(w Watcher, path string, kind zk.WatchKind) {
	h, ok := t.byWatcher[w]
	if !ok {
		h = t.watchers.Take()
		t.watchers.At(h).id = w
		t.byWatcher[w] = h
	}
	p, ok := t.byPath[path]
	if !ok {
		p = t.paths.Take()
		path = strings.Clone(path) // which may be a part of something large
		t.paths.At(p).path = path
		t.byPath[path] = p
	}
	k := key{h, p, uint8(kind)}
	if _, ok := t.byKey[k]; ok {
		return
	}
	i := t.watches.Take()
	t.byKey[k] = i
	at, hold := t.paths.At(p), t.watchers.At(h)
	*t.watches.At(i) = watch{key: k, placeNext: at.first[kind], holderNext: hold.first}
	if next := at.first[kind]; next != 0 {
		t.watches.At(next).placePrev = i
	}
	if next := hold.first; next != 0 {
		t.watches.At(next).holderPrev = i
	}
	at.first[kind], hold.first = i, i
	hold.count++
	hold.bytes += Bytes + len(path)
	t.bytes += Bytes + len(path)
	t.counts[kind]++
	if kind == zk.WatchPersistentRecursive {
		t.recursive[extend(t.seed, path)]++
	}
}

// Check returns zk.OK if w has a watch of that kind on path, else ErrNoWatcher. WatchAny asks for
// a watch of any kind, and an unknown kind is ErrMarshalling, as in the protocol.
func (t *Table) Check(w Watcher, path string, kind zk.WatchKind) zk.Code {
	return t.each(w, path, kind, func(uint32) {})
}

// Remove takes away what Check would find; no event is sent.
func (t *Table) Remove(w Watcher, path string, kind zk.WatchKind) zk.Code {
	return t.each(w, path, kind, t.drop)
}

// each calls do with the watches that w has on path.
func (t *Table) each(w Watcher, path string, kind zk.WatchKind, do func(uint32)) zk.Code {
	if kind < zk.WatchChildren || int(kind) >= kinds {
		return zk.ErrMarshalling
	}
	code := zk.ErrNoWatcher
	h, p := t.byWatcher[w], t.byPath[path]
	for k := zk.WatchChildren; int(k) < kinds; k++ {
		if k != kind && kind != zk.WatchAny {
			continue
		}
		if i, ok := t.byKey[key{h, p, uint8(k)}]; ok {
			do(i)
			code = zk.OK
		}
	}
	return code
}

// RemoveAll takes away all watches of w.
func (t *Table) RemoveAll(w Watcher) { t.RemoveSome(w, math.MaxInt) }

// RemoveSome takes away up to n watches of w, and reports whether there are more: its connection has ended.
func (t *Table) RemoveSome(w Watcher, n int) (more bool) {
	h, ok := t.byWatcher[w]
	if !ok {
		return false
	}
	for i := t.watchers.At(h).first; i != 0; n-- {
		if n == 0 {
			return true
		}
		next := t.watches.At(i).holderNext
		t.drop(i)
		i = next
	}
	return false
}

// drop takes a watch out, and its path and its watcher with the last of theirs.
func (t *Table) drop(i uint32) {
	v := *t.watches.At(i)
	at, hold := t.paths.At(v.place), t.watchers.At(v.holder)
	if v.placePrev != 0 {
		t.watches.At(v.placePrev).placeNext = v.placeNext
	} else {
		at.first[v.kind] = v.placeNext
	}
	if v.placeNext != 0 {
		t.watches.At(v.placeNext).placePrev = v.placePrev
	}
	if v.holderPrev != 0 {
		t.watches.At(v.holderPrev).holderNext = v.holderNext
	} else {
		hold.first = v.holderNext
	}
	if v.holderNext != 0 {
		t.watches.At(v.holderNext).holderPrev = v.holderPrev
	}
	delete(t.byKey, v.key)
	t.counts[v.kind]--
	if zk.WatchKind(v.kind) == zk.WatchPersistentRecursive {
		hash := extend(t.seed, at.path)
		t.recursive[hash]--
		if t.recursive[hash] == 0 {
			delete(t.recursive, hash)
		}
	}
	hold.bytes -= Bytes + len(at.path)
	t.bytes -= Bytes + len(at.path)
	if at.first == [kinds]uint32{} {
		delete(t.byPath, at.path)
		t.paths.Give(v.place)
	}
	hold.count--
	if hold.count == 0 {
		delete(t.byWatcher, hold.id)
		t.watchers.Give(v.holder)
	}
	t.watches.Give(i)
}
