package roles

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/counter"
)

// A ledger is what is known of a counter that is incremented by one.
type ledger struct {
	mu      sync.Mutex
	made    map[int64]string // the increment that a value is of
	unknown int64            // increments with an unknown outcome
}

// counters: clients increment two counters; one of them knows the outcome of each increment.
func counters(w *world) {
	w.expires = true
	opts := map[string]counter.Options{"/n": {}, "/exact": {Exact: true}}
	ledgers := map[string]*ledger{}
	for path := range opts {
		ledgers[path] = &ledger{made: map[int64]string{}}
	}
	end := time.Now().Add(turmoil)
	for i := range 3 {
		k := w.join(fmt.Sprint("counts", i))
		for path, l := range ledgers {
			rnd := w.actor()
			c, err := counter.New(k.Keeper, path, opts[path])
			must(w.t, err)
			w.work.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					s, err := k.Session(w.ctx)
					must(w.t, err)
					limit := time.Duration(rnd.Int64N(int64(20 * time.Second)))
					ctx, cancel := context.WithTimeout(w.ctx, limit)
					v, err := c.Add(ctx, 1)
					ended := ctx.Err() != nil
					cancel()
					who := fmt.Sprintf("%s of %s", path, k.name)
					l.mu.Lock()
					switch {
					case err == nil && l.made[v.Number] != "":
						w.violated("%d is the value of two increments, by %s and %s", v.Number, who, l.made[v.Number])
					case err == nil:
						l.made[v.Number] = who
					case client.MaybeApplied(err):
						l.unknown++
						w.note("%s: unknown: %v", who, err)
						if path == "/exact" && !ended && s.Err() == nil {
							w.violated("%s: the outcome is unknown although the session lives: %v", who, err)
						}
					default:
						w.note("%s: %v", who, err)
					}
					l.mu.Unlock()
					between(rnd, time.Millisecond, time.Second)
				}
			})
		}
	}
	w.faults()
	for path, l := range ledgers {
		c, err := counter.New(w.clients[0].Keeper, path, opts[path])
		must(w.t, err)
		v, err := c.Get(w.ctx)
		if err != nil {
			w.violated("%s: %v", path, err)
		}
		made := int64(len(l.made))
		if v.Number < made || v.Number > made+l.unknown {
			w.violated("%s is %d after %d increments and %d that are unknown", path, v.Number, made, l.unknown)
		}
		if made < 5 {
			w.violated("%s: %d increments in %v", path, made, turmoil)
		}
	}
}
