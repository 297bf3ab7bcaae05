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
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Attempts of one session at a lock without a queue, when the znode does not say whose it is.
var siblingTests = []test{
	{"F01_UnfairRevokedUnseen", f01UnfairRevoked},
	{"F01_UnfairSiblingsUnseen", f01UnfairSiblings},
	{"F04_UnfairGaveUpUnseen", f04UnfairGaveUp},
	{"F31_UnfairSiblingHolds", f31UnfairSiblingHolds},
	{"UnfairRandomSiblings", unfairRandomSiblings},
}

// curatorsWord is what Curator's Revoker leaves of a znode's data.
const curatorsWord = "__REVOKE__"

// overwrite writes over what the lock's znode says, if it is there.
func (w *World) overwrite(data string) {
	if _, err := w.admin.Set(w.Context(), w.dir, []byte(data), -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		w.t.Error(err)
	}
}

// The server made the znode, the answer was lost, and its data is written over before the client is
// back. It is taken for what it is: ours. A request to give up that was made so is heard.
func f01UnfairRevoked(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	for _, way := range []func(context.Context) (*lock.Hold, error){a.Unfair().Lock, a.Unfair().TryLock} {
		for _, data := range []string{curatorsWord, "", "of somebody's own"} {
			w.MustRelease(must(w, way))
			a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) { w.overwrite(data) })
			a.Proxy.CutAfter(w.unfairCreates())
			mark := a.Proxy.Mark()
			h := must(w, way)
			if n := len(a.Proxy.Since(mark).Asked(faultproxy.Creates()...)); n != 1 {
				t.Errorf("%q: %d creates were sent, want 1", data, n)
			}
			w.isOf(h)
			if data == curatorsWord {
				w.revoked("asked before it knew that it holds", h)
				w.Within(patience, "the holder writes its owner again", func() bool { return w.holder() == "a" })
			}
			next := ask(w, b.Unfair().Lock)
			w.stillPending("held by a", next)
			w.MustRelease(h)
			w.MustRelease(next.Granted())
			w.free()
		}
	}
}

// Two attempts of one session ask at once and have no answer, and the znode that one of them has made says nothing.
// One of them has it, the other waits for it.
func f01UnfairSiblings(w *World, t *testing.T) {
	a := w.Client("a")
	w.MustRelease(must(w, a.Unfair().Lock))
	asked := make(chan struct{})
	second := w.unfairCreates()
	second.Skip = 1
	a.Proxy.Before(second, func(faultproxy.Request) { close(asked) })
	a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) {
		<-asked
		w.overwrite(curatorsWord)
	})
	a.Proxy.CutAfter(w.unfairCreates())
	grants := make(chan *lock.Hold, 2)
	for range 2 { // each by a lock value of its own
		u := a.Unfair()
		go func() {
			h, err := u.Lock(w.Context())
			if err != nil {
				t.Error(err)
			}
			grants <- h
		}()
	}
	var first *lock.Hold
	select {
	case first = <-grants:
	case <-w.Context().Done():
	}
	if first == nil {
		t.Fatal("neither is granted")
	}
	select {
	case h := <-grants:
		t.Fatalf("both are granted, with tokens %#x and %#x", first.Token(), h.Token())
	case <-time.After(w.moment()):
	}
	w.isOf(first)
	w.MustRelease(first)
	next := <-grants
	if next == nil || next.Token() <= first.Token() {
		t.Fatalf("%v after token %#x", next, first.Token())
	}
	w.MustRelease(next)
	w.free()
}

// The answer is lost, the znode says nothing, and the caller has left. The znode goes.
func f04UnfairGaveUp(w *World, t *testing.T) {
	for _, data := range []string{curatorsWord, "of somebody's own"} {
		for _, lost := range []bool{true, false} {
			a := w.Client("a")
			u := a.Unfair()
			w.MustRelease(must(w, u.Lock))
			ctx, cancel := context.WithCancel(w.Context())
			a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) {
				w.overwrite(data)
				cancel()
				time.Sleep(w.moment()) // until the caller has left
			})
			if lost {
				a.Proxy.CutAfter(w.unfairCreates())
			}
			if h, err := u.Lock(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, %v, want the context's error", h, err)
			}
			time.Sleep(w.moment())
			w.free()
		}
	}
}

// One attempt of a session holds the lock, and its znode does not say so. Another that has no answer to its create
// does not take it for its own.
func f31UnfairSiblingHolds(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	for _, lost := range []bool{false, true} { // the holder's own answer, too
		if lost {
			a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) { w.overwrite("nobody's") })
			a.Proxy.CutAfter(w.unfairCreates())
		}
		h := must(w, u.Lock)
		w.overwrite("nobody's")
		a.Proxy.CutAfter(w.unfairCreates())
		g := ask(w, a.Unfair().Lock)
		w.stillPending("a sibling has the lock", g)
		a.Proxy.CutAfter(w.unfairCreates())
		if other, err := u.TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
			t.Errorf("TryLock = %v, %v, want ErrBusy", other, err)
		}
		if err := h.Cause(); err != nil {
			t.Errorf("the holder has lost the lock: %v", err)
		}
		w.MustRelease(h)
		next := g.Granted()
		if next.Token() <= h.Token() {
			t.Errorf("token %#x after %#x", next.Token(), h.Token())
		}
		w.MustRelease(next)
		w.free()
	}
}

// Several attempts of each of several sessions, whose answers get lost while another client writes over what the znode
// says.
func unfairRandomSiblings(w *World, _ *testing.T) {
	f, seed := fray{w: w}, w.seed()
	ctx, cancel := context.WithCancel(context.Background())
	var vandal sync.WaitGroup
	vandal.Go(func() {
		for r := rand.New(rand.NewPCG(seed, 0)); ctx.Err() == nil; time.Sleep(time.Duration(r.IntN(5)+1) * time.Millisecond) {
			w.overwrite([]string{curatorsWord, "nobody's"}[r.IntN(2)])
		}
	})
	for i := range w.reps(4, 2) {
		c := w.Client(fmt.Sprint("c", i))
		for j := range w.reps(5, 3) {
			r := rand.New(rand.NewPCG(seed, uint64(10*i+j+1)))
			u := c.Unfair()
			f.wg.Go(func() {
				for range w.reps(20, 4) {
					if h := f.visit(c, u, r); h != nil {
						f.release(h)
					}
				}
			})
		}
	}
	f.wg.Wait()
	cancel()
	vandal.Wait()
	f.over()
}
