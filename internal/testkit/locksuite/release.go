package locksuite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
)

// Group D of the atlas: releasing.
var releaseTests = []test{
	{"F23_ReleaseAcrossBreaks", f23AcrossBreaks},
	{"F23_CallerGone", f23CallerGone},
	{"F23_SessionClosesMeanwhile", f23SessionCloses},
	{"F24_DirectoryMadeAnew", f24MadeAnew},
	{"F24_AlreadyGone", f24AlreadyGone},
	{"F24_ManyReleases", f24ManyReleases},
}

// deletes matches what removes a holder's node.
func (w *World) deletes() faultproxy.Match {
	return faultproxy.Match{Ops: []wire.Op{wire.OpDelete, wire.OpMulti}, Prefix: w.dir + "/"}
}

// The delete is lost on its way, or its answer is, time and again.
func f23AcrossBreaks(w *World, t *testing.T) {
	for breaks := 1; breaks <= 5; breaks++ {
		for _, applied := range []bool{false, true} {
			a, b := w.Client("a"), w.Client("b")
			h := must(w, a.Mutex(lock.Options{}).Lock)
			g := ask(w, b.Mutex(lock.Options{}).Lock)
			w.WaitQueue(2)
			m := w.deletes()
			m.Times = breaks
			a.Cut(m, applied)
			if err := h.Release(w.Context()); err != nil {
				t.Errorf("release with %d breaks, applied %v: %v", breaks, applied, err)
			}
			if ok, err := w.Exists(h.Node()); ok || err != nil {
				t.Errorf("release with %d breaks, applied %v: returned before the node was gone (%v)", breaks, applied, err)
			}
			w.MustRelease(g.Granted())
			if err := h.Release(w.Context()); err != nil {
				t.Errorf("the second release says %v", err)
			}
			if !errors.Is(h.Cause(), lock.ErrReleased) {
				t.Errorf("the hold ended with %v", h.Cause())
			}
		}
	}
}

// The caller does not wait for the outcome. It is told so, and the node goes by itself.
func f23CallerGone(w *World, t *testing.T) {
	for _, applied := range []bool{false, true} {
		a, b := w.Client("a"), w.Client("b")
		m := a.Mutex(lock.Options{})
		h := must(w, m.Lock)
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.WaitQueue(2)
		ctx, cancel := context.WithCancel(w.Context())
		a.CutOff(w.deletes(), applied, cancel)
		err := h.Release(ctx)
		if !errors.Is(err, lock.ErrReleasePending) || !errors.Is(err, context.Canceled) {
			t.Errorf("release without waiting = %v, want ErrReleasePending", err)
		}
		if h.Context().Err() == nil || h.Remaining() != 0 {
			t.Error("a hold that is being released is still good for work")
		}
		a.Reachable()
		healed := time.Now()
		next := g.Granted()
		if d := g.at.Sub(healed); d > time.Second+w.slack() {
			t.Errorf("the next was granted %v after the network was healthy", d)
		}
		w.MustRelease(next)
		w.MustRelease(must(w, m.Lock))
	}
}

// zk-ruby 34, step by step: the holder's node is removed and the directory made anew, in which numbers
// start again; then the old holder releases.
func f24MadeAnew(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Mutex(lock.Options{}).Lock)
	a.Blackhole() // it does not hear of what follows
	w.Delete(h.Node())
	w.Delete(w.dir)
	next := must(w, b.Mutex(lock.Options{}).Lock)
	if tail := func(s string) string { return s[len(s)-10:] }; tail(h.Node()) != tail(next.Node()) {
		t.Fatalf("nodes %s and %s: numbers do not start again", h.Node(), next.Node())
	}
	a.Heal()
	if err := h.Release(w.Context()); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrNodeDeleted) {
		t.Errorf("release of what was lost = %v, want the loss", err)
	}
	time.Sleep(w.moment())
	if ok, err := w.Exists(next.Node()); !ok {
		t.Errorf("the old holder's release removed the new one's node (%v)", err)
	}
	if err := next.Cause(); err != nil {
		t.Errorf("the new holder lost its lock: %v", err)
	}
	w.MustRelease(next)
}

// The node went before the release: said once, and the Mutex works again.
func f24AlreadyGone(w *World, t *testing.T) {
	m := w.Client("a").Mutex(lock.Options{})
	h := must(w, m.Lock)
	w.Delete(h.Node())
	if err := h.Release(w.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release of what was gone = %v, want the loss", err)
	}
	if err := h.Release(w.Context()); err != nil {
		t.Errorf("the second release says %v", err)
	}
	w.MustRelease(must(w, m.Lock))
}

// Many release one hold at once: one delete. One that is late does not wait for the others beyond its
// own context.
func f24ManyReleases(w *World, t *testing.T) {
	a := w.Client("a")
	for range w.reps(100, 20) {
		h := must(w, a.Mutex(lock.Options{}).Lock)
		mark := a.Proxy.Mark()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := h.Release(w.Context()); err != nil {
					t.Errorf("one of eight releases: %v", err)
				}
			})
		}
		wg.Wait()
		if n := len(a.Proxy.Since(mark).Asked(wire.OpDelete)); n != 1 {
			t.Errorf("%d deletes for one hold", n)
		}
	}

	h := must(w, a.Mutex(lock.Options{}).Lock)
	a.Blackhole()
	first := make(chan error, 1)
	go func() { first <- h.Release(w.Context()) }()
	w.Ended(h, lock.ErrReleased)
	ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
	defer cancel()
	w.Bounded("a second release", 100*time.Millisecond, func() { h.Release(ctx) })
	a.Heal()
	if err := <-first; err != nil {
		t.Errorf("the first release: %v", err)
	}
	if ok, err := w.Exists(h.Node()); ok || err != nil {
		t.Errorf("the node is still there (%v)", err)
	}
}

// The session is closed while the release is under way, and the servers answer neither: the node is still there, and the release
// must not say that it is gone.
func f23SessionCloses(w *World, t *testing.T) {
	for _, kind := range []string{"mutex", "unfair"} {
		a := w.ClientWith("a", client.Options{CloseTimeout: w.Timeout / 4})
		lock1 := a.Mutex(lock.Options{}).Lock
		if kind == "unfair" {
			lock1 = a.UnfairAt(w.beside(1)[0]).Lock
		}
		h := must(w, lock1)
		node := h.Node()
		a.Blackhole()
		released := make(chan error, 1)
		go func() { released <- h.Release(w.Context()) }()
		<-h.Done()
		if err := a.Close(w.Context()); err == nil {
			t.Errorf("%s: Close without an answer = nil", kind)
		}
		if err := <-released; !errors.Is(err, lock.ErrReleasePending) {
			t.Errorf("%s: Release = %v, want ErrReleasePending", kind, err)
		}
		if ok, err := w.Exists(node); err != nil || !ok {
			t.Errorf("%s: the node is there: %v, %v; this test does not see the case", kind, ok, err)
		}
		w.Within(2*w.Timeout+w.slack(), "the session expires", func() bool {
			ok, err := w.Exists(node)
			return !ok && err == nil
		})
	}
}
