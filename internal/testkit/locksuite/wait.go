package locksuite

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group B of the atlas: waiting, and watches.
var waitTests = []test{
	{"F09_PredecessorGoneBeforeWatch", f09GoneBeforeWatch},
	{"F09_AnyInterleaving", f09Interleavings},
	{"F10_Flap", f10Flap},
	{"F10_ExpiredWhileWaiting", f10Expired},
	{"F11_NeighbourGivesUp", f11NeighbourGivesUp},
	{"F12_ForeignChildren", f12ForeignChildren},
	{"F12_OverlappingNames", f12OverlappingNames},
	{"F14_CancelledWaits", f14CancelledWaits},
	{"F15_CallbackBlocks", f15CallbackBlocks},
}

// The predecessor goes between the listing and the watch on it.
func f09GoneBeforeWatch(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	var freed atomic.Int64
	b.Proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: held.Node()}, func(faultproxy.Request) {
		if err := held.Release(w.Context()); err != nil {
			t.Error(err)
		}
		freed.Store(time.Now().UnixNano())
	})
	g := ask(w, b.Mutex(lock.Options{}).Lock)
	h := g.Granted()
	if d := time.Duration(g.at.UnixNano() - freed.Load()); d > 100*time.Millisecond+w.slack() {
		t.Errorf("granted %v after the predecessor was gone", d)
	}
	w.MustRelease(h)
}

