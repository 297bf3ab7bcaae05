package watch

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// For each kind of watch: the events that trigger it, on which paths, and whether they use it up.
func TestTriggers(t *testing.T) {
	const created, deleted, data, children = zk.NodeCreated, zk.NodeDeleted, zk.NodeDataChanged, zk.NodeChildrenChanged
	for _, c := range []struct {
		kind  zk.WatchKind
		path  string // of the event; the watch is on /p
		hears []zk.EventType
		stays bool
	}{
		{zk.WatchData, "/p", []zk.EventType{created, deleted, data}, false},
		{zk.WatchChildren, "/p", []zk.EventType{deleted, children}, false},
		{zk.WatchPersistent, "/p", []zk.EventType{created, deleted, data, children}, true},
		{zk.WatchPersistentRecursive, "/p", []zk.EventType{created, deleted, data}, true},
		{zk.WatchData, "/p/q", nil, true},
		{zk.WatchChildren, "/p/q", nil, true},
		{zk.WatchPersistent, "/p/q", nil, true},
		{zk.WatchPersistentRecursive, "/p/q", []zk.EventType{created, deleted, data}, true},
		{zk.WatchPersistentRecursive, "/p/q/r", []zk.EventType{created, deleted, data}, true},
		{zk.WatchPersistentRecursive, "/pq", nil, true},
		{zk.WatchPersistentRecursive, "/", nil, true},
	} {
		for _, typ := range []zk.EventType{created, deleted, data, children} {
			tab := NewTable(1)
			tab.Add(7, "/p", c.kind)
			ev := zk.Event{Type: typ, Path: c.path, Zxid: 3}
			got := tab.Trigger(nil, ev)
			heard := slices.Contains(c.hears, typ)
			if heard && !slices.Equal(got, []Delivery{{7, ev, !c.stays}}) || !heard && len(got) != 0 {
				t.Errorf("kind %d on /p, %v of %s: %v, want heard %v", c.kind, typ, c.path, got, heard)
			}
			if stays := tab.Check(7, "/p", c.kind) == zk.OK; stays != (c.stays || !heard) {
				t.Errorf("kind %d on /p after %v of %s: stays %v", c.kind, typ, c.path, stays)
			}
		}
	}
}

// However many reasons a watcher has to hear of an event, it is told once, and all that can be used
// up is.
func TestToldOnce(t *testing.T) {
	tab := NewTable(1)
	for _, kind := range []zk.WatchKind{zk.WatchData, zk.WatchChildren, zk.WatchPersistent, zk.WatchPersistentRecursive} {
		tab.Add(1, "/a/b", kind)
		tab.Add(1, "/a/b", kind)
	}
	tab.Add(1, "/a", zk.WatchPersistentRecursive)
	tab.Add(1, "/", zk.WatchPersistentRecursive)
	if got := tab.Trigger(nil, zk.Event{Type: zk.NodeDeleted, Path: "/a/b"}); len(got) != 1 {
		t.Errorf("told %v", got)
	}
	if tab.CountOf(1) != 4 {
		t.Errorf("%d watches left, want 4", tab.CountOf(1))
	}
	if got := tab.Trigger(nil, zk.Event{Type: zk.NodeCreated, Path: "/x"}); len(got) != 1 {
		t.Errorf("recursive on the root: told %v", got)
	}
}

// An event of a path of thousands of parts looks up no more paths above it than there are recursive watches. To look all of
// them up took seconds, in which no request was carried out.
func TestALongPathIsLookedThroughOnce(t *testing.T) {
	tab := NewTable(1)
	tab.Add(1, "/", zk.WatchPersistentRecursive)
	tab.Add(2, "/a/a", zk.WatchPersistentRecursive)
	tab.Add(3, "/b/a", zk.WatchPersistentRecursive)
	for i := range 20 {
		tab.Add(1, fmt.Sprint("/", i), zk.WatchData)
	}
	ev := zk.Event{Type: zk.NodeDataChanged, Path: strings.Repeat("/a", 300000)}
	took := time.Hour
	var got []Delivery
	for i := 0; i < 3 && took > time.Second; i++ { // the machine may be busy
		began := time.Now()
		got = sorted(tab.Trigger(nil, ev))
		took = time.Since(began)
	}
	if took > time.Second {
		t.Errorf("it took %v", took)
	}
	if want := []Delivery{{1, ev, false}, {2, ev, false}}; !slices.Equal(got, want) {
		t.Errorf("%d are told, want %d", len(got), len(want))
	}
}

