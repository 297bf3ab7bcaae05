package locksuite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A delay after a holder that did not release its lock.
var delayTests = []test{
	{"Delay_AfterAnUncleanEnd", delayUnclean},
	{"Delay_NotAfterARelease", delayRelease},
	{"Delay_NotAfterAReleaseInTheBackground", delayReaper},
	{"Delay_ReleaseAcrossBreaks", delayAcrossBreaks},
	{"Delay_ReleaseCutInTheMiddle", delayCutRelease},
	{"Delay_BeginsAnewForTheNext", delayAnew},
	{"Delay_GoesOnForTheSame", delayGoesOn},
	{"Delay_Try", delayTry},
	{"Delay_AcrossBreaks", delayBreaks},
	{"Delay_LostReplies", delayLostReplies},
	{"Delay_OwnNodeDeleted", delayOwnNode},
	{"Delay_Cancelled", delayCancelled},
	{"Delay_NotAfterAnAttempt", delayAttempt},
	{"Delay_Readers", delayReaders},
	{"Delay_All", delayAll},
	{"Delay_OffCostsNothing", delayOff},
	{"Delay_Refused", delayRefused},
}

// delay is what the tests' locks have.
func (w *World) delay() time.Duration {
	if w.Virtual {
		return 5 * time.Second
	}
	return 800 * time.Millisecond
}

func (w *World) delayed() lock.Options { return lock.Options{Delay: w.delay()} }

// delayWaiter returns options of a contender with a delay, and a function that returns when it waits for one to pass.
func (w *World) delayWaiter() (opt lock.Options, waits func()) {
	opt = w.delayed()
	var told atomic.Bool
	opt.Hooks.Waiting = func(_ context.Context, _ string, p lock.Place) {
		if p.Delay > 0 {
			told.Store(true)
		}
	}
	return opt, func() {
		w.t.Helper()
		w.Within(patience, "it waits for the delay", told.Load)
	}
}

// Markers returns the znodes of the lock directory that are no claims.
func (w *World) Markers() []string {
	w.t.Helper()
	return slices.DeleteFunc(w.Queue(), func(name string) bool { return !strings.Contains(name, "-held") })
}

// keptDelay checks that a grant came when the delay was over that began, for the contender that noticed, not before began.
func (w *World) keptDelay(what string, g *Grant, began time.Time) *lock.Hold {
	w.t.Helper()
	h := g.Granted()
	if d := g.at.Sub(began); d < w.delay() || w.Virtual && d > w.delay()+time.Second {
		w.t.Errorf("%s: granted after %v, the delay is %v", what, d, w.delay())
	}
	return h
}

// keptNone checks that a grant came at once.
func (w *World) keptNone(what string, g *Grant, began time.Time) *lock.Hold {
	w.t.Helper()
	h := g.Granted()
	if d := g.at.Sub(began); w.Virtual && d > time.Second {
		w.t.Errorf("%s: granted after %v, there is no delay to keep", what, d)
	}
	return h
}

// A holder that ends without a release, in any way, is followed by the next one after the delay, whether that
// one waited already or comes later.
func delayUnclean(w *World, t *testing.T) {
	b := w.Client("b")
	for _, waiting := range []bool{true, false} {
		for what, end := range map[string]func(*Client, *lock.Hold){
			"expired": func(a *Client, _ *lock.Hold) { w.Expire(a.Session) },
			"closed":  func(a *Client, _ *lock.Hold) { a.Close(w.Context()) },
			"deleted": func(_ *Client, h *lock.Hold) { w.Delete(h.Node()) },
			"deadline": func(a *Client, h *lock.Hold) {
				a.Blackhole()
				w.Ended(h, lock.ErrLost)
				a.Heal()
			},
		} {
			a := w.Client("a")
			h := must(w, a.Mutex(w.delayed()).Lock)
			if n := len(w.Markers()); n != 1 {
				t.Fatalf("%s: %d delay markers while the lock is held, want 1", what, n)
			}
			var g *Grant
			if waiting {
				g = ask(w, b.Mutex(w.delayed()).Lock)
				w.WaitQueue(3)
			}
			began := time.Now()
			end(a, h)
			if what == "deadline" {
				began = time.Now() // its node goes when it can be reached again
			}
			if !waiting {
				g = ask(w, b.Mutex(w.delayed()).Lock)
			}
			next := w.keptDelay(what, g, began)
			if markers := w.Markers(); len(markers) != 1 || !strings.Contains(next.Node(), strings.TrimSuffix(markers[0], "-held")) {
				t.Errorf("%s: the delay markers are %v, want that of the new holder %s", what, markers, next.Node())
			}
			w.MustRelease(next)
			w.Clean()
			h.Release(w.Context()) // to leave nothing to the end of the test
		}
	}
}

