package roles

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/zk"
)

// barriers: members enter and leave a double barrier, round after round, and others wait for a single one.
func barriers(w *world) {
	w.expires = w.rnd.IntN(2) == 0
	const members = 3
	type member struct {
		entering, leaving int   // the newest round
		entered           int   // the newest round whose Enter has succeeded; one that fails takes its znode away
		session           int64 // that it entered the round with
	}
	var all [members]member // guarded by w.mu
	var shut []time.Time    // when the single barrier was closed and opened, in turn; guarded by w.mu
	w.heed = func(ev zk.Event) {
		if ev.Path == "/b" {
			shut = append(shut, time.Now())
		}
	}
	end := time.Now().Add(turmoil)
	const rounds = 4
	for i := range members {
		c := w.join(fmt.Sprint("member", i))
		rnd := w.actor()
		w.work.Go(func() {
			for round := 1; round <= rounds; round++ {
				d, err := barrier.NewDouble(c.Keeper, fmt.Sprint("/d", round), members, barrier.Options{})
				must(w.t, err)
				between(rnd, time.Millisecond, 6*time.Second)
				w.mu.Lock()
				all[i].entering = round
				w.mu.Unlock()
				missed := false
				for {
					ctx, cancel := context.WithTimeout(w.ctx, time.Duration(rnd.Int64N(int64(30*time.Second))))
					err := d.Enter(ctx)
					cancel()
					w.note("member %d enters round %d: %v", i, round, err)
					if err == nil {
						break
					}
					w.mu.Lock()
					for _, m := range all {
						missed = missed || m.leaving >= round // they began with our znode, and our session ended
					}
					w.mu.Unlock()
					if missed {
						break
					}
					if time.Since(end) > calm {
						w.violated("member %d is stuck in round %d: %v", i, round, err)
						return
					}
					between(rnd, time.Millisecond, time.Second)
				}
				if missed {
					w.mu.Lock()
					all[i].leaving = round
					w.mu.Unlock()
					continue
				}
				s, err := c.Session(w.ctx)
				must(w.t, err)
				w.mu.Lock()
				all[i].session, all[i].entered = s.ID(), round
				for j, m := range all {
					if m.entering < round {
						w.violated("member %d has entered round %d before member %d came", i, round, j)
					}
				}
				w.mu.Unlock()
				between(rnd, time.Millisecond, 6*time.Second)
				w.mu.Lock()
				all[i].leaving = round
				w.mu.Unlock()
				for {
					ctx, cancel := context.WithTimeout(w.ctx, time.Duration(rnd.Int64N(int64(30*time.Second))))
					err := d.Leave(ctx)
					cancel()
					w.note("member %d leaves round %d: %v", i, round, err)
					if err == nil {
						break
					}
					if time.Since(end) > calm {
						w.violated("member %d is stuck in round %d: %v", i, round, err)
						return
					}
					between(rnd, time.Millisecond, time.Second)
				}
				alive := w.srv.Sessions()
				w.mu.Lock()
				for j, m := range all {
					if _, lives := alive[m.session]; m.entered == round && m.leaving < round && lives {
						w.violated("member %d has left round %d before member %d wanted to", i, round, j)
					}
				}
				w.mu.Unlock()
			}
		})
	}
	for i := range 2 {
		c := w.join(fmt.Sprint("waiter", i))
		rnd := w.actor()
		b, err := barrier.New(c.Keeper, "/b", barrier.Options{})
		must(w.t, err)
		if i == 0 { // it opens and closes
			w.work.Go(func() {
				for time.Now().Before(end) {
					if err := b.Set(w.ctx); err != nil {
						w.violated("close the barrier: %v", err)
					}
					if _, _, there := w.get("/b"); !there {
						w.violated("the barrier is open although it was closed")
					}
					between(rnd, 10*time.Second, 20*time.Second)
					if err := b.Remove(w.ctx); err != nil {
						w.violated("open the barrier: %v", err)
					}
					if _, _, there := w.get("/b"); there {
						w.violated("the barrier is closed although it was opened")
					}
					between(rnd, time.Second, 5*time.Second)
				}
			})
			continue
		}
		w.work.Go(func() {
			passed := 0
			for time.Now().Before(end) {
				began := time.Now()
				if err := b.Wait(w.ctx); err != nil {
					w.violated("wait at the barrier: %v", err)
				}
				passed++
				// A server that is cut off shows the barrier as it was a while ago.
				oldest := began.Add(-2*timeout - lagMax)
				w.mu.Lock()
				closed := len(shut)%2 == 1 && shut[len(shut)-1].Before(oldest)
				w.mu.Unlock()
				if closed {
					w.violated("passed the barrier, which has been closed since %v", time.Since(shut[len(shut)-1]))
				}
				between(rnd, time.Millisecond, 3*time.Second)
			}
			if passed == 0 {
				w.violated("never passed the barrier")
			}
		})
	}
	w.faults()
	time.Sleep(calm)
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, m := range all {
		if m.leaving != rounds {
			w.violated("in the end member %d is in round %d of %d", i, m.entering, rounds)
		}
	}
}