// Nor does it cost more when there is a recursive watch on some other path of each length.
func TestManyRecursiveWatchesCostOthersNothing(t *testing.T) {
	const depth = 4000
	cost := func(tab *Table, ev zk.Event) (least time.Duration) {
		least = time.Hour
		for range 20 {
			began := time.Now()
			tab.Trigger(nil, ev)
			least = min(least, time.Since(began))
		}
		return least
	}
	few, many := NewTable(1), NewTable(1)
	few.Add(1, "/b", zk.WatchPersistentRecursive)
	for n := range depth {
		many.Add(1, strings.Repeat("/b", n+1), zk.WatchPersistentRecursive)
	}
	ev := zk.Event{Type: zk.NodeDataChanged, Path: strings.Repeat("/a", depth)}
	if one, all := cost(few, ev), cost(many, ev); all > 4*one {
		t.Errorf("an event takes %v beside %d recursive watches on other paths, and %v beside one", all, depth, one)
	}
}

// Removing takes away the kind that is named and no other.
func TestRemove(t *testing.T) {
	all := []zk.WatchKind{zk.WatchChildren, zk.WatchData, zk.WatchPersistent, zk.WatchPersistentRecursive}
	for kind := zk.WatchKind(-1); kind <= 6; kind++ {
		tab := NewTable(1)
		for _, k := range all {
			tab.Add(1, "/p", k)
		}
		tab.Add(2, "/p", zk.WatchData)
		tab.Add(1, "/q", zk.WatchData)
		want := zk.OK
		if kind < 1 || kind > 5 {
			want = zk.ErrMarshalling
		}
		if got := tab.Check(1, "/p", kind); got != want {
			t.Errorf("Check(%d) = %v, want %v", kind, got, want)
		}
		if got := tab.Remove(1, "/p", kind); got != want {
			t.Errorf("Remove(%d) = %v, want %v", kind, got, want)
		}
		for _, k := range all {
			gone := want == zk.OK && (k == kind || kind == zk.WatchAny)
			if got := tab.Check(1, "/p", k) != zk.OK; got != gone {
				t.Errorf("after Remove(%d), kind %d gone: %v", kind, k, got)
			}
		}
		if tab.Check(2, "/p", zk.WatchData) != zk.OK || tab.Check(1, "/q", zk.WatchData) != zk.OK {
			t.Errorf("Remove(%d) took others along", kind)
		}
		if want == zk.OK && tab.Remove(1, "/p", kind) != zk.ErrNoWatcher {
			t.Errorf("Remove(%d) twice found something", kind)
		}
	}
	tab := NewTable(1)
	if tab.Check(1, "/p", zk.WatchAny) != zk.ErrNoWatcher {
		t.Error("an empty table has a watch")
	}
	tab.RemoveAll(1)
}

func TestWatchesAreRemovedInPieces(t *testing.T) {
	tab := NewTable(1)
	for i := range 10 {
		tab.Add(1, fmt.Sprint("/", i), zk.WatchData)
		tab.Add(2, fmt.Sprint("/", i), zk.WatchData)
	}
	for _, want := range []struct {
		more bool
		left int
	}{{true, 6}, {true, 2}, {false, 0}, {false, 0}} {
		if more := tab.RemoveSome(1, 4); more != want.more || tab.CountOf(1) != want.left {
			t.Errorf("more %t, %d left, want %+v", more, tab.CountOf(1), want)
		}
	}
	if n := tab.CountOf(2); n != 10 {
		t.Errorf("another watcher has %d watches, want 10", n)
	}
	if tab.RemoveSome(2, 10) {
		t.Error("more than all")
	}
}

