package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group H of the atlas: read/write locks.
var rwTests = []test{
	{"F32_NobodyOvertakes", f32NobodyOvertakes},
	{"F32_RandomReadersAndWriters", f32Random},
	{"F32_MutexIsAWriter", f32MutexIsAWriter},
	{"F33_DowngradeKeepsThePlace", f33Downgrade},
	{"F33_DowngradeWithLostConnections", f33DowngradeLost},
	{"F33_DowngradeAndRelease", f33DowngradeAndRelease},
	{"F33_UpgradeFailsFast", f33Upgrade},
	{"F33_UpgradeOfWhatWasReleased", f33UpgradeReleased},
}

// A reader waits for a writer ahead and not for one behind; readers behind a waiting writer do not pass it.
func f32NobodyOvertakes(w *World, t *testing.T) {
	c := [6]*lock.RWMutex{}
	for i := range c {
		c[i] = w.Client(fmt.Sprint("c", i)).RWMutex()
	}
	r0 := must(w, c[0].RLock)
	r1 := must(w, c[1].RLock) // beside it
	w2 := ask(w, c[2].Lock)
	w.WaitQueue(3)
	r3 := ask(w, c[3].RLock)
	w.WaitQueue(4)
	r4 := ask(w, c[4].RLock)
	w.WaitQueue(5)
	if _, err := c[5].TryRLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryRLock behind a waiting writer = %v, want ErrBusy", err)
	}
	if _, err := c[5].TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryLock = %v, want ErrBusy", err)
	}
	w.MustRelease(r0)
	w.stillPending("one of two readers left", w2, r3, r4)
	w.MustRelease(r1)
	h2 := w2.Granted()
	w.stillPending("the writer holds", r3, r4)
	w.MustRelease(h2)
	h3, h4 := r3.Granted(), r4.Granted()
	if h3.Token() <= h2.Token() || h4.Token() <= h2.Token() {
		t.Errorf("readers' tokens %#x and %#x do not exceed the writer's %#x", h3.Token(), h4.Token(), h2.Token())
	}
	w.MustRelease(h3)
	w.MustRelease(h4)
	w.Clean()
}

