package roles

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/zk"
)

// groups: members of a group and instances of a service come and go.
func groups(w *world) {
	w.expires = true
	const members = 4
	left := map[string]bool{} // paths of members that have left for certain; guarded by w.mu
	present := make([]map[string]string, members)
	w.heed = func(ev zk.Event) {
		if ev.Type == zk.NodeCreated && left[ev.Path] {
			w.violated("%s was created after its member had left", ev.Path)
		}
	}
	for i := range members {
		c := w.join(fmt.Sprint("member", i))
		rnd := w.actor()
		present[i] = map[string]string{}
		end := time.Now().Add(turmoil)
		w.work.Go(func() {
			for n := 0; time.Now().Before(end); n++ {
				// An id is used by one member, one after the other.
				id := fmt.Sprintf("m%d", i)
				path, isMember := "/g/"+id, rnd.IntN(2) == 0
				if !isMember {
					path = "/services/s/" + id
				}
				w.mu.Lock()
				delete(left, path)
				w.mu.Unlock()
				data := fmt.Sprintf("%s-%d", id, n)
				ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
				leave, set, err := w.enter(ctx, c, id, data, isMember)
				cancel()
				if err != nil {
					w.violated("%s cannot join within 30 s: %v", path, err)
					return
				}
				w.note("%s joined", path)
				if rnd.IntN(2) == 0 {
					between(rnd, time.Second, 8*time.Second)
				}
				if rnd.IntN(2) == 0 {
					ctx, cancel := context.WithTimeout(w.ctx, 3*time.Second)
					data += "-changed"
					if err := set(ctx, data); err != nil {
						w.note("%s: %v", path, err)
					}
					cancel()
				}
				between(rnd, time.Millisecond, []time.Duration{300 * time.Millisecond, 5 * time.Second}[rnd.IntN(2)])
				if time.Now().After(end) {
					present[i][path] = data
					w.work.Go(func() { // leaves when all has been looked at
						time.Sleep(calm + 3*timeout + time.Minute)
						leave(w.ctx)
					})
					return
				}
				ctx, cancel = context.WithTimeout(w.ctx, time.Duration(rnd.Int64N(int64(10*time.Second))))
				err = leave(ctx)
				cancel()
				w.note("%s left: %v", path, err)
				for err != nil { // leaving again looks again
					between(rnd, time.Second, 2*time.Second)
					err = leave(w.ctx)
				}
				w.mu.Lock()
				if _, _, code := w.tree.Get(nil, path); code == zk.OK {
					w.violated("%s is there although its member has left", path)
				}
				left[path] = true
				w.mu.Unlock()
				between(rnd, time.Millisecond, 2*time.Second)
			}
		})
	}
	watcher := w.join("watcher")
	g, err := group.Open(w.ctx, watcher.Keeper, "/g", group.Options{})
	must(w.t, err)
	d, err := discovery.Open(w.ctx, watcher.Keeper, "/services", discovery.Options{})
	must(w.t, err)
	told := map[string]string{} // as changes say; owned by the goroutine until it has ended
	ctx, stop := context.WithCancel(w.ctx)
	w.work.Go(func() {
		for ch, err := range g.Changes(ctx) {
			id, data := ch.Member.ID, string(ch.Member.Data)
			_, there := told[id]
			switch {
			case err != nil:
				return
			case ch.Kind == cache.Created && !there, ch.Kind == cache.Changed && there:
				told[id] = data
			case ch.Kind == cache.Deleted && there:
				delete(told, id)
			case ch.Kind == cache.Reread:
			default:
				w.violated("the group tells that %s is %v, and it was there before: %v", id, ch.Kind, there)
			}
		}
	})
	w.vandal = func() {
		if names := w.below("/g"); len(names) > 0 {
			w.remove("/g/" + names[w.rnd.IntN(len(names))])
		}
		if names := w.below("/services/s"); len(names) > 0 {
			w.remove("/services/s/" + names[w.rnd.IntN(len(names))])
		}
	}
	w.faults()
	want := map[string]string{}
	for _, p := range present {
		maps.Copy(want, p)
	}
	have := map[string]string{}
	var shown []string
	for _, dir := range []string{"/g", "/services/s"} {
		for _, name := range w.below(dir) {
			data, _, _ := w.get(dir + "/" + name)
			if dir == "/services/s" {
				i, err := discovery.Decode([]byte(data))
				if err != nil {
					w.violated("an instance is malformed: %v", err)
				}
				data = i.Address
			}
			have[dir+"/"+name] = data
		}
	}
	if !maps.Equal(have, want) {
		w.violated("in the end there are %v, want %v", have, want)
	}
	for _, m := range g.Members() {
		shown = append(shown, "/g/"+m.ID+"="+string(m.Data))
	}
	for _, i := range d.Instances("s") {
		shown = append(shown, "/services/s/"+i.ID+"="+i.Address)
	}
	var wanted []string
	for path, data := range want {
		wanted = append(wanted, path+"="+data)
	}
	slices.Sort(shown)
	slices.Sort(wanted)
	if !slices.Equal(shown, wanted) {
		w.violated("in the end members and instances are shown as %v, want %v", shown, wanted)
	}
	stop()
	g.Close(w.ctx)
	d.Close(w.ctx)
	w.work.Wait()
	for path, data := range want {
		if id, isMember := strings.CutPrefix(path, "/g/"); isMember && told[id] != data {
			w.violated("the changes come to %v, want %v", told, want)
		}
	}
}

// enter joins the group or registers an instance, whose address is the data.
func (w *world) enter(ctx context.Context, c *clientOf, id, data string, isMember bool) (leave func(context.Context) error, set func(context.Context, string) error, err error) {
	if isMember {
		m, err := group.Join(ctx, c.Keeper, "/g", id, []byte(data), group.JoinOptions{})
		if err != nil {
			return nil, nil, err
		}
		return m.Close, func(ctx context.Context, data string) error { return m.Set(ctx, []byte(data)) }, nil
	}
	r, err := discovery.Register(ctx, c.Keeper, "/services", discovery.Instance{Name: "s", ID: id, Address: data, Port: 1}, discovery.RegisterOptions{})
	if err != nil {
		return nil, nil, err
	}
	return r.Close, func(ctx context.Context, data string) error {
		i := r.Instance()
		i.Address = data
		return r.Set(ctx, i)
	}, nil
}
