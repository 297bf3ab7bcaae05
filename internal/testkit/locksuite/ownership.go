package locksuite

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Group G of the atlas: whose lock it is.
var ownershipTests = []test{
	{"F31_OneSessionManyGoroutines", f31OneSession},
	{"F31_Nested", f31Nested},
	{"F31_NotByAccident", f31NotByAccident},
}

// Goroutines of one session, by one Mutex and by another of the same path, exclude each other; one that
// releases does not matter.
func f31OneSession(w *World, t *testing.T) {
	var reg Register
	a := w.Client("a")
	mutexes := []*lock.Mutex{a.Mutex(lock.Options{}), a.Mutex(lock.Options{})}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range w.reps(50, 5) {
				h, err := mutexes[i%2].Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				reg.Enter(h.Token())
				reg.Leave()
				released := make(chan error)
				go func() { released <- h.Release(context.Background()) }()
				if err := <-released; err != nil {
					t.Errorf("release by another goroutine: %v", err)
				}
			}
		})
	}
	wg.Wait()
	reg.Check(t)
}

// Holds within holds, by context, released in any order: the node stays until the last one goes.
func f31Nested(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.Mutex(lock.Options{})
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range w.reps(50, 5) {
		holds := []*lock.Hold{must(w, m.Lock)}
		for range 3 {
			lockOrTry := m.Lock
			if r.IntN(2) == 0 {
				lockOrTry = m.TryLock
			}
			h, err := lockOrTry(holds[r.IntN(len(holds))].Context())
			if err != nil {
				t.Fatalf("seed %d: lock again: %v", seed, err)
			}
			if h.Node() != holds[0].Node() || h.Token() != holds[0].Token() {
				t.Fatalf("seed %d: locked again with another node", seed)
			}
			holds = append(holds, h)
		}
		r.Shuffle(len(holds), func(i, j int) { holds[i], holds[j] = holds[j], holds[i] })
		for i, h := range holds {
			if n := len(w.Queue()); n != 1 {
				t.Fatalf("seed %d: %d nodes with %d holds left", seed, n, len(holds)-i)
			}
			w.MustRelease(h)
			w.MustRelease(h) // once more does not count
			if !errors.Is(h.Cause(), lock.ErrReleased) {
				t.Fatalf("seed %d: a released hold says %v", seed, h.Cause())
			}
		}
		w.Clean()
	}

	// What is held in between is no hindrance, be it in another line of the same directory.
	outer := must(w, m.Lock)
	latch, err := bridge.NewLatch[lock.Locker](a.Session, w.dir, lock.Options{AllowOtherKinds: true})
	between, err := made(w, latch, err).TryLock(outer.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h, err := m.TryLock(between.Context()); err != nil {
		t.Errorf("lock again under a latch of the same directory: %v", err)
	} else {
		w.MustRelease(h)
	}
	w.MustRelease(between)
	w.MustRelease(outer)

	// A loss is that of all of them.
	outer = must(w, m.Lock)
	inner, err := m.Lock(outer.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.Delete(outer.Node())
	w.Ended(outer, lock.ErrNodeDeleted)
	w.Ended(inner, lock.ErrNodeDeleted)
	if h, err := m.Lock(inner.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Lock with the context of a lost hold = %v, %v, want the loss", h, err)
	}
	w.MustRelease(must(w, func(context.Context) (*lock.Hold, error) { // its values alone are nothing to re-enter by
		return m.Lock(context.WithoutCancel(inner.Context()))
	}))
}

// Nothing but the context makes a caller the owner: not the Mutex, not the session, not the path, and not
// a context of a lock of another path or session.
func f31NotByAccident(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Mutex(lock.Options{}).Lock)
	other := must(w, a.MutexAt(w.dir+"-other", lock.Options{}).Lock)
	for name, try := range map[string]func() (*lock.Hold, error){
		"same session":      func() (*lock.Hold, error) { return a.Mutex(lock.Options{}).TryLock(w.Context()) },
		"another's path":    func() (*lock.Hold, error) { return a.Mutex(lock.Options{}).TryLock(other.Context()) },
		"another's session": func() (*lock.Hold, error) { return b.Mutex(lock.Options{}).TryLock(h.Context()) },
	} {
		if got, err := try(); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("%s: TryLock = %v, %v, want ErrBusy", name, got, err)
		}
	}
	w.MustRelease(other)
	w.MustRelease(h)
}
