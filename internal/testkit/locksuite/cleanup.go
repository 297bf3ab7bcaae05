package locksuite

import (
	"context"
	"errors"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Group E of the atlas: limits of time, and what is left by those that gave up.
var cleanupTests = []test{
	{"F25_GaveUp", f25GaveUp},
	{"F25_GaveUpInSilence", f25GaveUpInSilence},
	{"F25_GaveUpWithoutAnAnswer", f25GaveUpWithoutAnAnswer},
	{"F25_WaitingPanics", f25WaitingPanics},
	{"F27_ManyPredecessors", f27ManyPredecessors},
	{"F28_TryHeldLock", f28TryHeld},
	{"F28_TryReplyLost", f28TryReplyLost},
	{"F28_TryAfterGivingUp", f28TryAfterGivingUp},
}

// A waiter's time is over; the claim behind it does not wait for it.
func f25GaveUp(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond+w.slack()) // time enough to be seen in the queue
	defer cancel()
	gaveUp := askUnder(ctx, w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	g := ask(w, c.Mutex(lock.Options{}).Lock)
	if _, err := gaveUp.Outcome(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v, want the deadline's error", err)
	}
	w.Within(500*time.Millisecond+w.slack(), "the node of the one that gave up is gone", func() bool {
		return len(w.Queue()) == 2 && len(w.NodesOf("b")) == 0
	})
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// The same, in the moment in which nothing can be heard or said.
func f25GaveUpInSilence(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	ctx, cancel := context.WithCancel(w.Context())
	gaveUp := askUnder(ctx, w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	g := ask(w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	b.Blackhole()
	cancel()
	w.Bounded("a cancelled Lock", 0, func() { gaveUp.Outcome() })
	time.Sleep(w.Timeout / 4)
	if n := len(w.NodesOf("b")); n != 1 {
		t.Errorf("%d nodes of the silent one, want 1", n)
	}
	b.Heal()
	w.Within(time.Second+w.slack(), "the node of the one that gave up is gone", func() bool { return len(w.NodesOf("b")) == 0 })
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// A caller gives up while the answer to its create is lost, and the server that the client comes back to does not know the claim
// unless it has to commit something: the leader answers a sync without what it has proposed. The claim is found and removed all
// the same.
func f25GaveUpWithoutAnAnswer(w *World, t *testing.T) {
	b := w.Client("b")
	held := must(w, b.Mutex(lock.Options{}).Lock)
	var committed, stale atomic.Int64 // connection that has seen a transaction; listings that were behind
	f := w.follower()
	f.swallow = func(conn int, op wire.Op) bool {
		if op == wire.OpMulti {
			committed.Store(int64(conn))
		}
		return false
	}
	f.listing = func(conn int, names []string) []string {
		if conn == 1 || committed.Load() == int64(conn) {
			return names
		}
		stale.Add(1)
		return []string{path.Base(held.Node())}
	}
	a := w.ClientWith("a", client.Options{Dial: f.Dial})
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	lost := a.Proxy.After(w.joins(), func(faultproxy.Request, faultproxy.Reply) {
		a.Proxy.Refuse(true)
		a.Proxy.CutAll()
		cancel()
	})
	if h, err := a.Mutex(lock.Options{}).Lock(ctx); h != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v, %v, want the context's error", h, err)
	}
	lost.Remove()
	w.WaitQueue(2)
	a.Proxy.Refuse(false)
	w.Within(2*time.Second+w.slack(), "the claim of the caller that gave up is gone", func() bool { return len(w.Queue()) == 1 })
	if stale.Load() > 0 {
		t.Error("the client listed without a transaction after its reconnect")
	}
	w.MustRelease(held)
}

// The limit is one for the whole wait, however often the one in front changes.
func f27ManyPredecessors(w *World, t *testing.T) {
	const ahead = 10
	limit := time.Duration(w.reps(3600, 1)) * time.Second
	a, b := w.Client("a"), w.Client("b")
	nodes := make([]string, ahead)
	holds := make([]*Grant, ahead)
	for i := range holds {
		holds[i] = askUnder(context.Background(), w, a.Mutex(lock.Options{}).Lock)
		w.WaitQueue(i + 1)
	}
	nodes = w.NodesOf("a")
	done := make(chan struct{})
	go func() { // the last in front leaves first, so that the wait finds another nine times
		defer close(done)
		for i := ahead - 1; i > 0; i-- {
			time.Sleep(limit * 8 / 10 / ahead)
			if err := w.admin.Delete(context.Background(), nodes[i], -1); err != nil {
				t.Error(err)
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	began := time.Now()
	h, err := b.Mutex(lock.Options{}).Lock(ctx)
	if h != nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v, %v, want the deadline's error", h, err)
	}
	if d := time.Since(began); d < limit || d > limit+250*time.Millisecond+w.slack() {
		t.Errorf("Lock with a limit of %v took %v", limit, d)
	}
	<-done
	w.MustRelease(holds[0].Granted())
	for _, g := range holds[1:] {
		if _, err := g.Outcome(); !errors.Is(err, lock.ErrPlaceLost) {
			t.Errorf("the wait whose node was deleted: %v", err)
		}
	}
}

// Tries of a held lock leave nothing and take no more than three round trips; they are answered by the queue,
// so the first after the release succeeds.
func f28TryHeld(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	time.Sleep(w.moment())
	m := b.Mutex(lock.Options{})
	for range w.reps(10_000, 200) {
		mark := b.Proxy.Mark()
		h, err := m.TryLock(context.Background())
		var busy *lock.BusyError
		if h != nil || !errors.As(err, &busy) || !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("TryLock of a held lock = %v, %v", h, err)
		}
		if busy.Holder.Node != held.Node() || busy.Holder.Owner.Label != "a" || busy.Holder.Token != held.Token() {
			t.Fatalf("busy: the holder is said to be %+v", busy.Holder)
		}
		log := b.Proxy.Since(mark).But(wire.OpPing)
		if trips := log.Asked().Reads(); trips > 3 {
			t.Fatalf("TryLock took %d round trips:\n%v", trips, log)
		}
	}
	if line := w.Queue(); len(line) != 1 {
		t.Errorf("the tries left %d nodes", len(line)-1)
	}
	if w.server != nil {
		if n := w.server.Stats().Watches; n > 1 {
			t.Errorf("the tries left %d watches", n-1)
		}
	}
	w.MustRelease(held)
	h, err := m.TryLock(w.Context())
	if err != nil {
		t.Fatalf("TryLock right after the release: %v", err)
	}
	w.MustRelease(h)
}

// The reply to a try's create is lost. It is found again, and the answer is still right.
func f28TryReplyLost(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock))
	b.Proxy.CutAfter(w.joins())
	h, err := b.Mutex(lock.Options{}).TryLock(w.Context())
	if err != nil {
		t.Fatalf("TryLock of a free lock whose reply was lost: %v", err)
	}
	w.MustRelease(h)

	held := must(w, a.Mutex(lock.Options{}).Lock)
	b.Proxy.CutAfter(w.joins())
	if h, err := b.Mutex(lock.Options{}).TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryLock of a held lock whose reply was lost: %v, %v", h, err)
	}
	w.Within(time.Second+w.slack(), "only the holder's node is left", func() bool { return len(w.Queue()) == 1 })
	w.MustRelease(held)
}

// A panic of the caller's own, on the way to the lock, takes with it what there is: its node, its places in other
// lines, and what it has of several locks. A caller that recovers goes on with the session.
func f25WaitingPanics(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	opt := lock.Options{Hooks: lock.Hooks{Waiting: func(context.Context, string, lock.Place) { panic("out of the queue") }}}
	others := w.beside(1)
	reader := b.RWMutexAt(w.dir+"!", lock.Options{}).Reader() // in front
	for what, ask := range map[string]func(){
		"Lock":        func() { b.Mutex(opt).Lock(w.Context()) },
		"Lock of All": func() { w.AllOf(reader, b.Mutex(opt), b.MutexAt(others[0], lock.Options{})).Lock(w.Context()) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			ask()
		}()
		w.Within(time.Second+w.slack(), what+": only the holder is in the queue", func() bool { return len(w.Queue()) == 1 })
		w.CleanAt([]string{w.dir + "!", others[0]})
	}
	w.MustRelease(held)
}

// A contender that has given up, at any moment, and tries again at once is not in its own way.
func f28TryAfterGivingUp(w *World, t *testing.T) {
	a := w.Client("a")
	m, all, rw := a.Mutex(lock.Options{}), w.AllOf(a.Mutex(lock.Options{})), a.RWMutex()
	trip := w.slow()
	for i := range w.reps(40, 20) {
		within := time.Duration(i) * trip / 20
		ctx, cancel := context.WithTimeout(w.Context(), within)
		if h, err := m.Lock(ctx); err == nil {
			w.MustRelease(h)
		}
		cancel()
		h, err := m.TryLock(w.Context())
		if err != nil {
			t.Fatalf("TryLock after a Lock that was given up within %v = %v", within, err)
		}
		w.MustRelease(h)

		ctx, cancel = context.WithTimeout(w.Context(), within)
		if h, err := all.Lock(ctx); err == nil {
			w.MustRelease(h)
		}
		cancel()
		both, err := all.TryLock(w.Context())
		if err != nil {
			t.Fatalf("TryLock of All after a Lock that was given up within %v = %v", within, err)
		}
		w.MustRelease(both)

		ctx, cancel = context.WithTimeout(w.Context(), within)
		if h, err := rw.RLock(ctx); err == nil {
			w.MustRelease(h)
		}
		cancel()
		if h, err = rw.TryLock(w.Context()); err != nil {
			t.Fatalf("TryLock after an RLock that was given up within %v = %v", within, err)
		}
		w.MustRelease(h)
	}
}