// Readers and writers come, go, give up and expire at random. No writer is ever inside with another contender.
func f32Random(w *World, t *testing.T) {
	seed := w.seed()
	r := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	readers, writers := 0, 0
	enter := func(write bool) {
		mu.Lock()
		defer mu.Unlock()
		if write {
			writers++
		} else {
			readers++
		}
		if writers > 1 || writers == 1 && readers > 0 {
			t.Errorf("I1: %d writers and %d readers inside", writers, readers)
		}
	}
	leave := func(write bool) {
		mu.Lock()
		defer mu.Unlock()
		if write {
			writers--
		} else {
			readers--
		}
	}
	var wg sync.WaitGroup
	for i := range 15 {
		write := i%3 == 0
		m := w.Client(fmt.Sprint("c", i)).RWMutex()
		r := rand.New(rand.NewPCG(seed, r.Uint64()))
		wg.Go(func() {
			for range w.reps(8, 3) {
				ctx, cancel := context.WithTimeout(w.Context(), time.Duration(r.IntN(400)+1)*time.Millisecond)
				ask := m.RLock
				if write {
					ask = m.Lock
				}
				h, err := ask(ctx)
				cancel()
				if err != nil {
					continue
				}
				enter(write)
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				if write && r.IntN(2) == 0 {
					leave(true) // before another may read
					if err := h.Downgrade(w.Context()); err != nil {
						t.Errorf("downgrade: %v", err)
					}
					enter(false)
					time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
					leave(false)
				} else {
					leave(write)
				}
				if err := h.Release(w.Context()); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	wg.Wait()
	w.Clean()
}

// What locks a path as a mutex and what locks it as a reader or writer exclude each other.
func f32MutexIsAWriter(w *World, t *testing.T) {
	m, rw := w.Client("m").Mutex(lock.Options{}), w.Client("rw").RWMutex()
	r := must(w, rw.RLock)
	g := ask(w, m.Lock)
	w.WaitQueue(2)
	w.stillPending("a reader holds", g)
	w.MustRelease(r)
	h := g.Granted()
	g = ask(w, rw.RLock)
	w.WaitQueue(2)
	w.stillPending("the mutex is held", g)
	w.MustRelease(h)
	w.MustRelease(g.Granted())
	w.Clean()
}

// The writer becomes a reader. The reader right behind it comes in, the writer behind that does not, and
// neither does the reader behind the waiting writer.
func f33Downgrade(w *World, t *testing.T) {
	a := must(w, w.Client("a").RWMutex().Lock)
	token := a.Token()
	r1 := ask(w, w.Client("r1").RWMutex().RLock)
	w.WaitQueue(2)
	w2 := ask(w, w.Client("w2").RWMutex().Lock)
	w.WaitQueue(3)
	r3 := ask(w, w.Client("r3").RWMutex().RLock)
	w.WaitQueue(4)
	if err := a.Downgrade(w.Context()); err != nil {
		t.Fatal(err)
	}
	h1 := r1.Granted()
	w.stillPending("a and r1 read", w2, r3)
	w.MustRelease(h1)
	w.stillPending("a reads", w2, r3)
	if err := a.Cause(); err != nil || a.Token() != token {
		t.Errorf("after the downgrade the hold's cause is %v and its token %#x, want none and %#x", err, a.Token(), token)
	}
	if err := a.Downgrade(w.Context()); !errors.Is(err, lock.ErrNotWriter) {
		t.Errorf("second downgrade = %v, want ErrNotWriter", err)
	}
	w.Delete(a.Node()) // its new node is watched as the old one was
	w.Ended(a, lock.ErrNodeDeleted)
	h2 := w2.Granted()
	w.MustRelease(h2)
	w.MustRelease(r3.Granted())
	w.Clean()
}

// The same right behind: the waiting writer saw the holder's node at the head of the queue, and must not
// take its end for the holder's leaving; with the connection lost before and after the exchange.
func f33DowngradeLost(w *World, t *testing.T) {
	exchange := faultproxy.Match{Ops: []wire.Op{wire.OpMulti}, Prefix: w.dir}
	for _, c := range []struct {
		name string
		cut  func(p *faultproxy.Proxy)
	}{
		{"no fault", func(*faultproxy.Proxy) {}},
		{"cut before", func(p *faultproxy.Proxy) { p.CutBefore(exchange) }},
		{"cut after", func(p *faultproxy.Proxy) { p.CutAfter(exchange) }},
		{"cut after, and before the look", func(p *faultproxy.Proxy) { p.CutAfter(exchange); p.CutBefore(w.lists()) }},
	} {
		a, b := w.Client("a"), w.Client("b")
		h := must(w, a.RWMutex().Lock)
		g := ask(w, b.RWMutex().Lock)
		w.WaitQueue(2)
		c.cut(a.Proxy)
		if err := h.Downgrade(w.Context()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		w.stillPending(c.name, g)
		if err := h.Cause(); err != nil {
			t.Errorf("%s: the hold ended: %v", c.name, err)
		}
		w.MustRelease(h)
		w.MustRelease(g.Granted())
		w.Clean()
	}
}

// A release in the middle of a downgrade leaves neither node.
func f33DowngradeAndRelease(w *World, t *testing.T) {
	a := w.Client("a")
	h := must(w, a.RWMutex().Lock)
	a.Proxy.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpMulti}, Prefix: w.dir}, 300*time.Millisecond)
	mark := a.Proxy.Mark()
	downgraded := make(chan error, 1)
	go func() { downgraded <- h.Downgrade(w.Context()) }()
	w.Within(time.Second, "the downgrade is on its way", func() bool { return len(a.Proxy.Since(mark).Asked(wire.OpMulti)) > 0 })
	w.MustRelease(h)
	if err := <-downgraded; !errors.Is(err, lock.ErrReleased) {
		t.Errorf("Downgrade = %v, want ErrReleased", err)
	}
	if names := w.Queue(); len(names) != 0 {
		t.Errorf("after the release the queue is %v", names)
	}
	if _, ok, err := w.fresh().Exists(w.Context(), zk.Parent(h.Node())); err != nil || !ok {
		t.Errorf("the directory: %v, %v", ok, err)
	}
	w.Clean()
}

// Two readers that both want to write would wait for each other; instead both are told at once.
func f33Upgrade(w *World, t *testing.T) {
	for i := range 2 {
		m := w.Client(fmt.Sprint("c", i)).RWMutex()
		h := must(w, m.RLock)
		defer w.MustRelease(h)
		if _, err := m.Lock(h.Context()); !errors.Is(err, lock.ErrUpgrade) {
			t.Errorf("upgrade = %v, want ErrUpgrade", err)
		}
		if _, err := m.TryLock(h.Context()); !errors.Is(err, lock.ErrUpgrade) {
			t.Errorf("try to upgrade = %v, want ErrUpgrade", err)
		}
		inner, err := m.RLock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.MustRelease(inner)
	}
}

// A caller that has released its hold of the read side does not upgrade it, even if its context says where it was once.
func f33UpgradeReleased(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.RWMutex()
	read := must(w, m.RLock)
	other, err := a.MutexAt(w.beside(1)[0], lock.Options{}).Lock(read.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.MustRelease(read)
	h, err := m.TryLock(other.Context())
	if err != nil {
		t.Fatalf("TryLock = %v", err)
	}
	w.MustRelease(h)
	w.MustRelease(other)
}

// A hold that is lost in the instant in which its downgrade begins leaves nothing: what takes its nodes away
// must not look for them before it is decided which of them there is.
func f33AtTheDeadline(w *World, t *testing.T) {
	w.slow()
	through := 0
	for range 300 {
		c := w.Client("writer")
		h := must(w, c.RWMutex().Lock)
		c.Blackhole()
		time.Sleep(h.Remaining() - time.Nanosecond)
		c.Heal()
		mark := c.Proxy.Mark()
		h.Downgrade(w.Context())
		if len(c.Proxy.Since(mark).Asked(wire.OpMulti)) > 0 {
			through++
		}
		if err := h.Release(w.Context()); !errors.Is(err, lock.ErrLost) && err != nil {
			t.Fatal(err)
		}
		w.Within(2*time.Second, "I2: the lock directory is empty", func() bool { return len(w.Queue()) == 0 })
		c.Session.Close(w.Context())
		c.Proxy.Close()
	}
	if through == 0 {
		t.Error("no downgrade came through: the test does not reach what it is to test")
	}
}