// A release is followed by the next one at once, and leaves nothing.
func delayRelease(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	for range 3 {
		h := must(w, a.Mutex(w.delayed()).Lock)
		g := ask(w, b.Mutex(w.delayed()).Lock)
		w.WaitQueue(3)
		began := time.Now()
		w.MustRelease(h)
		h = w.keptNone("after a release", g, began)
		w.MustRelease(h) // this one has waited, so it rings
		began = time.Now()
		w.MustRelease(w.keptNone("after a release that rang", ask(w, a.Mutex(w.delayed()).Lock), began))
		w.Clean()
	}
}

// A release whose caller does not wait for it is one, whatever became of its request.
func delayReaper(w *World, t *testing.T) {
	for _, applied := range []bool{false, true} {
		a, b := w.Client("a"), w.Client("b")
		h := must(w, a.Mutex(w.delayed()).Lock)
		g := ask(w, b.Mutex(w.delayed()).Lock)
		w.WaitQueue(3)
		ctx, cancel := context.WithCancel(w.Context())
		a.CutOff(w.deletes(), applied, cancel)
		if err := h.Release(ctx); !errors.Is(err, lock.ErrReleasePending) {
			t.Errorf("release without waiting = %v, want ErrReleasePending", err)
		}
		began := time.Now()
		a.Reachable()
		w.MustRelease(w.keptNone("after a release in the background", g, began))
		w.Clean()
	}
}

// The requests of a release are lost, or their answers are, time and again.
func delayAcrossBreaks(w *World, t *testing.T) {
	for breaks := 1; breaks <= 3; breaks++ {
		for _, applied := range []bool{false, true} {
			a, b := w.Client("a"), w.Client("b")
			h := must(w, a.Mutex(w.delayed()).Lock)
			g := ask(w, b.Mutex(w.delayed()).Lock)
			w.WaitQueue(3)
			m := w.deletes()
			m.Times = breaks
			a.Cut(m, applied)
			began := time.Now()
			w.MustRelease(h)
			w.MustRelease(w.keptNone("after breaks", g, began))
			w.Clean()
		}
	}
}

// Of the two requests of a release the second one never arrives, and the session ends: it was released.
func delayCutRelease(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Mutex(w.delayed()).Lock)
	ctx, cancel := context.WithCancel(w.Context())
	applied := make(chan struct{})
	a.Proxy.After(w.deletes(), func(faultproxy.Request, faultproxy.Reply) { close(applied) })
	m := w.deletes()
	m.Skip = 1
	a.Proxy.Before(m, func(faultproxy.Request) {
		<-applied
		a.Proxy.Refuse(true)
		cancel()
	})
	a.Proxy.CutBefore(m)
	if err := h.Release(ctx); !errors.Is(err, lock.ErrReleasePending) {
		t.Errorf("release = %v, want ErrReleasePending", err)
	}
	w.Expire(a.Session)
	w.MustRelease(w.keptNone("after half a release", ask(w, b.Mutex(w.delayed()).Lock), time.Now()))
	w.Clean()
}

// A contender that waits for the delay and dies leaves all of it to the next one.
func delayAnew(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	must(w, a.Mutex(w.delayed()).Lock)
	opt, bWaits := w.delayWaiter()
	first := ask(w, b.Mutex(opt).Lock)
	w.WaitQueue(3)
	g := ask(w, c.Mutex(w.delayed()).Lock)
	w.WaitQueue(4)
	w.Expire(a.Session)
	bWaits()
	first.StillPending(w.delay() / 8) // which does not count for c
	began := time.Now()
	w.Expire(b.Session)
	if h, err := first.Outcome(); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the one that expired got %v, %v", h, err)
	}
	w.MustRelease(w.keptDelay("after one that died waiting", g, began))
	w.Clean()
}

