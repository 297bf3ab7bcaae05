package roles

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A chronicle is what became of a subtree, at the leader. w.mu guards it.
type chronicle struct {
	w        *world
	top      string
	versions map[string]string // data by path and mzxid
	states   map[string][]int  // when the subtree was like this, counted in changes
	changes  int
}

// text is a subtree as text.
func text(nodes func(yield func(path, data string))) string {
	var b strings.Builder
	nodes(func(path, data string) { fmt.Fprintf(&b, "%s=%s ", path, data) })
	return b.String()
}

func (c *chronicle) heed(ev zk.Event) {
	if ev.Path != c.top && !strings.HasPrefix(ev.Path, c.top+"/") {
		return
	}
	if data, stat, code := c.w.tree.Get(nil, ev.Path); code == zk.OK {
		c.versions[fmt.Sprint(ev.Path, stat.Mzxid)] = string(data)
	}
	c.changes++
	state := c.now()
	c.states[state] = append(c.states[state], c.changes)
}

// now returns the subtree as text.
func (c *chronicle) now() string {
	return text(func(yield func(path, data string)) { c.walk(c.top, yield) })
}

func (c *chronicle) walk(path string, yield func(path, data string)) {
	data, _, code := c.w.tree.Get(nil, path)
	if code != zk.OK {
		return
	}
	yield(path, string(data))
	for _, name := range []string{"a", "b", "config", "x", "y"} { // all that there are
		c.walk(path+"/"+name, yield)
	}
}

// shown returns a view as text.
func shown(v cache.View) string {
	return text(func(yield func(path, data string)) {
		for n := range v.All() {
			yield(n.Path, string(n.Data))
		}
	})
}

// caches: readers follow a subtree that a writer changes.
func caches(w *world) {
	w.expires = true
	c := &chronicle{w: w, top: "/c", versions: map[string]string{}, states: map[string][]int{"": {0}}}
	w.heed = c.heed
	rnd := w.actor()
	end := time.Now().Add(turmoil)
	w.write("/c", "begun")
	w.write("/c/config", `{"n": 0}`)
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	var readers []*cache.Cache
	var told []map[string]cache.Node
	for i := range 2 {
		k := w.join(fmt.Sprint("reader", i))
		r, err := cache.Open(w.ctx, k.Keeper, "/c", cache.Options{})
		must(w.t, err)
		readers = append(readers, r)
		told = append(told, map[string]cache.Node{})
		w.work.Go(func() { w.follow(ctx, c, r, told[i]) })
		w.work.Go(func() { w.views(ctx, c, r) })
	}
	type settings struct{ N int }
	valid := func(s settings) error {
		if s.N%2 != 0 {
			return errors.New("odd")
		}
		return nil
	}
	v, err := config.Open(w.ctx, w.join("config").Keeper, []string{"/c/config"}, config.Options[settings]{Validate: valid})
	must(w.t, err)
	w.work.Go(func() {
		last := int64(0)
		for st, err := range v.Changes(ctx) {
			if err != nil {
				return
			}
			if zxid := st.Sources[0].Stat.Mzxid; st.Value.N%2 != 0 || zxid < last {
				w.violated("configuration %d of zxid %#x is in force after %#x", st.Value.N, zxid, last)
			} else {
				last = zxid
			}
		}
	})
	w.work.Go(func() {
		paths := []string{"/c", "/c/a", "/c/a/x", "/c/a/y", "/c/b", "/c/b/x"}
		for n := 1; time.Now().Before(end); n++ {
			path := paths[rnd.IntN(len(paths))]
			switch k := rnd.IntN(20); {
			case k < 9:
				w.write(path, fmt.Sprint(n))
			case k < 15:
				w.remove(path)
			case k < 17:
				w.write("/c/config", fmt.Sprintf(`{"n": %d}`, n)) // half of them are bad
			case k < 18:
				must(w.t, w.other.DeleteAll(w.ctx, "/c/a"))
			default:
				between(rnd, time.Millisecond, 3*time.Second)
			}
			if rnd.IntN(3) > 0 {
				between(rnd, time.Millisecond, 400*time.Millisecond)
			}
		}
		w.write("/c/config", `{"n": 1000000}`)
	})
	w.faults()
	w.mu.Lock()
	final := c.now()
	w.mu.Unlock()
	for i, r := range readers {
		if got := shown(r.View()); got != final {
			w.violated("in the end reader %d has %s, want %s", i, got, final)
		}
		if st, _ := r.State(); st.Stale != nil {
			w.violated("in the end reader %d is stale: %v", i, st.Stale)
		}
	}
	if v.Get().N != 1000000 {
		w.violated("in the end configuration %d is in force", v.Get().N)
	}
	stop()
	v.Close(w.ctx)
	for _, r := range readers {
		r.Close(w.ctx)
	}
	w.work.Wait()
	for i, r := range readers {
		if len(told[i]) != r.View().Len() {
			w.violated("the changes come to %d znodes, want %d", len(told[i]), r.View().Len())
		}
		for n := range r.View().All() {
			if string(told[i][n.Path].Data) != string(n.Data) {
				w.violated("the changes come to %s=%s, want %s", n.Path, told[i][n.Path].Data, n.Data)
			}
		}
	}
}

// write sets the data of a znode, which it creates if it is missing.
func (w *world) write(path, data string) {
	_, err := w.other.Put(w.ctx, path, []byte(data), nil)
	must(w.t, err)
}

// follow notes what a reader is told, and looks whether it may be told so.
func (w *world) follow(ctx context.Context, c *chronicle, r *cache.Cache, told map[string]cache.Node) {
	for ch, err := range r.Changes(ctx) {
		if err != nil {
			return
		}
		n, path := ch.Node, ch.Node.Path
		old, there := told[path]
		w.mu.Lock()
		data, written := c.versions[fmt.Sprint(path, n.Stat.Mzxid)]
		w.mu.Unlock()
		wrong := ""
		switch ch.Kind {
		case cache.Created:
			switch {
			case there:
				wrong = "it was there"
			case !written || data != string(n.Data):
				wrong = "it was never written"
			}
			told[path] = n
		case cache.Changed:
			switch {
			case !there || string(ch.Old.Data) != string(old.Data):
				wrong = fmt.Sprintf("it was %s before", old.Data)
			case n.Stat.Mzxid <= old.Stat.Mzxid:
				wrong = "it goes back"
			case n.Stat.Czxid != old.Stat.Czxid:
				wrong = "it is another znode"
			case !written || data != string(n.Data):
				wrong = "it was never written"
			}
			told[path] = n
		case cache.Deleted:
			if !there || string(old.Data) != string(n.Data) {
				wrong = fmt.Sprintf("it was %s before", old.Data)
			}
			delete(told, path)
		}
		if wrong != "" {
			w.violated("a change tells of %v %s=%s, but %s", ch.Kind, path, n.Data, wrong)
		}
	}
}

// views looks whether each view is what the leader had at one moment, and not an earlier one than the view before.
func (w *world) views(ctx context.Context, c *chronicle, r *cache.Cache) {
	last := 0
	for {
		st, changed := r.State()
		w.mu.Lock()
		at := -1
		for _, moment := range c.states[shown(st.View)] {
			if moment >= last && at < 0 {
				at = moment
			}
		}
		w.mu.Unlock()
		if at < 0 {
			w.violated("a view is not what the leader has had since change %d: %s", last, shown(st.View))
			return
		}
		last = at
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
