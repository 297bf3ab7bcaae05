package locksuite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group J of the atlas: several locks at once.
var allTests = []test{
	{"F36_MixedKinds", f36MixedKinds},
	{"F36_Reentered", f36Reentered},
	{"F36_WithAnUnfairLock", f36Unfair},
	{"F36_Duplicate", f36Duplicate},
	{"F36_RoundTrips", f36RoundTrips},
	{"F36_LaterPlacesAreGivenUp", f36LaterPlaces},
	{"F06_DeletedWhileWaitingForAll", f06DeletedWhileWaitingForAll},
	{"F36_Busy", f36Busy},
	{"F36_FaultAtAnyMember", f36FaultAtAnyMember},
	{"F36_CancelledAtAnyMember", f36CancelledAtAnyMember},
	{"F36_LostWhileTaking", f36LostWhileTaking},
	{"F36_LossOfOne", f36LossOfOne},
	{"F36_TwoSessions", f36TwoSessions},
	{"F36_AnyOrder", f36AnyOrder},
	{"F36_AnyOrderWithFaults", f36AnyOrderWithFaults},
}

// beside returns the paths of n locks beside the world's, in canonical order.
func (w *World) beside(n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s-%d", w.dir, i)
	}
	return paths
}

// CleanAt is Clean for other paths.
func (w *World) CleanAt(paths []string) {
	w.t.Helper()
	for _, path := range paths {
		w.Within(time.Second+w.slack(), "I2: "+path+" is empty", func() bool { return len(w.QueueAt(path)) == 0 })
	}
}

// A mutex, both sides of read/write locks and permits are held at once; each excludes what it should.
func f36MixedKinds(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	paths := w.beside(4)
	rw := func(c *Client, path string) *lock.RWMutex { return c.RWMutexAt(path, lock.Options{}) }
	sem := func(c *Client) *lock.Semaphore { return c.SemaphoreAt(paths[3], 3, lock.Options{}) }
	all := w.AllOf(sem(a).Permits(2), rw(a, paths[2]), a.MutexAt(paths[0], lock.Options{}), rw(a, paths[1]).Reader())
	if got := all.Paths(); !slices.Equal(got, paths) {
		t.Errorf("taken in the order %v, want that of their paths", got)
	}
	for range 2 { // the semaphore is asked for by itself at first
		h := must(w, all.Lock)
		tokens := h.Tokens()
		for i, path := range paths {
			holds := h.Of(path)
			if want := []int{1, 1, 1, 2}[i]; len(holds) != want || len(w.QueueAt(path)) != want {
				t.Fatalf("%d holds and the queue %v at %s, want %d", len(holds), w.QueueAt(path), path, want)
			}
			if tokens[path] != holds[0].Token() || tokens[path] == 0 {
				t.Errorf("token %#x for %s, that of the hold is %#x", tokens[path], path, holds[0].Token())
			}
		}
		if h.Cause() != nil || h.Remaining() <= 0 || h.Context().Err() != nil {
			t.Errorf("a new hold has %v left, and its cause is %v", h.Remaining(), h.Cause())
		}
		busy := func(what string, h *lock.Hold, err error) {
			t.Helper()
			if !errors.Is(err, lock.ErrBusy) {
				t.Errorf("%s = %v, %v, want ErrBusy", what, h, err)
			}
		}
		one, err := b.MutexAt(paths[0], lock.Options{}).TryLock(w.Context())
		busy("the mutex", one, err)
		one, err = rw(b, paths[1]).TryLock(w.Context())
		busy("the write side of what is read", one, err)
		one, err = rw(b, paths[2]).TryRLock(w.Context())
		busy("the read side of what is written", one, err)
		one, err = rw(b, paths[1]).TryRLock(w.Context())
		if err != nil {
			t.Fatalf("the read side of what is read: %v", err)
		}
		w.MustRelease(one)
		one, err = sem(b).TryAcquire(w.Context())
		if err != nil {
			t.Fatalf("the third permit: %v", err)
		}
		_, err = sem(b).TryAcquire(w.Context())
		busy("the fourth permit", nil, err)
		w.MustRelease(one)
		w.MustRelease(h)
		w.MustRelease(h) // once more does nothing
		if !errors.Is(h.Cause(), lock.ErrReleased) || h.Remaining() != 0 {
			t.Errorf("released: cause %v, %v left", h.Cause(), h.Remaining())
		}
		w.CleanAt(paths)
	}
}

