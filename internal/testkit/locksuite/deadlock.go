package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Contenders that wait for each other in a cycle.
var deadlockTests = []test{
	{"Deadlock_Two", deadlockTwo},
	{"Deadlock_OnlyTheYoungestGivesUp", deadlockYoungest},
	{"Deadlock_WhoDoesNotLookStays", deadlockUnlooked},
	{"Deadlock_ThroughReaders", deadlockReaders},
	{"Deadlock_ThroughPermits", deadlockPermits},
	{"Deadlock_ThroughAll", deadlockAll},
	{"Deadlock_SeenWithoutAnybodysHelp", deadlockSeen},
	{"Deadlock_BesideASecret", deadlockBesideASecret},
	{"Deadlock_LongWaitsAreNone", deadlockLongWaits},
	{"Deadlock_CutOffWhileTrying", deadlockTrying},
	{"Deadlock_NotOfDifferentMoments", deadlockMoments},
	{"Deadlock_RandomOrders", deadlockRandom},
}

// watchful makes waiters look for cycles.
func (w *World) watchful() lock.Options { return lock.Options{Deadlock: w.suspicion()} }

// suspicion is how long a waiter waits before it looks for cycles.
func (w *World) suspicion() time.Duration {
	if w.Virtual {
		return time.Second
	}
	return 200 * time.Millisecond
}

// waitsInCycle has each of some clients hold the lock at its own path and ask for that of the next one, in order.
func (w *World) waitsInCycle(clients []*Client, opts []lock.Options, paths []string) ([]*lock.Hold, []*Grant) {
	w.t.Helper()
	holds, grants := make([]*lock.Hold, len(clients)), make([]*Grant, len(clients))
	for i, c := range clients {
		holds[i] = must(w, c.MutexAt(paths[i], opts[i]).Lock)
	}
	for i, c := range clients {
		next := paths[(i+1)%len(paths)]
		before := len(w.QueueAt(next))
		grants[i] = askUnder(holds[i].Context(), w, c.MutexAt(next, opts[i]).Lock)
		w.Within(patience, "the contender waits", func() bool { return len(w.QueueAt(next)) > before })
	}
	return holds, grants
}

// Two that take two locks in opposite orders: one is told so, with all that it takes to see why, gives up, and
// the other goes on.
func deadlockTwo(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b := w.Client("a"), w.Client("b")
	holds, grants := w.waitsInCycle([]*Client{a, b}, []lock.Options{w.watchful(), w.watchful()}, paths)
	began := time.Now()
	h, err := grants[1].Outcome()
	var deadlock *lock.DeadlockError
	if !errors.As(err, &deadlock) || !errors.Is(err, lock.ErrDeadlock) {
		t.Fatalf("the younger one got %v, %v, want a *DeadlockError", h, err)
	}
	if d := grants[1].at.Sub(began); w.Virtual && (d < w.suspicion() || d > 3*w.suspicion()) {
		t.Errorf("told after %v, with cycles to be looked for after %v", d, w.suspicion())
	}
	d := deadlock.Deadlock
	if len(d) != 2 || d[0].Path != paths[0] || d[1].Path != paths[1] || d[0].For.Node != holds[0].Node() || d[1].For.Node != holds[1].Node() ||
		d[0].Waiter.Owner.Label != "b" || d[1].Waiter.Owner.Label != "a" {
		t.Errorf("the cycle is told as %v", err)
	}
	if !grants[0].Pending() {
		t.Error("the older one did not go on waiting")
	}
	w.MustRelease(holds[1])
	w.MustRelease(grants[0].Granted())
	w.MustRelease(holds[0])
	w.CleanAt(paths)
}

// In a cycle of four that all look, the youngest gives up, and no other.
func deadlockYoungest(w *World, t *testing.T) {
	const n = 4
	paths := w.beside(n)
	var clients []*Client
	for i := range n {
		clients = append(clients, w.Client(fmt.Sprint("c", i)))
	}
	holds, grants := w.waitsInCycle(clients, slices.Repeat([]lock.Options{w.watchful()}, n), paths)
	if h, err := grants[n-1].Outcome(); !errors.Is(err, lock.ErrDeadlock) {
		t.Fatalf("the youngest got %v, %v, want ErrDeadlock", h, err)
	}
	for i, g := range grants[:n-1] {
		g.StillPending(3 * w.suspicion())
		if holds[i].Cause() != nil {
			t.Errorf("hold %d is lost: %v", i, holds[i].Cause())
		}
	}
	w.MustRelease(holds[n-1])
	for i := n - 2; i >= 0; i-- {
		w.MustRelease(grants[i].Granted())
		w.MustRelease(holds[i])
	}
	w.CleanAt(paths)
}