// A contender that gives up waiting and comes again does not begin anew.
func delayGoesOn(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := b.Mutex(w.delayed())
	must(w, a.Mutex(w.delayed()).Lock)
	began := time.Now()
	w.Expire(a.Session)
	ctx, cancel := context.WithTimeout(w.Context(), w.delay()*3/4)
	defer cancel()
	if h, err := m.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v, %v, want the deadline's error", h, err)
	}
	w.Within(time.Second+w.slack(), "what is left is the lost holder's", func() bool { return len(w.Queue()) == 1 })
	w.MustRelease(w.keptDelay("the second time", ask(w, m.Lock), began))
	w.Clean()
}

// TryLock does not wait for the delay, and says how long it is; in the end it gets the lock.
func delayTry(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := b.Mutex(w.delayed())
	must(w, a.Mutex(w.delayed()).Lock)
	began := time.Now()
	w.Expire(a.Session)
	for refused := 0; ; refused++ {
		h, err := m.TryLock(w.Context())
		var busy *lock.BusyError
		if err == nil {
			if d := time.Since(began); refused == 0 || d < w.delay() || w.Virtual && d > w.delay()+time.Second {
				t.Errorf("granted at try %d after %v, the delay is %v", refused+1, d, w.delay())
			}
			w.MustRelease(h)
			break
		}
		if !errors.As(err, &busy) || busy.Delay <= 0 || busy.Delay > w.delay() || !strings.Contains(err.Error(), "free in") {
			t.Fatalf("TryLock = %v, want what is left of the delay", err)
		}
		if d := time.Since(began); d > w.delay()+patience/2 {
			t.Fatalf("still refused after %v: %v", d, err)
		}
		time.Sleep(w.delay() / 20)
	}
	w.Clean()
}

// Connections that break while the delay passes neither end it nor begin it anew.
func delayBreaks(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	must(w, a.Mutex(w.delayed()).Lock)
	began := time.Now()
	w.Expire(a.Session)
	g := ask(w, b.Mutex(w.delayed()).Lock)
	for range 8 {
		time.Sleep(w.delay() / 10)
		b.Proxy.CutAll()
	}
	w.MustRelease(w.keptDelay("after breaks", g, began))
	w.Clean()
}

// The request that makes the delay marker is lost, or its answer is: there is one marker, and then none.
func delayLostReplies(w *World, t *testing.T) {
	for breaks := 1; breaks <= 3; breaks++ {
		for _, applied := range []bool{false, true} {
			a := w.Client("a")
			w.MustRelease(must(w, a.Mutex(w.delayed()).Lock)) // the directory is there
			m := faultproxy.Match{Ops: []wire.Op{wire.OpMulti}, Prefix: w.dir + "/", Times: breaks}
			a.Cut(m, applied)
			began := time.Now()
			h := w.keptNone("with lost replies", ask(w, a.Mutex(w.delayed()).Lock), began)
			if n := len(w.Markers()); n != 1 {
				t.Errorf("%d delay markers, want 1", n)
			}
			w.MustRelease(h)
			w.Clean()
		}
	}
}

// The node of one that waits for the delay is deleted: it is told so, or goes to the end of the queue, and leaves no marker.
func delayOwnNode(w *World, t *testing.T) {
	for _, requeue := range []bool{false, true} {
		a, b := w.Client("a"), w.Client("b")
		must(w, a.Mutex(w.delayed()).Lock)
		began := time.Now()
		w.Expire(a.Session)
		opt, waits := w.delayWaiter()
		opt.Requeue = requeue
		g := ask(w, b.Mutex(opt).Lock)
		waits()
		w.Within(patience, "b's node is there", func() bool { return len(w.NodesOf("b")) == 1 })
		w.Delete(w.NodesOf("b")[0])
		deleted := time.Now()
		if !requeue {
			if h, err := g.Outcome(); !errors.Is(err, lock.ErrPlaceLost) {
				t.Errorf("Lock = %v, %v, want ErrPlaceLost", h, err)
			}
			if d := g.at.Sub(deleted); w.Virtual && d > time.Second {
				t.Errorf("b was told %v after its node was deleted", d)
			}
			if n := len(w.Markers()); n != 1 {
				t.Errorf("%d markers, want that of the lost holder", n)
			}
			g, began = ask(w, b.Mutex(lock.Options{}).Lock), time.Now()
			h := w.keptNone("without the option", g, began)
			for _, marker := range w.Markers() {
				w.Delete(zk.Join(w.dir, marker))
			}
			w.MustRelease(h)
			continue
		}
		w.MustRelease(w.keptDelay("after its node was deleted", g, began))
		w.Clean()
	}
}