// Under a hold of the whole, each member is re-entered, by its own Lock and by another All; and an All takes
// what its context holds already as it is.
func f36Reentered(w *World, t *testing.T) {
	a := w.Client("a")
	paths := w.beside(3)
	whole := must(w, w.AllOf(a.Mutexes(paths[:2], lock.Options{})...).Lock)
	under, cancel := context.WithTimeout(whole.Context(), patience)
	defer cancel()
	for _, path := range paths[:2] {
		h, err := a.MutexAt(path, lock.Options{}).Lock(under)
		if err != nil || h.Node() != whole.Of(path)[0].Node() {
			t.Fatalf("a member again: %v, %v", h, err)
		}
		w.MustRelease(h)
	}
	wider, err := w.AllOf(a.Mutexes(paths, lock.Options{})...).Lock(under)
	if err != nil {
		t.Fatal(err)
	}
	w.MustRelease(whole)
	if err := wider.Cause(); err != nil {
		t.Errorf("the wider hold ended with the one that it re-entered: %v", err)
	}
	for _, path := range paths {
		if n := len(w.QueueAt(path)); n != 1 {
			t.Errorf("%d nodes at %s, want 1", n, path)
		}
	}
	w.MustRelease(wider)
	w.CleanAt(paths)

	reader := must(w, a.RWMutexAt(paths[0], lock.Options{}).RLock)
	_, err = w.AllOf(a.MutexAt(paths[1], lock.Options{}), a.RWMutexAt(paths[0], lock.Options{})).Lock(reader.Context())
	if !errors.Is(err, lock.ErrUpgrade) {
		t.Errorf("the write side under the read side = %v, want ErrUpgrade", err)
	}
	w.MustRelease(reader)
	w.CleanAt(paths)
}

// An unfair lock is taken with the others, waited for, and given back by itself: what another client has made at
// its path stays.
func f36Unfair(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	paths := w.beside(3)
	all := w.AllOf(a.MutexAt(paths[2], lock.Options{}), a.UnfairAt(paths[1]), a.MutexAt(paths[0], lock.Options{}))
	held := must(w, b.UnfairAt(paths[1]).Lock)
	g := ask(w, all.Lock)
	w.Within(patience, "the first is held", func() bool { return len(w.QueueAt(paths[0])) == 1 })
	w.MustRelease(held)
	h := g.Granted()
	if _, err := b.UnfairAt(paths[1]).TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("the unfair lock of the whole: %v, want ErrBusy", err)
	}
	// Another has it, and has been asked to give it up. a does not hear of that before it releases.
	a.Proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
	w.Delete(paths[1])
	held = must(w, b.UnfairAt(paths[1]).Lock)
	w.revoke(lock.Contender{Node: paths[1]})
	released := make(chan error, 1)
	go func() { released <- h.Release(w.Context()) }()
	w.Within(patience, "the mutexes are released", func() bool { return len(w.QueueAt(paths[0])) == 0 })
	a.Heal()
	if err := <-released; !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want the loss", err)
	}
	if ok, err := w.Exists(paths[1]); !ok {
		t.Errorf("the release of the whole removed another's znode (%v)", err)
	}
	w.MustRelease(held)
	w.CleanAt([]string{paths[0], paths[2]})
}

// What cannot be meant is refused before anything is done.
func f36Duplicate(w *World, t *testing.T) {
	a := w.Client("a")
	rw := a.RWMutexAt(w.dir, lock.Options{})
	if _, err := lock.NewAll(rw.Reader(), a.MutexAt(w.beside(1)[0], lock.Options{}), rw); !errors.Is(err, lock.ErrDuplicate) {
		t.Errorf("both sides of one lock: %v, want ErrDuplicate", err)
	}
	if _, err := lock.NewAll(rw.Reader(), rw); !errors.Is(err, lock.ErrDuplicate) {
		t.Errorf("a read/write lock and its read side: %v, want ErrDuplicate", err)
	}
	if _, err := lock.NewAll(rw.Reader(), a.CuratorSemaphore(2).Permits(1)); !errors.Is(err, lock.ErrDuplicate) {
		t.Errorf("two locks of one path, in two directories: %v, want ErrDuplicate", err)
	}
	if _, err := lock.NewAll(); err == nil {
		t.Error("no locks were taken for some")
	}
	if _, err := lock.NewAll(rw.Reader(), nil); err == nil {
		t.Error("nil was taken for a lock")
	}
	if _, err := lock.NewAll(a.Semaphore(1).Permits(0)); err == nil {
		t.Error("no permits were taken for some")
	}
}

