package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// Group I of the atlas: semaphores.
var semaphoreTests = []test{
	{"F34_RandomContenders", f34Random},
	{"F34_AnyHolderMayLeaveFirst", f34AnyLeaves},
	{"F34_NumberIsStored", f34Stored},
	{"F34_RefusedStoresNothing", f34Refused},
	{"F34_NumberChanges", f34Changes},
	{"F34_OneKind", f34OneKind},
	{"F34_HandOver", f34HandOver},
	{"F34_WokenByARelease", f34Woken},
	{"F34_WatchesThatStay", f34WatchesStay},
	{"F34_Curator", f34Curator},
	{"F35_AllOrNothing", f35AllOrNothing},
	{"F35_EachItsOwnLoss", f35OwnLoss},
	{"F35_DeletedWhileWaiting", f35DeletedWhileWaiting},
	{"F35_Try", f35Try},
	{"F35_TrySeveral", f35TrySeveral},
}

// acquire returns what asks for n permits at once.
func acquire(m *lock.Semaphore, n int) func(context.Context) ([]*lock.Hold, error) {
	return func(ctx context.Context) ([]*lock.Hold, error) { return each(m.AcquireN(ctx, n)) }
}

// each returns the holds one by one.
func each(h *lock.Holds, err error) ([]*lock.Hold, error) {
	if err != nil {
		return nil, err
	}
	return h.All(), nil
}

// A contender that would stand behind contenders of another kind is refused, unless its options allow that. Those that were
// there before keep their places.
func f34OneKind(w *World, t *testing.T) {
	opt := lock.Options{}
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(opt).Lock)
	ctx, leave := context.WithCancel(w.Context())
	leaves := askUnder(ctx, w, w.Client("d").Mutex(opt).Lock)
	w.WaitQueue(2)
	waits := ask(w, b.Mutex(opt).Lock)
	w.WaitQueue(3)
	sem := c.SemaphoreAt(w.dir, 2, opt)
	refused := func(want lock.Kind, err error) {
		t.Helper()
		var other *lock.KindError
		if !errors.As(err, &other) || other.Path != w.dir || other.Kind != want {
			t.Errorf("%v, want the kind %s to be refused", err, want)
		}
	}
	_, err := sem.Acquire(w.Context())
	refused(inspect.KindMutex, err)
	_, err = sem.TryAcquire(w.Context())
	refused(inspect.KindMutex, err)
	beside := must(w, c.SemaphoreAt(w.dir, 2, lock.Options{AllowOtherKinds: true}).TryAcquire)
	leave()
	leaves.Outcome()
	w.WaitQueue(3) // the one that waits has to look again, for the node ahead was no holder's
	w.MustRelease(held)
	held = waits.Granted() // it came before the semaphore's contender
	w.MustRelease(held)
	_, err = a.Mutex(opt).TryLock(w.Context())
	refused(inspect.KindSemaphore, err)
	w.MustRelease(beside)
	w.MustRelease(must(w, a.Mutex(opt).Lock))
}

