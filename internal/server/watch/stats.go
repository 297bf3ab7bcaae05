package watch

import "github.com/lockkeeper/lockkeeper/zk"

// The numbers and listings below follow ZooKeeper's two tables: one-shot data, persistent and
// recursive watches are in the data table; one-shot watches on children and, once more, persistent
// ones are in the child table. Its wchs, wchc and wchp look at the data table alone.

// Count returns the number of watches as ZooKeeper's mntr counts them, the persistent ones
// twice: they stand for data and for children.
func (t *Table) Count() int {
	return len(t.byKey) + t.counts[zk.WatchPersistent]
}

// CountOf returns the number of watches that w has set.
func (t *Table) CountOf(w Watcher) int {
	h, ok := t.byWatcher[w]
	if !ok {
		return 0
	}
	return int(t.watchers.At(h).count)
}

// Bytes is about what a watch takes besides the text of its path, which may belong to several.
const Bytes = 160

// Bytes returns about how much memory all watches take. The text of a path counts once for each of its watches.
func (t *Table) Bytes() int { return t.bytes }

// BytesOf returns about how much memory the watches of w take.
func (t *Table) BytesOf(w Watcher) int {
	h, ok := t.byWatcher[w]
	if !ok {
		return 0
	}
	return t.watchers.At(h).bytes
}

// Summary returns the numbers of ZooKeeper's wchs: watchers, paths and watches of the data table.
func (t *Table) Summary() (watchers, paths, watches int) {
	seen, last := map[Watcher]struct{}{}, ""
	t.dataTable(func(w Watcher, path string) {
		seen[w] = struct{}{}
		if watches == 0 || path != last {
			paths, last = paths+1, path
		}
		watches++
	})
	return len(seen), paths, watches
}

// ByPath returns the watchers of each path in the data table, as in wchp. It walks the whole table.
func (t *Table) ByPath() map[string][]Watcher {
	out := map[string][]Watcher{}
	t.dataTable(func(w Watcher, path string) { out[path] = append(out[path], w) })
	return out
}

// ByWatcher returns the paths of each watcher in the data table, as in wchc. It walks the whole
// table.
func (t *Table) ByWatcher() map[Watcher][]string {
	out := map[Watcher][]string{}
	t.dataTable(func(w Watcher, path string) { out[w] = append(out[w], path) })
	return out
}

// dataTable calls do once for each pair of a watcher and a path in the data table.
func (t *Table) dataTable(do func(w Watcher, path string)) {
	for path, p := range t.byPath {
		t.stamp++
		for _, kind := range []zk.WatchKind{zk.WatchData, zk.WatchPersistent, zk.WatchPersistentRecursive} {
			for i := t.paths.At(p).first[kind]; i != 0; {
				v := t.watches.At(i)
				if h := t.watchers.At(v.holder); h.stamp != t.stamp {
					h.stamp = t.stamp
					do(h.id, path)
				}
				i = v.placeNext
			}
		}
	}
}
