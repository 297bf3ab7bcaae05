package roles

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
)

var errFailed = errors.New("the work has failed")

// partitions: members share items, come and go, and some of their work fails. Sessions end by silence only: if an operator ends one, its holder learns of it
// late, and only tokens protect.
func partitions(w *world) {
	items := []string{"a", "b", "c", "d", "e"}
	working := map[string]string{} // which member works on an item; guarded by w.mu
	tokens := map[string]int64{}
	end := time.Now().Add(turmoil)
	final := make([]*partition.Partition, 3)
	for i := range final {
		c := w.join(fmt.Sprint("member", i))
		rnd := w.actor()
		name := fmt.Sprint("m", i)
		work := func(ctx context.Context, item string, h *lock.Hold) error {
			w.mu.Lock()
			if other := working[item]; other != "" {
				w.violated("%s works on %s, and %s does", name, item, other)
			}
			if h.Token() <= tokens[item] {
				w.violated("%s works on %s with token %#x after %#x", name, item, h.Token(), tokens[item])
			}
			working[item], tokens[item] = name, h.Token()
			w.mu.Unlock()
			w.note("%s begins %s", name, item)
			var failure <-chan time.Time
			if h.Token()%4 == 0 && time.Now().Before(end) {
				failure = time.After(2 * time.Second)
			}
			err := errFailed
			select {
			case <-failure:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
			w.note("%s ends %s: %v", name, item, err)
			w.mu.Lock()
			delete(working, item)
			w.mu.Unlock()
			return err
		}
		w.work.Go(func() {
			for {
				ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
				p, err := partition.Join(ctx, c.Keeper, "/p", name, items, work, partition.Options{Settle: 300 * time.Millisecond})
				cancel()
				if err != nil {
					w.violated("%s cannot join: %v", name, err)
					return
				}
				between(rnd, 2*time.Second, 20*time.Second)
				if time.Now().After(end) {
					final[i] = p
					return
				}
				if err := p.Close(w.ctx); err != nil {
					w.note("%s leaves: %v", name, err)
				}
				between(rnd, time.Millisecond, 5*time.Second)
			}
		})
	}
	w.vandal = func() {
		if names := w.below("/p/party"); len(names) > 0 {
			w.remove("/p/party/" + names[w.rnd.IntN(len(names))])
		}
	}
	w.faults()
	w.work.Wait()
	var have []string
	for i, p := range final {
		if p == nil {
			continue
		}
		now, _ := p.Items()
		want := partition.Spread(items, []string{"m0", "m1", "m2"}, fmt.Sprint("m", i))
		if !slices.Equal(now, want) {
			w.violated("in the end m%d has %v, want %v", i, now, want)
		}
		have = append(have, now...)
		w.work.Go(func() { p.Close(w.ctx) })
	}
	slices.Sort(have)
	if !slices.Equal(have, items) {
		w.violated("in the end %v are worked on, want %v", have, items)
	}
}