// Of two, the one that looks gives up, though it is the older; if none looks, both wait.
func deadlockUnlooked(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b := w.Client("a"), w.Client("b")
	for _, opts := range [][]lock.Options{{w.watchful(), {}}, {{}, {}}} {
		holds, grants := w.waitsInCycle([]*Client{a, b}, opts, paths)
		if opts[0].Deadlock > 0 {
			if h, err := grants[0].Outcome(); !errors.Is(err, lock.ErrDeadlock) {
				t.Fatalf("the one that looks got %v, %v, want ErrDeadlock", h, err)
			}
		}
		grants[1].StillPending(5 * w.suspicion())
		w.MustRelease(holds[0])
		w.MustRelease(grants[1].Granted())
		w.MustRelease(holds[1])
		if opts[0].Deadlock == 0 {
			if _, err := grants[0].Outcome(); !errors.Is(err, context.Canceled) { // its hold's context
				t.Errorf("the first one's wait ended with %v", err)
			}
		}
		w.CleanAt(paths)
	}
}

// a reads; b waits to write; c, which holds what a waits for, waits to read behind b. Readers go together, so
// c does not wait for a, but for b, which does. The youngest is c.
func deadlockReaders(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	rw := func(c *Client) *lock.RWMutex { return c.RWMutexAt(paths[0], w.watchful()) }
	reads := must(w, rw(a).RLock)
	holds := must(w, c.MutexAt(paths[1], w.watchful()).Lock)
	writes := ask(w, rw(b).Lock)
	w.Within(patience, "b waits", func() bool { return len(w.QueueAt(paths[0])) == 2 })
	g := askUnder(reads.Context(), w, a.MutexAt(paths[1], w.watchful()).Lock)
	w.Within(patience, "a waits", func() bool { return len(w.QueueAt(paths[1])) == 2 })
	last := askUnder(holds.Context(), w, rw(c).RLock)
	_, err := last.Outcome()
	var deadlock *lock.DeadlockError
	if !errors.As(err, &deadlock) || len(deadlock.Deadlock) != 3 {
		t.Fatalf("the youngest got %v, want a deadlock of three", err)
	}
	w.MustRelease(holds)
	w.MustRelease(g.Granted())
	w.MustRelease(reads)
	w.MustRelease(writes.Granted())
	w.CleanAt(paths)
}

// One of two permits does not make a cycle, for the other may be given back; both do.
func deadlockPermits(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	sem := func(c *Client) *lock.Semaphore { return c.SemaphoreAt(paths[0], 2, w.watchful()) }
	first, second := must(w, sem(a).Acquire), must(w, sem(b).Acquire)
	held := must(w, c.MutexAt(paths[1], w.watchful()).Lock)
	third := askUnder(held.Context(), w, sem(c).Acquire)
	w.Within(patience, "c waits for a permit", func() bool { return len(w.QueueAt(paths[0])) == 3 })
	wait := askUnder(first.Context(), w, a.MutexAt(paths[1], w.watchful()).Lock)
	wait.StillPending(4 * w.suspicion())
	if !third.Pending() {
		t.Fatal("c gave up while b may give its permit back")
	}
	last := askUnder(second.Context(), w, b.MutexAt(paths[1], w.watchful()).Lock)
	if h, err := last.Outcome(); !errors.Is(err, lock.ErrDeadlock) {
		t.Fatalf("the youngest got %v, %v, want ErrDeadlock", h, err)
	}
	w.MustRelease(second)
	w.MustRelease(third.Granted())
	w.MustRelease(held)
	w.MustRelease(wait.Granted())
	w.MustRelease(first)

	// A number that has been changed may not be what it was when permits were granted: it proves nothing.
	if err := setPermits(w.Context(), w.fresh(), paths[0], 1); err != nil {
		t.Fatal(err)
	}
	sem = func(c *Client) *lock.Semaphore { return c.SemaphoreAt(paths[0], 0, w.watchful()) }
	first = must(w, sem(a).Acquire)
	held = must(w, c.MutexAt(paths[1], w.watchful()).Lock)
	third = askUnder(held.Context(), w, sem(c).Acquire)
	w.Within(patience, "c waits for a permit", func() bool { return len(w.QueueAt(paths[0])) == 2 })
	ctx, cancel := context.WithCancel(first.Context())
	last = askUnder(ctx, w, a.MutexAt(paths[1], w.watchful()).Lock)
	last.StillPending(4 * w.suspicion())
	cancel()
	if _, err := last.Outcome(); !errors.Is(err, context.Canceled) {
		t.Errorf("a's wait ended with %v", err)
	}
	w.MustRelease(first)
	w.MustRelease(third.Granted())
	w.MustRelease(held)
	w.CleanAt(paths)
}

