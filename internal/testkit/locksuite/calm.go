package locksuite

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A lock that is taken again at once, with nobody else about: what is spared, and that it is spared only then.
var calmTests = []test{
	{"Calm_TakenAgain", calmTakenAgain},
	{"Calm_SomebodyCame", calmSomebodyCame},
	{"Calm_SomebodyChoseTheNextNumber", calmChosenNumber},
	{"Calm_MadeAnew", calmMadeAnew},
	{"Calm_Reconnect", calmReconnect},
	{"Calm_CutOffAtEachRequest", calmCutOff},
	{"Calm_ReadersAreNobodyToReaders", calmReaders},
	{"Calm_OthersAskForMore", calmOptions},
	{"Calm_NoWatchIsLeft", calmNoWatchIsLeft},
}

// calmEnds is longer than anything is remembered of a lock that nobody asks for.
const calmEnds = 300 * time.Millisecond

// calm has c take the lock and give it back until it does so without a listing.
func (w *World) calm(c *Client, take func() (*lock.Hold, error)) {
	w.t.Helper()
	w.Within(patience, "nothing is listed any more", func() bool {
		mark := c.Proxy.Mark()
		w.MustRelease(mustHold(w, take))
		asked, _ := work(c.Proxy.Since(mark))
		return asked.But(wire.OpGetData).Ops() == "create, delete"
	})
}

func calmTakenAgain(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.Mutex(lock.Options{})
	locked := func() (*lock.Hold, error) { return m.Lock(w.Context()) }
	w.calm(a, locked)
	if !w.Virtual {
		return // a machine may always be so busy that it takes too long to come again
	}
	for _, take := range []func() (*lock.Hold, error){locked, func() (*lock.Hold, error) { return m.TryLock(w.Context()) }} {
		mark := a.Proxy.Mark()
		w.MustRelease(mustHold(w, take))
		if asked, told := work(a.Proxy.Since(mark)); asked.Ops() != "create, delete" || len(told) > 0 {
			t.Errorf("taken again and released: %q, %d notifications, want nothing but create and delete", asked.Ops(), len(told))
		}
	}
	mark := a.Proxy.Mark()
	time.Sleep(calmEnds)
	if asked, _ := work(a.Proxy.Since(mark)); asked.Ops() != "removeWatches" {
		t.Errorf("with nobody asking for the lock any more, %q was sent, want an end to the watch", asked.Ops())
	}
	asked, _ := w.cycle(a, m.Lock)
	if got, want := asked.Ops(), "create, children, delete"; got != want {
		t.Errorf("long after, lock and release sent %q, want %q", got, want)
	}
}

func mustHold(w *World, take func() (*lock.Hold, error)) *lock.Hold {
	w.t.Helper()
	h, err := take()
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// Whoever comes in between counts, whether he has left again or not, and whatever he calls himself.
func calmSomebodyCame(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := a.Mutex(lock.Options{})
	locked := func() (*lock.Hold, error) { return m.Lock(w.Context()) }

	w.calm(a, locked)
	w.MustRelease(must(w, b.Mutex(lock.Options{}).Lock))
	mark := a.Proxy.Mark()
	w.MustRelease(must(w, m.Lock))
	if asked, _ := work(a.Proxy.Since(mark)); w.Virtual && asked.Ops() != "create, children, removeWatches, delete" {
		t.Errorf("after somebody else's visit %q was sent, want a listing", asked.Ops())
	}

	w.calm(a, locked)
	held := must(w, b.Mutex(lock.Options{}).Lock)
	if _, err := m.TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("a try while somebody else holds the lock: %v", err)
	}
	g := ask(w, m.Lock)
	w.stillPending("I1: somebody else holds the lock", g)
	w.MustRelease(held)
	w.MustRelease(g.Granted())

	w.calm(a, locked)
	node := w.Create(zk.Join(w.dir, "by-hand-lock-0000000000"), zk.Persistent)
	g = ask(w, m.Lock)
	w.stillPending("I1: an older claim is there, made by hand", g)
	w.Delete(node)
	w.MustRelease(g.Granted())
}

// Who makes a claim by hand may give it a number that the server is yet to reach. Whoever gets the same number cannot tell
// who came first, and has nothing without a listing.
func calmChosenNumber(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.Mutex(lock.Options{})
	first := must(w, m.Lock)
	n := len(first.Node()) - numberDigits
	number, err := strconv.Atoi(first.Node()[n:])
	if err != nil {
		t.Fatal(err)
	}
	w.MustRelease(first)
	const ahead = 4 // of the last claim; one of these numbers goes to the znode itself
	node := w.Create(zk.Join(w.dir, fmt.Sprintf("by-hand-lock-%0*d", numberDigits, number+1+ahead)), zk.Persistent)
	for range ahead - 1 { // who made it holds the lock from when these have gone
		w.MustRelease(must(w, m.Lock))
	}
	if h, err := m.TryLock(w.Context()); !errors.Is(err, lock.ErrCounterExhausted) {
		t.Errorf("with the number of a claim that is there: %v, error %v; want an error", h, err)
	}
	w.Delete(node)
}

// The directory is made anew, and counts to where the last claim was: the next number is not the next claim.
func calmMadeAnew(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := a.Mutex(lock.Options{})
	for unreachable := range 2 {
		w.calm(a, func() (*lock.Hold, error) { return m.Lock(w.Context()) })
		last := must(w, m.Lock)
		node := last.Node()
		w.MustRelease(last)
		if unreachable == 1 {
			a.Unreachable()
		}
		w.Delete(w.dir)
		var held *lock.Hold
		for held == nil || held.Node()[len(held.Node())-numberDigits:] != node[len(node)-numberDigits:] {
			if held != nil {
				w.MustRelease(held)
			}
			held = must(w, b.Mutex(lock.Options{}).Lock)
		}
		a.Reachable()
		g := ask(w, m.Lock)
		w.WaitLine(2)
		w.stillPending("I1: somebody holds the lock in the new directory", g)
		w.MustRelease(held)
		w.MustRelease(g.Granted())
	}
}