// A release at any moment of the other's way into the queue.
func f09Interleavings(w *World, t *testing.T) {
	a, b := w.Client("a").Mutex(lock.Options{}), w.Client("b").Mutex(lock.Options{})
	w.MustRelease(must(w, a.Lock))
	trip := w.slow()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range w.reps(10_000, 200) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		held, err := a.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		g := askUnder(ctx, w, b.Lock)
		time.Sleep(time.Duration(r.Int64N(int64(3 * trip))))
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		h := g.Granted()
		if d := g.at.Sub(freed); d > 100*time.Millisecond+w.slack() {
			t.Fatalf("seed %d: granted %v after the release", seed, d)
		}
		if err := h.Release(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
}

// The waiter hears nothing while the holder leaves: with the connection standing, with it broken, and broken only when
// the event has been lost on it.
func f10Flap(w *World, t *testing.T) {
	for name, flap := range map[string]struct{ begin, end func(*Client) }{
		"silence": {(*Client).Blackhole, (*Client).Heal},
		"break":   {(*Client).Unreachable, (*Client).Reachable},
		"loss":    {(*Client).Blackhole, func(c *Client) { c.Proxy.CutAll(); c.Heal() }},
	} {
		a, b := w.Client("a"), w.Client("b")
		held := must(w, a.Mutex(lock.Options{}).Lock)
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.WaitQueue(2)
		time.Sleep(w.moment())
		flap.begin(b)
		time.Sleep(w.Timeout / 4)
		w.MustRelease(held)
		time.Sleep(w.Timeout / 4)
		if !g.Pending() {
			t.Errorf("%s: granted while nothing could be heard", name)
		}
		flap.end(b)
		healed := time.Now()
		h := g.Granted()
		if d := g.at.Sub(healed); d > time.Second+w.slack() {
			t.Errorf("%s: granted %v after the network was healthy", name, d)
		}
		w.MustRelease(h)
	}
}

// The waiter's session ends while the holder stays. The call ends with it: when the server hangs up, and
// when the waiter only learns after a silence.
func f10Expired(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	g := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	silent := ask(w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	time.Sleep(w.moment())

	ended := func(who string, g *Grant, since time.Time) {
		t.Helper()
		if _, err := g.Outcome(); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("%s: Lock = %v, want the session's end", who, err)
		}
		if d := g.at.Sub(since); d > time.Second+w.slack() {
			t.Errorf("%s: the call ended %v after the news was there", who, d)
		}
	}
	w.Expire(b.Session)
	ended("told", g, time.Now())

	c.Blackhole()
	w.Expire(c.Session)
	time.Sleep(w.Timeout / 2)
	if !silent.Pending() {
		t.Error("the silent waiter knew of its session's end")
	}
	c.Heal()
	ended("silent", silent, time.Now())

	if held.Cause() != nil {
		t.Errorf("the holder lost its lock: %v", held.Cause())
	}
	w.MustRelease(held)
}

// A holds, B and C wait, B gives up. That the one in front is gone does not make C the holder.
func f11NeighbourGivesUp(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	ctx, cancel := context.WithCancel(w.Context())
	gaveUp := askUnder(ctx, w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	g := ask(w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	time.Sleep(w.moment())
	mark := c.Proxy.Mark()
	cancel()
	if _, err := gaveUp.Outcome(); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock of the one that gave up = %v", err)
	}
	g.StillPending(w.moment())
	var watched faultproxy.Log
	w.Within(time.Second+w.slack(), "the waiter looks again", func() bool {
		watched = c.Proxy.Since(mark).Asked(wire.OpGetData)
		return len(watched) > 0
	})
	if len(watched) != 1 || watched[0].Path != held.Node() || !watched[0].Watch {
		t.Errorf("after its neighbour gave up, the waiter read %v, want the holder's node with a watch", watched)
	}
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// Children that are no claims disturb no contender and stay; those of other clients are respected.
func f12ForeignChildren(w *World, t *testing.T) {
	var foreign []string
	for _, name := range []string{"x", "lock-", "lock-abc", "-0000000001", "nested", "0000000000"} {
		w.Create(zk.Join(w.dir, name), zk.Persistent)
		foreign = append(foreign, name)
	}
	others := []string{
		w.Create(zk.Join(w.dir, "0123456789abcdef0123456789abcdef__lock__"), zk.PersistentSequential),
		w.Create(zk.Join(w.dir, "_c_01234567-89ab-cdef-0123-456789abcdef-lock-"), zk.PersistentSequential),
	}
	a, b := w.Client("a"), w.Client("b")
	nested := must(w, a.MutexAt(zk.Join(w.dir, "nested"), lock.Options{}).Lock)
	g := ask(w, a.Mutex(lock.Options{}).Lock)
	for _, other := range others {
		g.StillPending(w.moment())
		w.Delete(other)
	}
	h := g.Granted()
	g = ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(len(foreign) + 2)
	g.StillPending(w.moment())
	w.MustRelease(h)
	w.MustRelease(g.Granted())
	w.MustRelease(nested)
	left := w.Queue()
	slices.Sort(left)
	slices.Sort(foreign)
	if !slices.Equal(left, foreign) {
		t.Errorf("left in the directory: %q, want the strangers %q", left, foreign)
	}
	for _, name := range foreign {
		w.Delete(zk.Join(w.dir, name))
	}
}

// Locks whose names begin alike, or lie within each other, have nothing to do with each other.
func f12OverlappingNames(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	var holds []*lock.Hold
	for _, name := range []string{"a", "ab", "a/b", "a/lock-", "lock-0000000000x"} {
		h, err := a.MutexAt(zk.Join(w.dir, name), lock.Options{}).TryLock(w.Context())
		if err != nil {
			t.Fatalf("lock %s: %v", name, err)
		}
		holds = append(holds, h)
		if _, err := b.MutexAt(zk.Join(w.dir, name), lock.Options{}).TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("try %s, which is held: %v", name, err)
		}
	}
	for _, h := range holds {
		w.MustRelease(h)
	}
	w.DeleteAll(w.dir)
}

// Waits that are given up leave no watch, right behind the holder and further back, not even when the
// request that takes it back is lost.
func f14CancelledWaits(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	f14Behind(w, t, b, held.Node())
	g := ask(w, a.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	f14Behind(w, t, b, w.NodesOf("a")[1])
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// f14Behind has b wait behind the last node in the queue, again and again in vain.
func f14Behind(w *World, t *testing.T, b *Client, ahead string) {
	time.Sleep(w.moment()) // until all watch what they mean to
	line, watches := len(w.Queue()), 0
	if w.server != nil {
		watches = w.server.Stats().Watches
	}
	mark := b.Proxy.Mark()
	b.Proxy.CutBefore(faultproxy.Match{Ops: []wire.Op{wire.OpRemoveWatches}, Skip: 3})
	m := b.Mutex(lock.Options{})
	patience := 5 * time.Millisecond
	if !w.Virtual {
		patience = 100 * time.Millisecond // an ensemble may take a while until there is anything to wait for
	}
	for range w.reps(5_000, 15) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := m.Lock(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("Lock = %v, want the deadline's error", err)
		}
	}
	w.Within(time.Second+w.slack(), "I2: nothing is left of the attempt that gave up", func() bool { return len(w.Queue()) == line })
	if w.server != nil {
		w.Within(time.Second, "I4: no watch is left of the attempt that gave up", func() bool { return w.server.Stats().Watches <= watches })
	}
	log := b.Proxy.Since(mark)
	armed, removed := 0, len(log.Asked(wire.OpRemoveWatches))
	for _, e := range log.Answered(wire.OpGetData) {
		if e.Path == ahead && e.Watch && e.Err == zk.OK {
			armed++
		}
	}
	if armed == 0 || removed < armed-1 {
		t.Errorf("%d watches were set on the node ahead and %d taken back", armed, removed)
	}
}

// What the user's callbacks do is their business: they may use the library, and may block.
func f15CallbackBlocks(w *World, t *testing.T) {
	var c *Client
	ready, over := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	c = w.ClientWith("c", client.Options{Trace: client.Trace{State: func(client.State) {
		<-ready
		if !once.CompareAndSwap(false, true) {
			return
		}
		defer close(over)
		m := c.MutexAt(w.dir+"-callback", lock.Options{})
		h, err := m.Lock(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		if err := h.Release(context.Background()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * w.Timeout)
	}}})
	close(ready)
	a := w.Client("a")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	waiting := make(chan struct{})
	var first sync.Once
	blocked := ask(w, c.Mutex(lock.Options{Hooks: lock.Hooks{Waiting: func(context.Context, string, lock.Place) {
		first.Do(func() {
			close(waiting)
			time.Sleep(w.Timeout + w.Timeout/2)
		})
	}}}).Lock)
	<-waiting
	other := ask(w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	w.MustRelease(held)
	other.StillPending(w.moment())
	<-over
	if err := c.Err(); err != nil {
		t.Fatalf("a callback that blocks cost the session: %v", err)
	}
	w.MustRelease(blocked.Granted())
	w.MustRelease(other.Granted())
	if n := c.Stats().Connections; n != 1 {
		t.Errorf("the session needed %d connections", n)
	}
}
