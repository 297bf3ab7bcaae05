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
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Attempts of one session at a lock without a queue, when the znode does not say whose it is.
var siblingTests = []test{
	{"F01_UnfairOverwritten", f01UnfairOverwritten},
	{"F01_UnfairRevokedUnseen", f01UnfairRevoked},
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

// The server made the znode, the answer was lost, and its data is written over before the client is back. The client does not
// take it for its own, and waits for its end.
func f01UnfairOverwritten(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	for _, data := range []string{curatorsWord, "", "of another program"} {
		w.MustRelease(must(w, u.Lock))
		written, done := context.WithCancel(w.Context())
		a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) {
			w.overwrite(data)
			done()
		})
		a.Proxy.CutAfter(w.unfairCreates())
		g := ask(w, u.Lock)
		<-written.Done() // a busy machine may take its time for the create
		w.stillPending("its znode does not say whose it is", g)
		w.Delete(w.dir)
		w.MustRelease(g.Granted())
		w.free()
	}
}

// The server made the znode, the answer was lost, and before the client is back it is asked to give up. The request is heard.
func f01UnfairRevoked(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	w.MustRelease(must(w, u.Lock))
	a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) {
		line, err := inspect.Contenders(w.Context(), w.fresh(), w.dir)
		if err != nil || len(line) != 1 {
			t.Errorf("Contenders = %v, %v", line, err)
			return
		}
		asked, err := inspect.Revoke(w.Context(), w.admin, line[0])
		if !asked || err != nil {
			t.Errorf("Revoke = %v, %v", asked, err)
		}
	})
	a.Proxy.CutAfter(w.unfairCreates())
	h := must(w, u.Lock)
	w.revoked("asked before it knew that it holds", h)
	w.MustRelease(h)
	w.free()
}

// The caller leaves while the answer to its create is on its way, and the znode says nothing. The answer tells that the znode is
// ours, and it goes.
func f04UnfairGaveUp(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	for _, data := range []string{curatorsWord, "of another program"} {
		w.MustRelease(must(w, u.Lock))
		ctx, cancel := context.WithCancel(w.Context())
		a.Proxy.After(w.unfairCreates(), func(faultproxy.Request, faultproxy.Reply) {
			w.overwrite(data)
			cancel()
			time.Sleep(w.moment()) // until the caller has left
		})
		if h, err := u.Lock(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v, %v, want the context's error", h, err)
		}
		time.Sleep(w.moment())
		w.free()
	}
}

// One attempt of a session holds the lock, and its znode does not say so. Another whose create has no answer does not take it
// for its own.
func f31UnfairSiblingHolds(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	h := must(w, u.Lock)
	w.overwrite("of another program")
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

// Several attempts of each of several sessions. Either their connections break, or another client writes over what the znode says.
func unfairRandomSiblings(w *World, _ *testing.T) {
	for _, overwritten := range []bool{false, true} {
		f, seed := fray{w: w, uncut: overwritten}, w.seed()
		ctx, cancel := context.WithCancel(context.Background())
		var vandal sync.WaitGroup
		vandal.Go(func() {
			r := rand.New(rand.NewPCG(seed, 0))
			for overwritten && ctx.Err() == nil {
				began := time.Now()
				w.overwrite([]string{curatorsWord, "of another program"}[r.IntN(2)])
				// A release reads the znode and deletes that version. A slow server needs longer for both, and so the pause is longer.
				time.Sleep(2*time.Since(began) + time.Duration(r.IntN(5)+1)*time.Millisecond)
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
}