// numberDigits is how many digits a claim's number has.
const numberDigits = 10

func calmReconnect(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.Mutex(lock.Options{})
	w.calm(a, func() (*lock.Hold, error) { return m.Lock(w.Context()) })
	before, _ := a.State()
	a.Proxy.CutAll()
	w.Within(patience, "another connection", func() bool {
		now, _ := a.State()
		return now.Conn > before.Conn
	})
	asked, _ := w.cycle(a, m.Lock)
	if len(asked.Asked(wire.OpGetChildren2)) == 0 {
		t.Errorf("on another connection lock and release sent %q, want a listing", asked.Ops())
	}
}

// At each request of a cycle, before it is applied or behind that, the connection breaks, and somebody else takes the lock
// if he can before there is another.
func calmCutOff(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := a.Mutex(lock.Options{})
	var reg Register
	for _, op := range []wire.Op{wire.OpCreate2, wire.OpDelete, wire.OpExists} {
		for _, applied := range []bool{false, true} {
			w.calm(a, func() (*lock.Hold, error) { return m.Lock(w.Context()) })
			if op == wire.OpExists {
				time.Sleep(calmEnds) // so that the directory is watched anew
			}
			off := make(chan struct{})
			a.CutOff(faultproxy.Match{Ops: []wire.Op{op}, Prefix: w.dir}, applied, func() { close(off) })
			over := make(chan struct{})
			go func() {
				defer close(over)
				for range 4 {
					h, err := m.Lock(w.Context())
					if err != nil {
						t.Error(err)
						return
					}
					reg.Enter(h.Token())
					reg.Leave()
					if err := h.Release(w.Context()); err != nil {
						t.Error(err)
					}
				}
			}()
			select {
			case <-off:
			case <-over: // so slowly that the directory was not watched again
				reg.Check(t)
				return
			}
			g := ask(w, b.Mutex(lock.Options{}).Lock)
			select {
			case <-g.done:
			case <-time.After(w.moment()): // the claim is there
				a.Reachable()
			}
			h := g.Granted()
			reg.Enter(h.Token())
			a.Reachable()
			time.Sleep(w.moment())
			reg.Leave()
			w.MustRelease(h)
			<-over
		}
	}
	reg.Check(t)
}

// That a reader need not wait for another says nothing about a writer.
func calmReaders(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, b.RWMutex().RLock)
	m := a.RWMutex()
	w.calm(a, func() (*lock.Hold, error) { return m.RLock(w.Context()) })
	g := ask(w, m.Lock)
	w.stillPending("I1: somebody reads", g)
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// Who does not care for seals, or for other kinds of locks, knows nothing of use to who does.
func calmOptions(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	plain := func() (*lock.Hold, error) { return a.Mutex(lock.Options{}).Lock(w.Context()) }

	sem := a.SemaphoreAt(w.dir, 1, lock.Options{})
	for range 5 {
		if asked, _ := w.cycle(a, sem.Acquire); len(asked.Asked(wire.OpGetChildren2)) != 1 {
			t.Errorf("a permit was taken by %q, want a listing each time", asked.Ops())
		}
	}

	permit := must(w, b.Semaphore(1).Acquire)
	w.calm(a, plain)
	var other *lock.KindError
	if h, err := a.Mutex(lock.Options{OneKind: true}).TryLock(w.Context()); !errors.As(err, &other) {
		t.Errorf("beside a semaphore: %v, error %v, want a *KindError", h, err)
	}
	w.MustRelease(permit)

	must(w, c.Mutex(w.delayed()).Lock)
	w.Expire(c.Session)
	w.calm(a, plain)
	began := time.Now()
	w.MustRelease(w.keptDelay("behind a holder who did not release", ask(w, a.Mutex(w.delayed()).Lock), began))
}

// However an attempt or a hold ends that relied on what is known: with it goes the watch.
func calmNoWatchIsLeft(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := a.Mutex(lock.Options{})
	briefly := func() {
		ctx, cancel := context.WithTimeout(w.Context(), calmEnds)
		defer cancel()
		if h, err := m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("granted: %v, error %v; want none in time", h, err)
		}
	}
	for _, tt := range []struct {
		name string
		end  func()
	}{
		{"released when its node had gone", func() {
			h := must(w, m.Lock)
			w.Delete(h.Node())
			if err := h.Release(w.Context()); !errors.Is(err, lock.ErrNodeDeleted) {
				t.Errorf("release of a hold whose node has been deleted: %v", err)
			}
		}},
		{"lost", func() {
			h := must(w, m.Lock)
			time.Sleep(calmEnds)
			w.Delete(h.Node())
			w.Ended(h, lock.ErrNodeDeleted)
		}},
		{"not answered", func() {
			a.Blackhole()
			briefly()
			a.Heal()
		}},
		{"in vain", func() {
			held := must(w, b.Mutex(lock.Options{}).Lock)
			briefly()
			w.MustRelease(held)
		}},
	} {
		w.calm(a, func() (*lock.Hold, error) { return m.Lock(w.Context()) })
		tt.end()
		if w.server != nil {
			w.Within(time.Second, "no watch is left of who "+tt.name, func() bool { return w.server.Stats().Watches == 0 })
		}
	}
}