// A contender that takes several together waits for one with what comes before; what it joined the queue with, at once with
// the others, says so before it waits.
func deadlockAll(w *World, t *testing.T) {
	paths := w.beside(3)
	a, b := w.Client("a"), w.Client("b")
	all := w.AllOf(a.Mutexes(paths, w.watchful())...)
	w.MustRelease(must(w, all.Lock)) // the directories are there
	held := must(w, b.MutexAt(paths[2], w.watchful()).Lock)
	g := ask(w, all.Lock)
	w.Within(patience, "a waits for the last", func() bool { return len(w.QueueAt(paths[2])) == 2 })
	against := askUnder(held.Context(), w, b.MutexAt(paths[0], w.watchful()).Lock)
	if h, err := against.Outcome(); !errors.Is(err, lock.ErrDeadlock) {
		t.Fatalf("the younger one got %v, %v, want ErrDeadlock", h, err)
	}
	w.MustRelease(held)
	h := g.Granted()
	w.MustRelease(h)
	w.CleanAt(paths)
}

// No contender in the cycle looks. A look from outside shows it, from each of its locks, once.
func deadlockSeen(w *World, t *testing.T) {
	const n = 3
	paths := w.beside(n + 1)
	none := func(paths ...string) {
		t.Helper()
		if found, err := inspect.Deadlocks(w.Context(), w.fresh(), paths...); len(found) > 0 || err != nil {
			t.Errorf("deadlocks %v, %v, want none", found, err)
		}
	}
	none(paths...)
	var clients []*Client
	for i := range n {
		clients = append(clients, w.Client(fmt.Sprint("c", i)))
	}
	held := must(w, clients[0].MutexAt(paths[n], lock.Options{}).Lock)
	holds, grants := w.waitsInCycle(clients, make([]lock.Options, n), paths[:n])
	aside := ask(w, clients[1].MutexAt(paths[n], lock.Options{}).Lock) // waits, in no cycle
	w.Within(patience, "a contender waits aside", func() bool { return len(w.QueueAt(paths[n])) == 2 })
	for _, look := range [][]string{{paths[0]}, {paths[1]}, {paths[2]}, paths} {
		found, err := inspect.Deadlocks(w.Context(), w.fresh(), look...)
		if err != nil || len(found) != 1 || len(found[0]) != n || found[0][0].Waiter.Owner.Label != "c2" {
			t.Errorf("deadlocks at %d locks: %v, %v, want the one, from its youngest", len(look), found, err)
		}
	}
	none(paths[n])
	looker := w.Client("looker")
	for skip := range 3 { // a look need not know of a break
		broken := looker.Proxy.CutBefore(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Skip: 2 * skip})
		if found, err := inspect.Deadlocks(w.Context(), looker.Session, paths[0]); err != nil || len(found) != 1 || broken.Count() != 1 {
			t.Errorf("deadlocks across %d breaks: %v, %v, want the one, and one break", broken.Count(), found, err)
		}
		broken.Remove()
	}
	w.MustRelease(holds[n-1])
	for i := n - 2; i >= 0; i-- {
		w.MustRelease(grants[i].Granted())
		w.MustRelease(holds[i])
	}
	none(paths...)
	w.MustRelease(held)
	w.MustRelease(aside.Granted())
	w.CleanAt(paths)
}