// Free locks are taken by two requests in one write each, and given back by one request each. In real time heartbeats leave
// meanwhile, and holds that are not short watch their nodes, so there the writes say nothing.
func f36RoundTrips(w *World, t *testing.T) {
	a := w.Client("a")
	paths := w.beside(3)
	all := w.AllOf(a.Mutexes(paths, lock.Options{})...)
	w.MustRelease(must(w, all.Lock)) // the directories are there
	w.Quiet(a)
	mark, before := a.Proxy.Mark(), a.Stats()
	w.MustRelease(must(w, all.Lock))
	writes := int(a.Stats().Writes - before.Writes)
	if asked := a.Proxy.Since(mark).Asked(wire.OpCreate2, wire.OpGetChildren2, wire.OpDelete); len(asked) != 3*len(paths) {
		t.Errorf("taking three free locks and giving them back took %d requests, want %d:\n%v", len(asked), 3*len(paths), asked)
	}
	if w.Virtual && writes > 2*len(paths) {
		t.Errorf("taking three free locks and giving them back took %d writes, want %d at most", writes, 2*len(paths))
	}
	w.CleanAt(paths)
}

// An administrator deletes the node of a contender that waits for one of several locks: it goes to the end of that queue,
// and has all of them in the end.
func f06DeletedWhileWaitingForAll(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	paths := w.beside(3)
	for _, path := range paths {
		held := must(w, a.MutexAt(path, lock.Options{}).Lock)
		g := ask(w, w.AllOf(b.Mutexes(paths, lock.Options{Requeue: true})...).Lock)
		waiter := func() string {
			for _, name := range w.QueueAt(path) {
				if node := zk.Join(path, name); node != held.Node() {
					return node
				}
			}
			return ""
		}
		w.Within(patience, "b waits", func() bool { return waiter() != "" })
		time.Sleep(w.moment())
		first := waiter()
		w.Delete(first)
		w.Within(patience, "b waits again", func() bool {
			again := waiter()
			return again != "" && again != first
		})
		w.MustRelease(held)
		h := g.Granted()
		w.MustRelease(h)
		w.CleanAt(paths)
	}
}

// A contender that waits for one lock has none of those that come later, and no place in the queue for them; it keeps its
// place in the queue for the one that it waits for, and what comes before.
func f36LaterPlaces(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	paths := w.beside(3)
	for busy := range paths {
		held := must(w, a.MutexAt(paths[busy], lock.Options{}).Lock)
		g := ask(w, w.AllOf(b.Mutexes(paths, lock.Options{})...).Lock)
		w.Within(patience, "b has its place", func() bool { return len(w.QueueAt(paths[busy])) == 2 })
		for i, path := range paths {
			want := 1 // held by b
			switch {
			case i == busy:
				want = 2 // by a, and b waits
			case i > busy:
				want = 0
			}
			w.Within(time.Second+w.slack(), fmt.Sprintf("%d nodes at lock %d, with lock %d busy", want, i, busy), func() bool {
				return len(w.QueueAt(path)) == want
			})
		}
		behind := ask(w, c.MutexAt(paths[busy], lock.Options{}).Lock)
		w.Within(patience, "c stands behind b", func() bool { return len(w.QueueAt(paths[busy])) == 3 })
		w.MustRelease(held)
		h := g.Granted()
		behind.StillPending(w.moment())
		w.MustRelease(h)
		w.MustRelease(behind.Granted())
		w.CleanAt(paths)
	}
}

// TryLock takes all or nothing, and names the holder of what it did not get.
func f36Busy(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	paths := w.beside(3)
	all := w.AllOf(b.Mutexes(paths, lock.Options{})...)
	for _, path := range paths {
		held := must(w, a.MutexAt(path, lock.Options{}).Lock)
		h, err := all.TryLock(w.Context())
		var busy *lock.BusyError
		if !errors.As(err, &busy) || busy.Path != path || busy.Holder.Owner.Label != "a" {
			t.Errorf("TryLock = %v, %v, want that %s is held by a", h, err, path)
		}
		w.Within(time.Second+w.slack(), "I2: nothing but what a holds", func() bool {
			n := 0
			for _, path := range paths {
				n += len(w.QueueAt(path))
			}
			return n == 1
		})
		w.MustRelease(held)
	}
	h := must(w, all.TryLock)
	w.MustRelease(h)
	w.CleanAt(paths)
}

// At each member in turn the connection breaks before or after its node is made, and the session goes on:
// all are held in the end, each by one node.
func f36FaultAtAnyMember(w *World, t *testing.T) {
	paths := w.beside(4)
	for k := range paths {
		for _, applied := range []bool{false, true} {
			a := w.Client("a")
			all := w.AllOf(a.Mutexes(paths, lock.Options{})...)
			w.MustRelease(must(w, all.Lock))
			m := faultproxy.Match{Ops: faultproxy.Creates(), Prefix: paths[k] + "/"}
			a.Cut(m, applied)
			h := must(w, all.Lock)
			for _, path := range paths {
				if n := len(w.QueueAt(path)); n != 1 {
					t.Errorf("fault at member %d, applied %v: %d nodes at %s, want 1", k, applied, n, path)
				}
			}
			w.MustRelease(h)
			w.CleanAt(paths)
		}
	}
}

