package locksuite

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// serverTests run on our server only. To bring a counter to its end takes 2^31 creates, unless the server
// is started from a snapshot that says so; to restart a server, one has to be its owner; and hours pass
// only in virtual time.
var serverTests = []test{
	{"F13_CounterOutOfTheNegative", f13Negative},
	{"F13_CounterEnds", f13Ends},
	{"F20_LongOutage", f20LongOutage},
	{"F27_LongLimit", f27LongLimit},
	{"F33_DowngradeAtTheDeadline", f33AtTheDeadline},
}

// counting returns a world of its own whose lock directory's counter stands at n.
func counting(t *testing.T, n int32) *World {
	const above, dir = "/counted", "/counted/lock"
	m := startMemory(t, txn.Node{Path: above, ACLID: txn.OpenACLID}, txn.Node{Path: dir, ACLID: txn.OpenACLID, Cversion: n})
	w := newWorld(t, Backend{Start: func(*testing.T) Ensemble { return m.ensemble() }})
	w.dir = dir
	return w
}

const counted = 20 // contenders

// rounds lets contenders come in order, again and again, and returns how many were granted and how many
// were told that the counter is exhausted. Grants must come in the order of arrival.
func (w *World) rounds(t *testing.T, rounds int) (granted, exhausted int) {
	var reg Register
	clients := make([]*Client, 4)
	for i := range clients {
		clients[i] = w.Client("c")
	}
	for range rounds {
		var wg sync.WaitGroup
		var turn atomic.Int64
		var mu sync.Mutex
		order := make(chan int, counted)
		for i := range counted {
			m := clients[i%len(clients)].Mutex(lock.Options{})
			before := w.joined()
			wg.Go(func() {
				h, err := m.Lock(w.Context())
				turn.Add(1)
				switch {
				case errors.Is(err, lock.ErrCounterExhausted):
					mu.Lock()
					exhausted++
					mu.Unlock()
				case err != nil:
					t.Error(err)
				default:
					reg.Enter(h.Token())
					order <- i
					time.Sleep(time.Second)
					reg.Leave()
					if err := h.Release(w.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			w.Within(patience, "the contender has come", func() bool { return w.joined() > before || turn.Load() > int64(i) })
		}
		wg.Wait()
		close(order)
		last := -1
		for i := range order {
			if i < last {
				t.Errorf("contender %d was granted after %d", i, last)
			}
			last = i
			granted++
		}
	}
	reg.Check(t)
	return granted, exhausted
}

// joined returns how many nodes were ever made in the lock directory.
func (w *World) joined() int32 {
	w.t.Helper()
	stat, _, err := w.fresh().Exists(w.Context(), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	return stat.Cversion
}

// A counter that is negative, as older servers leave it when it wraps, and comes to zero.
func f13Negative(_ *World, t *testing.T) {
	w := counting(t, -50)
	if granted, exhausted := w.rounds(t, 5); granted != 5*counted || exhausted > 0 {
		t.Errorf("%d granted and %d told that the counter is exhausted, want all %d granted", granted, exhausted, 5*counted)
	}
	w.Clean()
}

// A counter that stops at its end: from there on contenders share a number, and all but those that came
// before are refused. Deleting the directory starts it anew.
func f13Ends(_ *World, t *testing.T) {
	w := counting(t, math.MaxInt32-7)
	granted, exhausted := w.rounds(t, 5)
	if granted < 8 || exhausted == 0 || granted+exhausted != 5*counted {
		t.Errorf("%d granted and %d told that the counter is exhausted", granted, exhausted)
	}
	w.Clean()
	w.Delete(w.dir)
	if granted, _ := w.rounds(t, 1); granted != counted {
		t.Errorf("%d of %d were granted in a new directory", granted, counted)
	}
	w.Clean()
}

// All servers are away for five timeouts. Each hold is lost once, nothing is taken again unasked, and
// idle clients send little meanwhile.
func f20LongOutage(w *World, t *testing.T) {
	var attempts atomic.Int64
	a := w.ClientWith("a", client.Options{Trace: client.Trace{Attempt: func(string, error) { attempts.Add(1) }}})
	m := a.Mutex(lock.Options{})
	h := must(w, m.Lock)
	mark := a.Proxy.Mark()
	w.server.stop()
	began := time.Now()
	w.Ended(h, lock.ErrDeadline)
	if d := time.Since(began); d > w.Timeout*2/3 {
		t.Errorf("the loss was told after %v", d)
	}
	time.Sleep(5*w.Timeout - time.Since(began))
	if n, limit := attempts.Load(), int64(5*w.Timeout/(backoffMax/2))+10; n > limit {
		t.Errorf("%d attempts to connect in %v, want at most %d", n, 5*w.Timeout, limit)
	}
	w.server.start()
	w.Clean()
	time.Sleep(w.Timeout)
	if made := a.Proxy.Since(mark).Asked(faultproxy.Creates()...); len(made) > 0 {
		t.Errorf("a lock was taken again unasked: %v", made)
	}
	if a.Err() == nil { // our server gives every session its full timeout after a restart
		w.MustRelease(must(w, m.Lock))
	} else if !errors.Is(a.Err(), zk.ErrSessionExpired) {
		t.Errorf("the session ended with %v", a.Err())
	}
}

// A limit of two hours is neither cut nor stretched by a thousand breaks.
func f27LongLimit(w *World, t *testing.T) {
	const limit, flaps = 2 * time.Hour, 1000
	held := must(w, w.Client("a").Mutex(lock.Options{}).Lock)
	b := w.Client("b")
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	g := askUnder(ctx, w, b.Mutex(lock.Options{}).Lock)
	for range flaps {
		time.Sleep(limit / (flaps + 1))
		b.Proxy.CutAll()
	}
	<-g.done
	if _, err := g.Outcome(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v, want the deadline's error", err)
	}
	if d := g.at.Sub(began); d != limit {
		t.Errorf("Lock with a limit of %v took %v", limit, d)
	}
	w.MustRelease(held)
}