// A lock that may not be read, and in which a contender of the cycle holds another's place, hides no cycle elsewhere.
func deadlockBesideASecret(w *World, t *testing.T) {
	paths := w.beside(3)
	a, b := w.Client("a"), w.Client("b")
	secret := must(w, a.MutexAt(paths[2], lock.Options{}).Lock)
	first := askUnder(secret.Context(), w, a.MutexAt(paths[0], lock.Options{}).Lock).Granted()
	second := must(w, b.MutexAt(paths[1], lock.Options{}).Lock)
	hidden := []zk.ACL{{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}}
	one := askUnder(first.Context(), w, a.MutexAt(paths[1], lock.Options{}).Lock)
	w.Within(patience, "the first waits", func() bool { return len(w.QueueAt(paths[1])) == 2 })
	other := askUnder(second.Context(), w, b.MutexAt(paths[0], lock.Options{}).Lock)
	w.Within(patience, "the second waits", func() bool { return len(w.QueueAt(paths[0])) == 2 })
	veiled, err := w.admin.Create(w.Context(), paths[1]+"/lock-", nil, zk.EphemeralSequential, hidden)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.SetACL(w.Context(), paths[2], hidden, -1); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths[:2] {
		if found, err := inspect.Deadlocks(w.Context(), w.fresh(), path); err != nil || len(found) != 1 || len(found[0]) != 2 {
			t.Errorf("deadlocks at %s: %v, %v, want the one of two", path, found, err)
		}
	}
	if found, err := inspect.Deadlocks(w.Context(), w.fresh(), paths[2]); err != nil || len(found) > 0 {
		t.Errorf("deadlocks at a lock that may not be read: %v, %v", found, err)
	}
	if _, err := w.admin.SetACL(w.Context(), paths[2], zk.OpenACL(), -1); err != nil {
		t.Fatal(err)
	}
	w.MustRelease(second)
	if _, err := other.Outcome(); !errors.Is(err, context.Canceled) { // its hold's context
		t.Errorf("the one that waited under what was released: %v", err)
	}
	w.MustRelease(one.Granted())
	w.MustRelease(first)
	w.Delete(veiled.Path)
	w.MustRelease(secret)
	w.CleanAt(paths)
}

// Chains of waits that end with a holder that works, and long queues, are no cycles, however long they last.
func deadlockLongWaits(w *World, t *testing.T) {
	const n = 5
	paths := w.beside(n)
	var holds []*lock.Hold
	var grants []*Grant
	patient := client.Options{SessionTimeout: 4 * w.Timeout} // a machine that stands still for a moment ends no hold
	for i := range n {
		c := w.ClientWith(fmt.Sprint("c", i), patient)
		holds = append(holds, must(w, c.MutexAt(paths[i], w.watchful()).Lock))
		if i > 0 {
			grants = append(grants, askUnder(holds[i].Context(), w, c.MutexAt(paths[i-1], w.watchful()).Lock))
			w.Within(patience, "the contender waits", func() bool { return len(w.QueueAt(paths[i-1])) == 2 })
		}
	}
	for i := range 3 { // and strangers behind them
		grants = append(grants, ask(w, w.ClientWith("x", patient).MutexAt(paths[2], w.watchful()).Lock))
		w.Within(patience, "the stranger waits", func() bool { return len(w.QueueAt(paths[2])) == 3+i })
	}
	time.Sleep(20 * w.suspicion())
	for i, g := range grants {
		if !g.Pending() {
			_, err := g.Outcome()
			t.Errorf("wait %d has ended: %v", i, err)
		}
	}
	w.MustRelease(holds[0])
	for i, g := range grants {
		w.MustRelease(g.Granted())
		if i+1 < n {
			w.MustRelease(holds[i+1])
		}
	}
	w.CleanAt(paths)
}

// A TryLock that is cut off leaves its node for a while. It does not wait, so a contender that waits behind it is in no
// cycle through it.
func deadlockTrying(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	rw := func(c *Client, opt lock.Options) *lock.RWMutex { return c.RWMutexAt(paths[0], opt) }
	reads := must(w, rw(a, w.watchful()).RLock)
	held := must(w, c.MutexAt(paths[1], w.watchful()).Lock)
	b.CutOff(faultproxy.Match{Ops: faultproxy.Creates(), Prefix: paths[0] + "/"}, true, func() {})
	tried := ask(w, rw(b, lock.Options{}).TryLock)
	w.Within(patience, "b's node is left", func() bool { return len(w.QueueAt(paths[0])) == 2 })
	g := askUnder(reads.Context(), w, a.MutexAt(paths[1], w.watchful()).Lock)
	w.Within(patience, "a waits", func() bool { return len(w.QueueAt(paths[1])) == 2 })
	last := askUnder(held.Context(), w, rw(c, w.watchful()).RLock)
	last.StillPending(4 * w.suspicion())
	b.Reachable()
	if h, err := tried.Outcome(); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryLock = %v, %v, want ErrBusy", h, err)
	}
	w.MustRelease(last.Granted())
	w.MustRelease(held)
	w.MustRelease(g.Granted())
	w.MustRelease(reads)
	w.CleanAt(paths)
}