// At each member in turn, which is busy or cannot be reached, the caller gives up: nothing is left.
func f36CancelledAtAnyMember(w *World, t *testing.T) {
	paths := w.beside(4)
	b := w.Client("b")
	for k, path := range paths {
		held := must(w, b.MutexAt(path, lock.Options{}).Lock)
		a := w.Client("a")
		ctx, cancel := context.WithCancel(w.Context())
		g := askUnder(ctx, w, w.AllOf(a.Mutexes(paths, lock.Options{})...).Lock)
		w.Within(patience, "a has its place", func() bool { return len(w.QueueAt(path)) == 2 })
		cancel()
		w.Bounded("a cancelled Lock of all", 0, func() {
			if _, err := g.Outcome(); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled at member %d: %v, want the context's error", k, err)
			}
		})
		w.MustRelease(held)
		w.CleanAt(paths)

		ctx, cancel = context.WithCancel(w.Context())
		m := faultproxy.Match{Ops: faultproxy.Creates(), Prefix: path + "/"}
		a.CutOff(m, true, cancel)
		if h, err := w.AllOf(a.Mutexes(paths, lock.Options{})...).Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("cut off and cancelled at member %d: %v, %v, want the context's error", k, h, err)
		}
		a.Reachable()
		w.CleanAt(paths)
	}
}

// A member is lost while others are waited for: so is the whole, at once, and nothing is left.
func f36LostWhileTaking(w *World, t *testing.T) {
	paths := w.beside(3)
	a, b := w.Client("a"), w.Client("b")
	all := w.AllOf(a.Mutexes(paths, lock.Options{})...)
	w.MustRelease(must(w, all.Lock)) // the directories are there, so all nodes are made at once
	held := must(w, b.MutexAt(paths[2], lock.Options{}).Lock)
	for _, path := range paths[:2] {
		g := ask(w, all.Lock)
		w.Within(patience, "a waits for the last", func() bool { return len(w.QueueAt(paths[2])) == 2 })
		w.Delete(zk.Join(path, w.QueueAt(path)[0]))
		_, err := g.Outcome()
		var lost *lock.LostError
		if !errors.As(err, &lost) || lost.Path != path || !errors.Is(err, lock.ErrNodeDeleted) {
			t.Errorf("Lock = %v, want the loss of %s", err, path)
		}
		w.CleanAt(paths[:2])
		w.Within(time.Second+w.slack(), "a has left the queue", func() bool { return len(w.QueueAt(paths[2])) == 1 })
	}
	w.MustRelease(held)
	w.CleanAt(paths)
}

// The loss of one is the loss of the whole; the others are kept until the release, which tells of the loss.
func f36LossOfOne(w *World, t *testing.T) {
	paths := w.beside(3)
	a := w.Client("a")
	for k, path := range paths {
		h := must(w, w.AllOf(a.Mutexes(paths, lock.Options{})...).Lock)
		w.Delete(h.Of(path)[0].Node())
		w.Ended(h, lock.ErrNodeDeleted)
		var lost *lock.LostError
		if err := h.Cause(); !errors.As(err, &lost) || lost.Path != path || !errors.Is(context.Cause(h.Context()), lock.ErrNodeDeleted) {
			t.Errorf("the whole ended with %v, want the loss of %s", err, path)
		}
		if h.Remaining() != 0 {
			t.Error("a whole that is lost is still good for work")
		}
		for i, path := range paths {
			if n := len(w.QueueAt(path)); i != k && n != 1 {
				t.Errorf("%d nodes at %s before the release, want 1", n, path)
			}
		}
		if err := h.Release(w.Context()); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release = %v, want the loss", err)
		}
		w.CleanAt(paths)
	}
}

// Members of two sessions: the end of one session is the loss of the whole.
func f36TwoSessions(w *World, t *testing.T) {
	paths := w.beside(2)
	a, b := w.Client("a"), w.Client("b")
	h := must(w, w.AllOf(b.MutexAt(paths[1], lock.Options{}), a.MutexAt(paths[0], lock.Options{})).Lock)
	w.Expire(b.Session)
	w.Ended(h, lock.ErrLost)
	if err := h.Cause(); !w.expired(err) {
		t.Errorf("the whole ended with %v, want session expired", err)
	}
	if n := len(w.QueueAt(paths[0])); n != 1 {
		t.Errorf("%d nodes of the session that lives, want 1", n)
	}
	if err := h.Release(w.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want the loss", err)
	}
	w.CleanAt(paths)
}