// A contender that gives up while the delay passes leaves nothing of its own.
func delayCancelled(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	must(w, a.Mutex(w.delayed()).Lock)
	w.Expire(a.Session)
	ctx, cancel := context.WithCancel(w.Context())
	opt, waits := w.delayWaiter()
	g := askUnder(ctx, w, b.Mutex(opt).Lock)
	waits()
	cancel()
	w.Bounded("a cancelled Lock", 0, func() {
		if _, err := g.Outcome(); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v, want the context's error", err)
		}
	})
	w.Within(time.Second+w.slack(), "what is left is the lost holder's", func() bool { return len(w.Queue()) == 1 })
	began := time.Now()
	w.MustRelease(w.keptDelay("for the next", ask(w, c.Mutex(w.delayed()).Lock), began))
	w.Clean()
}

// An attempt that never held the lock leaves no marker, also if its session is closed at once.
func delayAttempt(w *World, t *testing.T) {
	attempt := func(what string, markers int, want error, take func(*Client, *lock.Mutex) error) {
		t.Helper()
		c := w.Client("c")
		if err := take(c, c.Mutex(lock.Options{Delay: lock.DelayMax})); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
		c.Close(w.Context())
		if n := len(w.Markers()); n != markers {
			t.Errorf("%s: %d markers are left, want %d", what, n, markers)
		}
	}
	a, b := w.Client("a"), w.Client("b")
	must(w, a.Mutex(w.delayed()).Lock)
	w.Expire(a.Session)
	attempt("a try", 1, lock.ErrBusy, func(_ *Client, m *lock.Mutex) error {
		_, err := m.TryLock(w.Context())
		return err
	})
	attempt("one that gives up while the delay passes", 1, context.DeadlineExceeded, func(_ *Client, m *lock.Mutex) error {
		ctx, cancel := context.WithTimeout(w.Context(), w.delay()/8)
		defer cancel()
		_, err := m.Lock(ctx)
		return err
	})
	w.MustRelease(must(w, b.Mutex(w.delayed()).Lock))
	attempt("one that gives up when its marker is made", 0, context.Canceled, func(c *Client, m *lock.Mutex) error {
		ctx, cancel := context.WithCancel(w.Context())
		c.Proxy.After(faultproxy.Match{Ops: []wire.Op{wire.OpMulti}, Prefix: w.dir + "/", Times: 1}, func(faultproxy.Request, faultproxy.Reply) { cancel() })
		_, err := m.Lock(ctx)
		return err
	})
	w.Clean()
}