// Contenders come, go and give up at random, break their connections and expire. Never are more permits held
// than there are, and none waits while one is free.
func f34Random(w *World, t *testing.T) {
	const permits = 3
	seed := w.seed()
	var mu sync.Mutex
	inside := map[*lock.Hold]bool{}
	enter := func(h *lock.Hold) {
		mu.Lock()
		defer mu.Unlock()
		inside[h] = true
		n := 0
		for other := range inside {
			if other.Cause() == nil {
				n++
			}
		}
		if n > permits {
			t.Errorf("I1: %d permits are held, there are %d", n, permits)
		}
	}
	leave := func(h *lock.Hold) {
		mu.Lock()
		defer mu.Unlock()
		delete(inside, h)
	}
	var wg sync.WaitGroup
	granted := make(chan struct{}, 10_000)
	for i := range w.reps(50, 8) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			c := w.Client(fmt.Sprint("c", i))
			for range w.reps(6, 3) {
				c = c.Alive()
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(1000)+1)*time.Millisecond)
				h, err := c.Semaphore(permits).Acquire(ctx)
				cancel()
				if err != nil {
					continue
				}
				granted <- struct{}{}
				enter(h)
				time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
				switch r.IntN(8) {
				case 0:
					leave(h) // put out by force: the news may be late
					w.Expire(c.Session)
					continue
				case 1:
					c.Proxy.CutAll()
				}
				leave(h)
				ctx, cancel = context.WithTimeout(context.Background(), patience)
				if err := h.Release(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
					t.Errorf("release: %v", err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if len(granted) == 0 {
		t.Error("no contender was ever granted a permit")
	}
	w.Within(w.Timeout+2*w.Tick, "I2: nothing is left", func() bool { return len(w.Queue()) == 0 })

	// I3: with all of them at rest in the queue, as many hold as there are permits, however they leave.
	const waiters = 12
	c, holds := w.Client("c"), make(chan *lock.Hold, waiters)
	m := c.Semaphore(permits)
	for range waiters {
		go func() {
			h, err := m.Acquire(w.t.Context())
			if err != nil {
				t.Error(err)
			}
			holds <- h
		}()
	}
	r, held := rand.New(rand.NewPCG(seed, 1<<32)), []*lock.Hold(nil)
	for left := waiters; left > 0; left-- {
		for len(held) < min(permits, left) {
			select {
			case h := <-holds:
				held = append(held, h)
			case <-time.After(patience):
				t.Fatalf("I3: %d of %d permits are held while %d wait", len(held), permits, left-len(held))
			}
		}
		select {
		case <-holds:
			t.Fatalf("more than %d permits are held", permits)
		case <-time.After(w.moment()):
		}
		i := r.IntN(len(held))
		w.MustRelease(held[i])
		held = append(held[:i], held[i+1:]...)
	}
}

// Whichever holder leaves, the next waiter gets the permit.
func f34AnyLeaves(w *World, t *testing.T) {
	for first := range 2 {
		var holds []*lock.Hold
		for i := range 2 {
			holds = append(holds, must(w, w.Client(fmt.Sprint("holder", i)).Semaphore(2).Acquire))
		}
		next := ask(w, w.Client("next").Semaphore(2).Acquire)
		w.WaitQueue(3)
		last := ask(w, w.Client("last").Semaphore(2).Acquire)
		w.WaitQueue(4)
		w.stillPending("both permits are held", next, last)
		w.MustRelease(holds[first])
		h := next.Granted()
		w.stillPending("both permits are held again", last)
		w.MustRelease(h)
		w.MustRelease(last.Granted())
		w.MustRelease(holds[1-first])
		w.Clean()
	}
}

// The first one stores the number. Another number is an error that names both, and none takes what there is.
func f34Stored(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	if _, err := a.Semaphore(0).Acquire(w.Context()); !errors.Is(err, lock.ErrNoPermits) {
		t.Errorf("nothing is stored: %v, want ErrNoPermits", err)
	}
	h := must(w, a.Semaphore(2).Acquire)
	_, err := b.Semaphore(3).TryAcquire(w.Context())
	if conflict, ok := errors.AsType[*lock.ConflictError](err); !ok || *conflict != (lock.ConflictError{Want: 3, Stored: 2}) {
		t.Errorf("another number: %v, want a conflict of 3 with 2", err)
	}
	if !errors.Is(err, lock.ErrPermitsConflict) || errors.Is(err, lock.ErrTooManyPermits) {
		t.Errorf("another number: %v, want ErrPermitsConflict", err)
	}
	if n := len(w.Queue()); n != 1 {
		t.Errorf("%d nodes in the queue after a conflict, want 1", n)
	}
	w.MustRelease(must(w, b.Semaphore(0).Acquire))
	if _, err := b.Semaphore(0).AcquireN(w.Context(), 3); !isTooMany(err, 3, 2) {
		t.Errorf("3 of 2 permits: %v, want a *TooManyError", err)
	}
	w.MustRelease(h)
	w.Clean()

	if _, err := w.admin.Set(w.Context(), w.dir, []byte("10.0.0.1"), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client("c").Semaphore(2).Acquire(w.Context()); err == nil {
		t.Error("other data was taken for a number of permits")
	}
}

// A contender that is refused, or gives up, leaves no number behind; one that is granted a permit does.
func f34Refused(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	stored := func(what, want string) {
		t.Helper()
		data, _, err := w.fresh().Get(w.Context(), w.dir)
		if err != nil && !errors.Is(err, zk.ErrNoNode) || string(data) != want {
			t.Errorf("%s: the directory says %q, %v; want %q", what, data, err, want)
		}
	}
	if _, err := a.Semaphore(2).AcquireN(w.Context(), 3); !isTooMany(err, 3, 2) {
		t.Errorf("3 of 2 permits: %v, want a *TooManyError", err)
	}
	stored("too many asked for", "")

	held := must(w, a.Mutex(lock.Options{}).Lock)
	strict := b.SemaphoreAt(w.dir, 2, lock.Options{})
	for _, take := range []func(context.Context) (*lock.Hold, error){strict.Acquire, strict.TryAcquire} {
		if _, err := take(w.Context()); !errors.As(err, new(*lock.KindError)) || !errors.Is(err, lock.ErrOtherKind) {
			t.Errorf("beside a mutex: %v, want a *KindError", err)
		}
	}
	stored("beside a mutex", "")

	theirs := w.Create(w.dir+"/_c_01234567-89ab-cdef-0123-456789abcdef-lease-", zk.PersistentSequential)
	w.MustRelease(held)
	if _, err := a.Semaphore(1).TryAcquire(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryAcquire = %v, want ErrBusy", err)
	}
	ctx, cancel := context.WithCancel(w.Context())
	g := askUnder(ctx, w, a.Semaphore(1).Acquire)
	w.WaitQueue(2)
	w.stillPending("their permit is the only one", g)
	cancel()
	g.Outcome()
	w.WaitQueue(1)
	stored("busy, and given up", "")

	g = ask(w, a.Semaphore(1).Acquire)
	w.WaitQueue(2)
	two := b.Semaphore(2)
	w.MustRelease(must(w, w.Client("c").Semaphore(3).Acquire))
	stored("granted", `{"permits":3}`)
	if _, err := g.Outcome(); !errors.Is(err, lock.ErrPermitsConflict) {
		t.Errorf("waiting when another number was stored: %v, want ErrPermitsConflict", err)
	}
	if _, err := two.TryAcquire(w.Context()); !errors.Is(err, lock.ErrPermitsConflict) {
		t.Errorf("another number is stored: %v, want ErrPermitsConflict", err)
	}
	w.Delete(theirs)
	w.MustRelease(must(w, a.Semaphore(0).Acquire))
}

func isTooMany(err error, asked, permits int) bool {
	e, ok := errors.AsType[*lock.TooManyError](err)
	return ok && *e == lock.TooManyError{Asked: asked, Permits: permits} && errors.Is(err, lock.ErrTooManyPermits) && !errors.Is(err, lock.ErrPermitsConflict)
}

// Operators change the number while some hold and some wait.
func f34Changes(w *World, t *testing.T) {
	m := w.Client("a").Semaphore(1)
	held := []*lock.Hold{must(w, m.Acquire)}
	waits := make([]*Grant, 4)
	for i := range waits {
		waits[i] = ask(w, m.Acquire)
		w.WaitQueue(i + 2)
	}
	set := func(n int) {
		if err := setPermits(w.Context(), w.fresh(), w.dir, n); err != nil {
			t.Fatal(err)
		}
	}
	w.stillPending("one permit", waits...)
	set(3)
	held = append(held, waits[0].Granted(), waits[1].Granted())
	w.stillPending("three permits", waits[2:]...)
	set(2)
	w.MustRelease(held[1])
	w.stillPending("two permits, both held", waits[2:]...)
	w.MustRelease(held[0])
	held = []*lock.Hold{held[2], waits[2].Granted()}
	w.stillPending("two permits, both held", waits[3])

	several := ask(w, acquire(m, 2)) // more than there will be
	w.WaitQueue(5)
	set(1)
	if _, err := several.Outcome(); !isTooMany(err, 2, 1) {
		t.Errorf("2 of now 1 permits: %v, want a *TooManyError", err)
	}
	w.MustRelease(held[0])
	w.MustRelease(held[1])
	w.MustRelease(waits[3].Granted())
}

// crowd has one client hold all permits of the semaphore, and others wait for one each, in their order.
func (w *World) crowd(permits, waiters int) (held []*lock.Hold, clients []*Client, waits []*Grant) {
	m := w.Client("holder").Semaphore(permits)
	for range permits {
		held = append(held, must(w, m.Acquire))
	}
	for i := range waiters {
		c := w.Client(fmt.Sprint("c", i))
		clients, waits = append(clients, c), append(waits, ask(w, c.Semaphore(permits).Acquire))
		w.WaitQueue(permits + i + 1)
	}
	return held, clients, waits
}

// Permits go round in the order of arrival. A release wakes one waiter, which looks once: two requests. What
// it watched besides it takes back afterwards, at most a watch for each permit.
func f34HandOver(w *World, t *testing.T) {
	const permits, waiters = 3, 8
	held, clients, waits := w.crowd(permits, waiters)
	for i, g := range waits {
		w.Quiet(clients...)
		marks := make([]faultproxy.Mark, waiters)
		for j, c := range clients {
			marks[j] = c.Proxy.Mark()
		}
		w.MustRelease(held[i])
		held = append(held, g.Granted())
		w.Quiet(clients...)
		for j, c := range clients {
			asked, told := work(c.Proxy.Since(marks[j]))
			back := len(asked.Asked(wire.OpRemoveWatches))
			looks := asked.Asked(faultproxy.Lists()...)
			others := len(asked) - back - len(looks)
			switch {
			case j > i && (len(asked) > 0 || len(told) > 0):
				t.Errorf("hand-over %d woke waiter %d: %s", i, j, asked.Ops())
			case j == i && (len(looks) > 1 || back > permits || others > 0 || len(told) != 1):
				t.Errorf("hand-over %d cost its waiter %q and %d notifications", i, asked.Ops(), len(told))
			}
		}
	}
	for _, h := range held[waiters:] {
		w.MustRelease(h)
	}
}

// Curator makes leases below "leases" and a lock in "locks" that is held while its client waits. It counts all leases as
// held, waiting or not. So at most one lease waits in "leases".
func f34Curator(w *World, t *testing.T) {
	semaphore := func(label string) *lock.Semaphore { return w.Client(label).CuratorSemaphore(2) }
	theirs := w.Create(w.dir+"/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-", zk.PersistentSequential)
	h := must(w, semaphore("a").Acquire)
	if _, err := semaphore("b").TryAcquire(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryAcquire = %v, want ErrBusy", err)
	}
	waits := []*Grant{ask(w, semaphore("b").Acquire), ask(w, semaphore("c").Acquire)}
	w.Within(patience, "both wait at the lock", func() bool { return len(w.QueueAt(w.dir+"/locks")) == 2 })
	w.stillPending("both leases are taken", waits...)
	if _, err := semaphore("d").AcquireN(w.Context(), 3); !isTooMany(err, 3, 2) {
		t.Errorf("3 of 2 permits: %v, want a *TooManyError at once", err)
	}
	if n := len(w.QueueAt(w.dir + "/leases")); n != 3 {
		t.Errorf("%d nodes in leases, want two that hold and one that waits", n)
	}
	w.Delete(theirs)
	w.MustRelease(h)
	for _, g := range waits {
		w.MustRelease(g.Granted())
	}

	// A contender that gives up while nothing gets through has time neither for its claim nor for the lock.
	all := must(w, acquire(semaphore("a"), 2))
	d := w.Client("d")
	ctx, cancel := context.WithCancel(w.Context())
	g := askUnder(ctx, w, d.CuratorSemaphore(2).Acquire)
	w.Within(patience, "it waits", func() bool { return len(w.QueueAt(w.dir+"/leases")) == 3 })
	d.Blackhole()
	cancel()
	w.Bounded("giving up in silence", 0, func() { g.Outcome() })
	d.Heal()
	for _, h := range all {
		w.MustRelease(h)
	}
	w.Within(time.Second+w.slack(), "I2: nothing is left", func() bool {
		return len(w.QueueAt(w.dir+"/leases"))+len(w.QueueAt(w.dir+"/locks")) == 0
	})
	w.DeleteAll(w.dir)
}

// Three of five permits, with the connection lost before and after each kind of request, once and again, and
// with the caller gone. It is three holds, or nothing is left.
func f35AllOrNothing(w *World, t *testing.T) {
	busy := w.Client("busy").Semaphore(5)
	w.MustRelease(must(w, busy.Acquire))
	for _, ops := range [][]wire.Op{{wire.OpMulti}, {wire.OpGetData}, faultproxy.Lists()} {
		for _, applied := range []bool{false, true} {
			for skip := range 3 {
				for _, given := range []bool{false, true} {
					f35Faulty(w, t, busy, given, func(c *Client, cancel func()) {
						m := faultproxy.Match{Ops: ops, Prefix: w.dir, Skip: skip, Times: 2}
						c.Cut(m, applied)
						if given {
							c.Proxy.Before(m, func(faultproxy.Request) { cancel() })
						}
					})
				}
			}
		}
	}
}

// f35Faulty acquires three of five permits, three being held at first.
func f35Faulty(w *World, t *testing.T, busy *lock.Semaphore, given bool, disturb func(c *Client, cancel func())) {
	others := must(w, acquire(busy, 3))
	c := w.Client("c")
	m := c.Semaphore(5)
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel()
	disturb(c, cancel)
	g := askUnder(ctx, w, acquire(m, 3))
	time.Sleep(w.moment())
	if !given && !g.Pending() {
		t.Errorf("three of two free permits: %v", g.err)
	}
	for _, h := range others {
		w.MustRelease(h)
	}
	holds, err := g.Outcome()
	if err != nil {
		if !given || !errors.Is(err, context.Canceled) {
			t.Errorf("AcquireN: %v", err)
		}
		w.Clean()
		c.Proxy.Close()
		return
	}
	if line := w.Queue(); len(holds) != 3 || len(line) != 3 {
		t.Errorf("%d holds, %d nodes, want 3: %v", len(holds), len(line), line)
	}
	for _, h := range holds {
		w.MustRelease(h)
	}
	w.Clean()
	c.Proxy.Close()
}

// One of several permits is lost: its hold ends, and the others go on.
func f35OwnLoss(w *World, t *testing.T) {
	holds := must(w, acquire(w.Client("a").Semaphore(3), 3))
	time.Sleep(w.moment())
	w.Delete(holds[1].Node())
	w.Ended(holds[1], lock.ErrNodeDeleted)
	for _, i := range []int{0, 2} {
		if err := holds[i].Cause(); err != nil {
			t.Errorf("hold %d of the others ended: %v", i, err)
		}
	}
	more := must(w, w.Client("b").Semaphore(3).Acquire)
	if err := holds[1].Release(w.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release of the lost one: %v, want ErrLost", err)
	}
	for _, h := range []*lock.Hold{more, holds[0], holds[2]} {
		w.MustRelease(h)
	}
}

// One of several waiting nodes is deleted: the place is lost, and nothing is left of the others.
func f35DeletedWhileWaiting(w *World, t *testing.T) {
	held := must(w, w.Client("a").Semaphore(2).Acquire)
	for i := range 2 {
		b := w.Client(fmt.Sprint("b", i))
		g := ask(w, acquire(b.Semaphore(2), 2))
		w.WaitQueue(3)
		time.Sleep(w.moment())
		w.Delete(w.NodesOf(b.Label)[i])
		if _, err := g.Outcome(); !errors.Is(err, lock.ErrPlaceLost) {
			t.Errorf("AcquireN = %v, want ErrPlaceLost", err)
		}
		w.Within(time.Second+w.slack(), "I2: the other node is gone", func() bool { return len(w.Queue()) == 1 })
	}
	w.MustRelease(held)
}

// Tries that are refused leave nothing.
func f35Try(w *World, t *testing.T) {
	a, b := w.Client("a").Semaphore(2), w.Client("b")
	holds := must(w, acquire(a, 2))
	m := b.Semaphore(2)
	for i := range w.reps(1000, 50) {
		if _, err := m.TryAcquire(w.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Fatalf("try %d: %v, want ErrBusy", i, err)
		}
	}
	w.Within(time.Second+w.slack(), "I2: no residue", func() bool { return len(w.Queue()) == 2 })
	for _, h := range holds {
		w.MustRelease(h)
	}
	w.MustRelease(must(w, m.Acquire))
	w.Clean()
}

// Several permits are taken at once if there are as many, and otherwise none; a waiter for permits is not passed.
func f35TrySeveral(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	one := must(w, a.Semaphore(3).Acquire)
	m := b.Semaphore(3)
	try := func(k int) []*lock.Hold {
		t.Helper()
		holds, err := each(m.TryAcquireN(w.Context(), k))
		if err != nil || len(holds) != k {
			t.Fatalf("TryAcquireN(%d) = %d holds, %v", k, len(holds), err)
		}
		return holds
	}
	busy := func(k int) {
		t.Helper()
		holds, err := each(m.TryAcquireN(w.Context(), k))
		if busy, ok := errors.AsType[*lock.BusyError](err); !ok || len(holds) > 0 || busy.Holder.Owner.Label != "a" {
			t.Errorf("TryAcquireN(%d) = %d holds, %v, want that a has a permit", k, len(holds), err)
		}
	}
	busy(3)
	w.WaitQueue(1)
	two := try(2)
	busy(1)
	waiting := ask(w, c.Semaphore(3).Acquire)
	w.WaitQueue(4)
	w.MustRelease(two[0])
	third := waiting.Granted()
	w.MustRelease(two[1])
	last := ask(w, acquire(c.Semaphore(3), 2))
	w.WaitQueue(4)
	busy(1) // one is free, and two are waited for
	w.MustRelease(one)
	for _, h := range last.Granted() {
		w.MustRelease(h)
	}
	w.MustRelease(third)
	for _, h := range try(3) {
		w.MustRelease(h)
	}
	for _, k := range []int{0, -1} {
		if holds, err := m.TryAcquireN(w.Context(), k); err == nil || holds != nil {
			t.Errorf("TryAcquireN(%d) = %v, %v", k, holds, err)
		}
	}
	for asked, permits := range map[int]int{4: 3, lock.PermitsMax + 1: lock.PermitsMax} {
		if _, err := m.TryAcquireN(w.Context(), asked); !isTooMany(err, asked, permits) {
			t.Errorf("TryAcquireN(%d) = %v, want ErrTooManyPermits", asked, err)
		}
	}
	w.Clean()
}

// setPermits changes the number that is stored with the semaphore at path.
func setPermits(ctx context.Context, s *client.Session, path string, n int) error {
	m, err := lock.NewSemaphore(s, path, 0, lock.Options{})
	if err != nil {
		return err
	}
	return m.SetPermits(ctx, n)
}