// A waiter reads one line before, and another one after, a wait in the first has ended and one in the second
// has begun. Together they would make a cycle, but they never were together; twice, for looks are believed
// in pairs.
func deadlockMoments(w *World, t *testing.T) {
	paths := w.beside(3)
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	first, second, third := must(w, a.MutexAt(paths[0], lock.Options{}).Lock), must(w, b.MutexAt(paths[1], lock.Options{}).Lock), must(w, c.MutexAt(paths[2], lock.Options{}).Lock)
	// wait has the holder of another lock wait for the one at path. stop ends that.
	wait := func(c *Client, under *lock.Hold, path string) (stop func()) {
		ctx, cancel := context.WithCancel(under.Context())
		g := askUnder(ctx, w, c.MutexAt(path, lock.Options{}).Lock)
		w.Within(patience, "the contender waits", func() bool { return len(w.QueueAt(path)) == 2 })
		return func() {
			cancel()
			if _, err := g.Outcome(); !errors.Is(err, context.Canceled) {
				t.Errorf("a wait that was given up ended with %v", err)
			}
			w.Within(patience, "the contender waits no more", func() bool { return len(w.QueueAt(path)) == 1 })
		}
	}
	var g *Grant
	for range 2 {
		passing := wait(c, third, paths[0])
		reached, proceed := make(chan struct{}), make(chan struct{})
		a.Proxy.Before(faultproxy.Match{Ops: faultproxy.Lists(), Path: paths[2]}, func(faultproxy.Request) {
			close(reached)
			<-proceed
		})
		if g == nil {
			g = askUnder(first.Context(), w, a.MutexAt(paths[1], w.watchful()).Lock)
		}
		select {
		case <-reached:
		case <-time.After(patience):
			t.Fatal("a did not look")
		}
		passing()
		coming := wait(b, second, paths[2])
		close(proceed)
		time.Sleep(w.suspicion() / 10) // a reads on
		coming()
	}
	g.StillPending(6 * w.suspicion())
	w.MustRelease(third)
	w.MustRelease(second)
	w.MustRelease(g.Granted())
	w.MustRelease(first)
	w.CleanAt(paths)
}

// Nested locks in random orders, with connections that break: each contender is granted or told of a deadlock, in
// time, and one that is told so was in one, as far as can be told from what was seen at that moment.
func deadlockRandom(w *World, t *testing.T) {
	clients, rounds := w.reps(8, 4), w.reps(20, 5)
	paths := w.beside(4)
	seed := w.seed()
	var present []*Client
	for i := range clients {
		present = append(present, w.Client(fmt.Sprint("c", i)))
	}
	var mu sync.Mutex
	granted, told := 0, 0
	var wg sync.WaitGroup
	over, stop := context.WithCancel(context.Background())
	for i, c := range present {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				var holds []*lock.Hold
				var err error
				under := ctx
				for _, at := range r.Perm(len(paths))[:2+r.IntN(2)] {
					var h *lock.Hold
					if h, err = c.MutexAt(paths[at], w.watchful()).Lock(under); err != nil {
						break
					}
					holds = append(holds, h)
					var end context.CancelFunc
					under, end = context.WithTimeout(h.Context(), time.Minute)
					defer end()
					time.Sleep(time.Duration(r.Int64N(int64(20 * time.Millisecond))))
				}
				for _, h := range slices.Backward(holds) {
					if err := h.Release(ctx); err != nil {
						t.Errorf("release: %v", err)
					}
				}
				mu.Lock()
				var deadlock *lock.DeadlockError
				switch {
				case err == nil:
					granted++
				case errors.As(err, &deadlock):
					told++
					for k, wait := range deadlock.Deadlock {
						next := deadlock.Deadlock[(k+1)%len(deadlock.Deadlock)]
						if zk.Parent(wait.For.Node) != wait.Path || next.Waiter.Owner.Label != wait.For.Owner.Label {
							t.Error(err)
						}
					}
				default:
					t.Error(err)
				}
				mu.Unlock()
				cancel()
			}
		})
	}
	go func() {
		wg.Wait()
		stop()
	}()
	for r := rand.New(rand.NewPCG(seed, 1<<32)); over.Err() == nil; {
		select {
		case <-over.Done():
		case <-time.After(time.Duration(r.Int64N(int64(2 * time.Second)))):
			present[r.IntN(clients)].Proxy.CutAll()
		}
	}
	t.Logf("%d granted, %d told of a deadlock", granted, told)
	if granted == 0 || told == 0 && w.Virtual {
		t.Errorf("%d granted, %d told of a deadlock: that tests nothing", granted, told)
	}
	w.CleanAt(paths)
}