func TestSetWatches(t *testing.T) {
	const seen = 10
	nodes := map[string]zk.Stat{
		"/same":     {Mzxid: seen, Pzxid: seen},
		"/data":     {Mzxid: seen + 1, Pzxid: seen},
		"/children": {Mzxid: seen, Pzxid: seen + 1},
	}
	paths := []string{"/same", "/data", "/children", "/gone"}
	tab := NewTable(1)
	got := tab.SetWatches(1, &wire.SetWatchesRequest{
		RelativeZxid: seen, Data: paths, Exist: paths, Child: paths, Persistent: paths, Recursive: paths,
	}, func(path string) (zk.Stat, bool) { s, ok := nodes[path]; return s, ok })
	want := []zk.Event{
		{Type: zk.NodeDataChanged, Path: "/data", Zxid: -1}, {Type: zk.NodeDeleted, Path: "/gone", Zxid: -1},
		{Type: zk.NodeCreated, Path: "/same", Zxid: -1}, {Type: zk.NodeCreated, Path: "/data", Zxid: -1}, {Type: zk.NodeCreated, Path: "/children", Zxid: -1},
		{Type: zk.NodeChildrenChanged, Path: "/children", Zxid: -1}, {Type: zk.NodeDeleted, Path: "/gone", Zxid: -1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("missed %v, want %v", got, want)
	}
	for path, want := range map[string]struct{ data, child bool }{
		"/same": {true, true}, "/data": {false, true}, "/children": {true, false}, "/gone": {true, false}, // by the exist list
	} {
		if d, c := tab.Check(1, path, zk.WatchData) == zk.OK, tab.Check(1, path, zk.WatchChildren) == zk.OK; d != want.data || c != want.child {
			t.Errorf("%s: data %v, children %v, want %+v", path, d, c, want)
		}
		if tab.Check(1, path, zk.WatchPersistent) != zk.OK || tab.Check(1, path, zk.WatchPersistentRecursive) != zk.OK {
			t.Errorf("%s: persistent watches are not set", path)
		}
	}
}

// BenchmarkTrigger sets a one-shot watch and fires it, beside many that it does not concern: on
// other paths, of another kind on the same path.
func BenchmarkTrigger(b *testing.B) {
	for _, others := range []int{0, 100000} {
		b.Run(fmt.Sprint(others), func(b *testing.B) {
			tab := NewTable(1)
			for i := range others {
				tab.Add(Watcher(i), "/lock", zk.WatchChildren)
				tab.Add(Watcher(i), fmt.Sprintf("/lock/n%d", i), zk.WatchData)
			}
			var out []Delivery
			b.ReportAllocs()
			for b.Loop() {
				tab.Add(-1, "/lock", zk.WatchData)
				out = tab.Trigger(out[:0], zk.Event{Type: zk.NodeDataChanged, Path: "/lock"})
				if len(out) != 1 {
					b.Fatal(out)
				}
			}
		})
	}
}

// BenchmarkMemory measures what a waiting lock contender costs: watches on the node before its own
// and on its own.
func BenchmarkMemory(b *testing.B) {
	const n = 100000
	for b.Loop() {
		name := func(i int) string {
			return fmt.Sprintf("/lockkeeper/locks/nightly-backup/_c_0123456789abcdef0123456789abcdef-lock-%010d", i)
		}
		before := heapInUse()
		tab := NewTable(1)
		for i := range n {
			tab.Add(Watcher(i), name(i), zk.WatchData)
			tab.Add(Watcher(i), name(i+1), zk.WatchData)
		}
		b.ReportMetric(float64(heapInUse()-before)/n, "bytes/contender")
		runtime.KeepAlive(tab)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