// A reader's end delays nothing: readers do not write. After the end of a writer all wait, also if the writer had
// downgraded. A reader makes no marker.
func delayReaders(w *World, t *testing.T) {
	rw := func(c *Client) *lock.RWMutex { return c.RWMutexAt(w.dir, w.delayed()) }
	lost := func(f func(*lock.RWMutex, context.Context) (*lock.Hold, error)) time.Time {
		a := w.Client("a")
		must(w, func(ctx context.Context) (*lock.Hold, error) { return f(rw(a), ctx) })
		began := time.Now()
		w.Expire(a.Session)
		return began
	}
	downgraded := func(m *lock.RWMutex, ctx context.Context) (*lock.Hold, error) {
		h, err := m.Lock(ctx)
		if err == nil {
			err = h.Downgrade(ctx)
		}
		return h, err
	}
	b, c := w.Client("b"), w.Client("c")
	lost((*lock.RWMutex).RLock)
	reader := w.keptNone("a reader after a reader", ask(w, rw(b).RLock), time.Now())
	if n := len(w.Markers()); n != 0 {
		t.Errorf("%d markers of readers", n)
	}
	w.MustRelease(reader)
	w.Clean()
	lost((*lock.RWMutex).RLock)
	w.MustRelease(w.keptNone("a writer after a reader", ask(w, rw(c).Lock), time.Now()))
	w.Clean()
	for what, end := range map[string]func(*lock.RWMutex, context.Context) (*lock.Hold, error){"wrote": (*lock.RWMutex).Lock, "downgraded": downgraded} {
		began := lost(end)
		first, second := ask(w, rw(b).RLock), ask(w, rw(c).RLock)
		reader := w.keptDelay("a reader after one that "+what, first, began)
		w.MustRelease(w.keptDelay("another reader after one that "+what, second, began))
		w.MustRelease(reader)
		w.Clean()
	}
}

// A member of an All keeps its delay; TryLock tells of it.
func delayAll(w *World, t *testing.T) {
	paths := w.beside(3)
	a, b := w.Client("a"), w.Client("b")
	members := func(c *Client) []lock.Member {
		ms := c.Mutexes(paths, lock.Options{})
		ms[1] = c.MutexAt(paths[1], w.delayed())
		return ms
	}
	must(w, w.AllOf(members(a)...).Lock)
	began := time.Now()
	w.Expire(a.Session)
	all := w.AllOf(members(b)...)
	h, err := all.TryLock(w.Context())
	var busy *lock.BusyError
	if !errors.As(err, &busy) || busy.Path != paths[1] || busy.Delay <= 0 {
		t.Errorf("TryLock of all = %v, %v, want what is left of the delay", h, err)
	}
	h = must(w, all.Lock)
	if d := time.Since(began); d < w.delay() {
		t.Errorf("granted after %v, the delay is %v", d, w.delay())
	}
	w.MustRelease(h)
	w.CleanAt(paths)
}

// Without the option there is no delay, nothing is left for one, and no request is sent for one.
func delayOff(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	m := b.Mutex(lock.Options{})
	w.MustRelease(must(w, m.Lock))
	w.Quiet(b)
	mark := b.Proxy.Mark()
	h := must(w, m.Lock)
	if len(w.Markers()) > 0 {
		t.Error("a delay marker without the option")
	}
	w.MustRelease(h)
	if n := len(b.Proxy.Since(mark).Asked(wire.OpCreate2, wire.OpMulti, wire.OpDelete, wire.OpGetChildren2)); n != 3 {
		t.Errorf("%d requests to take and give back a free lock, want 3", n)
	}
	must(w, a.Mutex(w.delayed()).Lock)
	w.Expire(a.Session)
	h = w.keptNone("without the option", ask(w, m.Lock), time.Now())
	for _, marker := range w.Markers() {
		w.Delete(zk.Join(w.dir, marker))
	}
	w.MustRelease(h)
}

// Locks that have no delay say so.
func delayRefused(w *World, t *testing.T) {
	a := w.Client("a")
	for what, make := range map[string]func(s *client.Session, opt lock.Options) error{
		"semaphore": func(s *client.Session, opt lock.Options) error {
			_, err := lock.NewSemaphore(s, w.dir, 2, opt)
			return err
		},
		"Curator semaphore": func(s *client.Session, opt lock.Options) error {
			_, err := lock.NewCuratorSemaphore(s, w.dir, 2, opt)
			return err
		},
		"unfair lock": func(s *client.Session, opt lock.Options) error { _, err := lock.NewUnfair(s, w.dir, opt); return err },
	} {
		if err := make(a.Session, lock.Options{Delay: time.Second}); err == nil {
			t.Errorf("a %s with a delay", what)
		}
	}
	for _, d := range []time.Duration{-1, lock.DelayMax + 1} {
		if _, err := lock.NewMutex(a.Session, w.dir, lock.Options{Delay: d}); err == nil {
			t.Errorf("a delay of %v", d)
		}
	}
}
