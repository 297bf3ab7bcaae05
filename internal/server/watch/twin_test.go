package watch

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A twin is the table in its slow and obvious form: a set that is looked through as a whole.
type twin map[twinWatch]bool

type twinWatch struct {
	w    Watcher
	path string
	kind zk.WatchKind
}

func (t twin) remove(w Watcher, path string, kind zk.WatchKind) zk.Code {
	code := zk.ErrNoWatcher
	for v := range t {
		if v.w == w && v.path == path && (kind == v.kind || kind == zk.WatchAny) {
			delete(t, v)
			code = zk.OK
		}
	}
	return code
}

func (t twin) trigger(ev zk.Event) []Delivery {
	told := map[Watcher]bool{} // and whether by a one-shot watch
	for v := range t {
		here := v.path == ev.Path
		children := ev.Type == zk.NodeChildrenChanged
		var hit bool
		switch v.kind {
		case zk.WatchData:
			hit = here && !children
		case zk.WatchChildren:
			hit = here && (children || ev.Type == zk.NodeDeleted)
		case zk.WatchPersistent:
			hit = here
		case zk.WatchPersistentRecursive:
			hit = !children && (here || v.path == "/" || strings.HasPrefix(ev.Path, v.path+"/"))
		}
		if !hit {
			continue
		}
		once := v.kind <= zk.WatchData
		told[v.w] = told[v.w] || once
		if once {
			delete(t, v)
		}
	}
	var out []Delivery
	for w, once := range told {
		out = append(out, Delivery{w, ev, once})
	}
	return sorted(out)
}

func sorted(d []Delivery) []Delivery {
	slices.SortFunc(d, func(a, b Delivery) int { return cmp.Compare(a.To, b.To) })
	return d
}

// diff says how the table differs from the twin; "" if it does not.
func (t twin) diff(tab *Table) string {
	count, summary := 0, map[Watcher]map[string]bool{}
	of := map[Watcher]int{}
	for v := range t {
		count++
		of[v.w]++
		if v.kind == zk.WatchPersistent {
			count++
		}
		if v.kind != zk.WatchChildren {
			if summary[v.w] == nil {
				summary[v.w] = map[string]bool{}
			}
			summary[v.w][v.path] = true
		}
		if tab.Check(v.w, v.path, v.kind) != zk.OK {
			return fmt.Sprintf("lacks %+v", v)
		}
	}
	if tab.Count() != count {
		return fmt.Sprintf("Count = %d, want %d", tab.Count(), count)
	}
	for w := range Watcher(6) {
		if tab.CountOf(w) != of[w] {
			return fmt.Sprintf("CountOf(%d) = %d, want %d", w, tab.CountOf(w), of[w])
		}
	}
	pairs, paths := 0, map[string]bool{}
	for w, set := range summary {
		pairs += len(set)
		maps.Copy(paths, set)
		got := tab.ByWatcher()[w]
		slices.Sort(got)
		if want := slices.Sorted(maps.Keys(set)); !slices.Equal(got, want) {
			return fmt.Sprintf("ByWatcher[%d] = %q, want %q", w, got, want)
		}
		for p := range set {
			if !slices.Contains(tab.ByPath()[p], w) {
				return fmt.Sprintf("ByPath[%s] lacks %d", p, w)
			}
		}
	}
	if a, b, c := tab.Summary(); a != len(summary) || b != len(paths) || c != pairs {
		return fmt.Sprintf("Summary = %d, %d, %d, want %d, %d, %d", a, b, c, len(summary), len(paths), pairs)
	}
	if held := tab.watches.Len(); held != len(t) {
		return fmt.Sprintf("holds %d watches, want %d", held, len(t))
	}
	if held := tab.watchers.Len(); held != len(of) || held != len(tab.byWatcher) {
		return fmt.Sprintf("holds %d watchers, want %d", held, len(of))
	}
	if held := tab.paths.Len(); held != len(tab.byPath) {
		return fmt.Sprintf("holds %d paths, %d indexed", held, len(tab.byPath))
	}
	return ""
}

func TestLikeTwin(t *testing.T) {
	base := rand.Uint64N(1 << 40)
	for seed := base; seed < base+25; seed++ {
		g := rand.New(rand.NewPCG(seed, 2))
		tab, tw := NewTable(1), twin{}
		paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/a/bc", "/d"}
		kinds := []zk.WatchKind{zk.WatchChildren, zk.WatchData, zk.WatchPersistent, zk.WatchPersistentRecursive}
		for i := range 400 {
			w, path := Watcher(g.IntN(6)), paths[g.IntN(len(paths))]
			switch g.IntN(8) {
			default:
				kind := kinds[g.IntN(len(kinds))]
				if seed%2 == 0 && kind == zk.WatchPersistentRecursive {
					kind = zk.WatchData
				}
				tab.Add(w, path, kind)
				tw[twinWatch{w, path, kind}] = true
			case 0, 1, 2:
				ev := zk.Event{Type: zk.EventType(1 + g.IntN(4)), Path: path, Zxid: int64(i)}
				if got, want := sorted(tab.Trigger(nil, ev)), tw.trigger(ev); !slices.Equal(got, want) {
					t.Fatalf("seed %d: Trigger(%+v) = %v, want %v", seed, ev, got, want)
				}
			case 3:
				kind := zk.WatchKind(1 + g.IntN(5))
				if got, want := tab.Remove(w, path, kind), tw.remove(w, path, kind); got != want {
					t.Fatalf("seed %d: Remove(%d, %s, %d) = %v, want %v", seed, w, path, kind, got, want)
				}
			case 4:
				if g.IntN(4) == 0 {
					tab.RemoveAll(w)
					maps.DeleteFunc(tw, func(v twinWatch, _ bool) bool { return v.w == w })
				}
			}
			if diff := tw.diff(tab); diff != "" {
				t.Fatalf("seed %d, step %d: %s", seed, i, diff)
			}
		}
	}
}
