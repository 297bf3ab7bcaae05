package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The lock without a queue: what the atlas has against locks in general, in its terms.
var unfairTests = []test{
	{"F01_UnfairReplyLost", f01UnfairReplyLost},
	{"F01_UnfairTakenMeanwhile", f01UnfairTaken},
	{"F03_UnfairLookalike", f03UnfairLookalike},
	{"F04_UnfairCancelAnywhere", f04UnfairCancel},
	{"F10_UnfairEndedWhileWaiting", f10UnfairEnded},
	{"F23_UnfairReleaseAcrossBreaks", f23Unfair},
	{"F23_UnfairCallerGone", f23UnfairCallerGone},
	{"F24_UnfairTakenByAnother", f24UnfairTaken},
	{"F29_UnfairHerd", f29UnfairHerd},
	{"F30_UnfairFreeLock", f30Unfair},
	{"UnfairRandomContenders", unfairRandom},
	{"UnfairTryAndReenter", unfairTry},
	{"UnfairOtherKindsAtThePath", unfairOtherKinds},
}

// unfairCreates matches the create of the lock's znode, and unfairDeletes its deletion.
func (w *World) unfairCreates() faultproxy.Match {
	return faultproxy.Match{Ops: faultproxy.Creates(), Path: w.dir}
}

func (w *World) unfairDeletes() faultproxy.Match {
	return faultproxy.Match{Ops: []wire.Op{wire.OpDelete}, Path: w.dir}
}

// free checks that the lock's znode is gone, soon (I2).
func (w *World) free() {
	w.t.Helper()
	w.Within(time.Second+w.slack(), "I2: the znode is gone", func() bool { ok, err := w.Exists(w.dir); return !ok && err == nil })
}

// isOf checks that the lock's znode is that of a hold.
func (w *World) isOf(h *lock.Hold) {
	w.t.Helper()
	stat, ok, err := w.fresh().Exists(w.Context(), w.dir)
	if !ok || err != nil || stat.Czxid != h.Token() {
		w.t.Errorf("token %#x, the znode's is %#x (%v)", h.Token(), stat.Czxid, err)
	}
}

// holder returns the label of the holder; empty if there is none.
func (w *World) holder() string {
	w.t.Helper()
	snap, err := inspect.Look(w.Context(), w.fresh(), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range snap.Holders() {
		return c.Owner.Label
	}
	return ""
}

// untilWaiting returns when a client that asks for an unfair lock has looked at the znode in its way, and now waits.
func (w *World) untilWaiting(c *Client) {
	w.t.Helper()
	w.Within(patience, "the client waits", func() bool { return len(c.Proxy.Since(0).Asked(wire.OpGetData)) > 0 })
	w.Quiet(c)
}

// The server made the znode and the answer was lost, and so were those of the first looks. It is taken for
// what it is: ours.
func f01UnfairReplyLost(w *World, t *testing.T) {
	for lost := range 4 {
		a := w.Client("a")
		u := a.Unfair()
		w.MustRelease(must(w, u.Lock))
		a.Proxy.CutAfter(w.unfairCreates())
		if lost > 0 {
			a.Proxy.CutBefore(faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Path: w.dir, Times: lost})
		}
		mark := a.Proxy.Mark()
		h := must(w, u.Lock)
		if n := len(a.Proxy.Since(mark).Asked(wire.OpCreate2)); n != 1 {
			t.Errorf("with %d looks lost: %d creates were sent, want 1", lost, n)
		}
		w.isOf(h)
		w.MustRelease(h)
		w.free()
	}
}

// The create was lost on its way, and another has taken the lock before the client is back: busy, and granted
// after that one.
func f01UnfairTaken(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	w.MustRelease(must(w, a.Unfair().Lock))
	away := make(chan struct{})
	a.CutOff(w.unfairCreates(), false, func() { close(away) })
	g := ask(w, a.Unfair().Lock)
	<-away
	held := must(w, b.Unfair().Lock)
	a.Reachable()
	w.stillPending("another has the lock", g)
	if who := w.holder(); who != "b" {
		t.Errorf("the holder is %q, want b", who)
	}
	w.MustRelease(held)
	h := g.Granted()
	if h.Token() <= held.Token() {
		t.Errorf("token %#x after %#x", h.Token(), held.Token())
	}
	w.MustRelease(h)
	w.free()
}

// A znode of another session that says what ours says is not ours.
func f03UnfairLookalike(w *World, t *testing.T) {
	a := w.Client("a")
	u := a.Unfair()
	w.MustRelease(must(w, u.Lock))
	rule := a.Proxy.Before(w.unfairCreates(), func(r faultproxy.Request) {
		var req wire.CreateRequest
		req.DecodeFrom(wire.NewDecoder(r.Body))
		if _, err := w.admin.Create(w.Context(), w.dir, req.Data, zk.Ephemeral, nil); err != nil {
			t.Error(err)
		}
	})
	if h, err := u.TryLock(w.Context()); !errors.Is(err, lock.ErrBusy) {
		t.Errorf("TryLock = %v, %v, want ErrBusy", h, err)
	}
	rule.Remove()
	w.Delete(w.dir)
	w.free()
}

// Cancelled at any moment, Lock leaves nothing behind.
func f04UnfairCancel(w *World, _ *testing.T) {
	w.cancelAnywhere(w.reps(500, 100), w.Client("a").Unfair().Lock)
	w.free()
}

// A waiter's session ends, or its patience does. The wait is over, and the lock is the holder's.
func f10UnfairEnded(w *World, t *testing.T) {
	held := must(w, w.Client("a").Unfair().Lock)
	b, c := w.Client("b"), w.Client("c")
	expired := ask(w, b.Unfair().Lock)
	w.untilWaiting(b)
	ctx, cancel := context.WithTimeout(w.Context(), w.moment())
	defer cancel()
	if h, err := c.Unfair().Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v, %v, want the deadline's error", h, err)
	}
	w.Expire(b.Session)
	if _, err := expired.Outcome(); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("Lock = %v, want the session's end", err)
	}
	if w.server != nil {
		w.Within(time.Second, "F14: no watch is left of the attempt that gave up", func() bool { return w.server.Stats().Watches == 1 })
	}
	w.MustRelease(held)
	w.free()
}

// The delete is lost on its way, or its answer is, and another has taken the lock when the client is back.
// The other's znode stays.
func f23Unfair(w *World, t *testing.T) {
	for _, applied := range []bool{false, true} {
		for breaks := 1; breaks <= 3; breaks++ {
			a, b := w.Client("a"), w.Client("b")
			h := must(w, a.Unfair().Lock)
			m := w.unfairDeletes()
			m.Times = breaks
			away := make(chan struct{})
			if applied {
				a.Proxy.After(w.unfairDeletes(), func(faultproxy.Request, faultproxy.Reply) { a.Proxy.Refuse(true); close(away) })
				a.Proxy.CutAfter(m)
			} else {
				a.Proxy.CutBefore(m)
			}
			g := ask(w, b.Unfair().Lock)
			w.untilWaiting(b)
			released := make(chan error, 1)
			go func() { released <- h.Release(w.Context()) }()
			if applied {
				next := g.Granted()
				<-away
				a.Reachable()
				if err := <-released; err != nil {
					t.Errorf("release whose answer was lost: %v", err)
				}
				time.Sleep(w.moment())
				if who, err := w.holder(), next.Cause(); who != "b" || err != nil {
					t.Errorf("after a release whose answer was lost the holder is %q, want b (%v)", who, err)
				}
				w.MustRelease(next)
			} else {
				if err := <-released; err != nil {
					t.Errorf("release with %d breaks: %v", breaks, err)
				}
				w.MustRelease(g.Granted())
			}
			w.free()
		}
	}
}

// The caller does not wait for the outcome, and the znode goes by itself.
func f23UnfairCallerGone(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Unfair().Lock)
	g := ask(w, b.Unfair().Lock)
	w.untilWaiting(b)
	ctx, cancel := context.WithCancel(w.Context())
	a.CutOff(w.unfairDeletes(), false, cancel)
	if err := h.Release(ctx); !errors.Is(err, lock.ErrReleasePending) || !errors.Is(err, context.Canceled) {
		t.Errorf("release without waiting = %v, want ErrReleasePending", err)
	}
	a.Reachable()
	w.MustRelease(g.Granted())
	w.free()
}

// The holder's znode is deleted by hand and another takes the lock, while the holder hears nothing. It learns
// of it when it is back, and leaves the other alone; a contender that was shown before is not broken in the
// other's place.
func f24UnfairTaken(w *World, t *testing.T) {
	a, b := w.ClientWith("a", client.Options{SessionTimeout: 4 * w.Timeout}), w.Client("b") // no deadline is to be faster than the operator that breaks
	h := must(w, a.Unfair().Lock)
	time.Sleep(w.moment()) // until its znode is watched
	line, err := inspect.Contenders(w.Context(), w.fresh(), w.dir)
	if err != nil || len(line) != 1 || line[0].Owner.Label != "a" || !line[0].Held || line[0].Token != h.Token() {
		t.Fatalf("Inspect = %+v, %v, want the holder a", line, err)
	}
	a.Unreachable()
	if broken, err := inspect.Break(w.Context(), w.fresh(), line[0]); !broken || err != nil {
		t.Errorf("Break = %v, %v", broken, err)
	}
	next := must(w, b.Unfair().Lock)
	a.Reachable()
	w.Ended(h, lock.ErrNodeDeleted)
	if err := h.Release(w.Context()); !errors.Is(err, lock.ErrNodeDeleted) {
		t.Errorf("release of what was lost = %v, want the loss", err)
	}
	if broken, err := inspect.Break(w.Context(), w.fresh(), line[0]); broken || err != nil {
		t.Errorf("Break of a contender that has gone = %v, %v, want false", broken, err)
	}
	time.Sleep(w.moment())
	if who, err := w.holder(), next.Cause(); who != "b" || err != nil {
		t.Errorf("the holder is %q, want b (%v)", who, err)
	}
	w.MustRelease(next)
	w.free()
	w.Clean()
}

// The herd: a release is told to all that wait, and all of them try. One is granted, and none is left
// behind. The fair lock's figures are those of F29_OneReleaseWakesOne.
func f29UnfairHerd(w *World, t *testing.T) {
	waiters := w.reps(30, 10)
	clients := make([]*Client, waiters)
	holds := make(chan *lock.Hold, waiters)
	held := must(w, w.Client("a").Unfair().Lock)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	for i := range clients {
		c := w.Client(fmt.Sprint("c", i))
		clients[i] = c
		go func() {
			h, err := c.Unfair().Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			holds <- h
		}()
		w.untilWaiting(c)
	}
	marks := make([]faultproxy.Mark, waiters)
	for i, c := range clients {
		marks[i] = c.Proxy.Mark()
	}
	var reg Register
	reg.Enter(held.Token())
	for i := range waiters {
		reg.Leave()
		w.MustRelease(held)
		held = <-holds
		if held == nil {
			t.FailNow()
		}
		reg.Enter(held.Token())
		if i > 0 {
			continue
		}
		w.Quiet(clients...)
		creates, told := 0, 0
		for i, c := range clients {
			log := c.Proxy.Since(marks[i])
			asked, notified := work(log)
			creates += len(asked.But(wire.OpGetData))
			told += len(notified)
		}
		if creates != waiters || told != waiters {
			t.Errorf("one release made %d waiters send %d creates, and told %d", waiters, creates, told)
		}
	}
	w.MustRelease(held)
	reg.Check(t)
	w.free()
}

// A free lock is one request, and one to release it. What is above it is made once.
func f30Unfair(w *World, t *testing.T) {
	a := w.Client("a")
	w.MustRelease(must(w, a.Unfair().Lock))
	asked, notified := w.cycle(a, a.Unfair().Lock)
	if got, want := asked.Ops(), "create, delete"; got != want || len(notified) > 0 {
		t.Errorf("lock and release sent %q and were told %d times, want %q", got, len(notified), want)
	}
}

// Contenders come, go and give up at random, break their connections and expire.
func unfairRandom(w *World, _ *testing.T) {
	f, seed := fray{w: w}, w.seed()
	for i := range w.reps(20, 5) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		f.wg.Go(func() {
			c := w.Client(fmt.Sprint("c", i))
			for range w.reps(20, 3) {
				c = c.Alive()
				switch h := f.visit(c, c.Unfair(), r); {
				case h == nil:
				case r.IntN(8) == 0:
					w.Expire(c.Session)
				default:
					f.release(h)
				}
			}
		})
	}
	f.over()
}

// A fray is many that want the lock at random.
type fray struct {
	w       *World
	wg      sync.WaitGroup // of those that want it
	reg     Register
	granted atomic.Int64

	uncut bool // connections do not break
}

// visit takes the lock for a while, as the client's, which may lose its connection. It returns nil if the lock is
// not granted in time.
func (f *fray) visit(c *Client, u *lock.Unfair, r *rand.Rand) *lock.Hold {
	switch chance := r.IntN(6); {
	case f.uncut:
	case chance == 0:
		c.Proxy.CutAfter(f.w.unfairCreates())
	case chance == 1:
		c.Proxy.CutBefore(f.w.unfairCreates())
	case chance == 2:
		c.Proxy.CutAfter(f.w.unfairDeletes())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(2000)+1)*time.Millisecond)
	defer cancel()
	h, err := u.Lock(ctx)
	if err != nil {
		return nil
	}
	f.granted.Add(1)
	f.reg.Enter(h.Token())
	time.Sleep(time.Duration(r.IntN(30)) * time.Millisecond)
	f.reg.Leave()
	return h
}

func (f *fray) release(h *lock.Hold) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := h.Release(ctx); err != nil {
		f.w.t.Errorf("release: %v", err)
	}
}

// over waits until all have left, and checks that no two were inside, and that another may come.
func (f *fray) over() {
	f.w.t.Helper()
	f.wg.Wait()
	f.reg.Check(f.w.t)
	if f.granted.Load() == 0 {
		f.w.t.Error("no contender was ever granted the lock")
	}
	f.w.free()
	f.w.MustRelease(must(f.w, f.w.Client("last").Unfair().Lock)) // I3
}

// TryLock names the holder, and a context of the hold's re-enters.
func unfairTry(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Unfair().Lock)
	var busy *lock.BusyError
	if _, err := b.Unfair().TryLock(w.Context()); !errors.As(err, &busy) || busy.Holder.Owner.Label != "a" || busy.Holder.Token != h.Token() || !busy.Holder.Held {
		t.Errorf("TryLock = %v, want that a has it", err)
	}
	again, err := a.Unfair().Lock(h.Context())
	if err != nil || again.Token() != h.Token() {
		t.Fatalf("Lock within the hold = %v, %v", again, err)
	}
	w.MustRelease(h)
	if who := w.holder(); who != "a" {
		t.Errorf("the holder is %q after the first of two releases", who)
	}
	w.MustRelease(again)
	err = b.Unfair().Do(w.Context(), func(context.Context) error { return nil })
	if err != nil {
		t.Errorf("Do = %v", err)
	}
	w.free()
	for _, opt := range []lock.Options{{QueueMax: 3}, {Data: []byte("x")}, {Deadlock: time.Second}, {Delay: time.Second}} {
		if _, err := lock.NewUnfair(a.Session, w.dir, opt); err == nil {
			t.Errorf("options that an unfair lock cannot have were taken: %+v", opt)
		}
	}
}

// Two kinds of locks cannot have one path, and say so at once.
func unfairOtherKinds(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	h := must(w, a.Unfair().Lock)
	if other, err := b.Mutex(lock.Options{}).Lock(w.Context()); !errors.Is(err, zk.ErrNoChildrenForEphemerals) {
		t.Errorf("Lock of a mutex at an unfair lock's path = %v, %v", other, err)
	}
	w.MustRelease(h)
	m := must(w, b.Mutex(lock.Options{}).Lock)
	if other, err := a.Unfair().Lock(w.Context()); !errors.Is(err, lock.ErrNotEphemeral) {
		t.Errorf("Lock of an unfair lock at a mutex's path = %v, %v, want ErrNotEphemeral", other, err)
	}
	if other, err := a.Unfair().TryLock(w.Context()); !errors.Is(err, lock.ErrNotEphemeral) {
		t.Errorf("TryLock of an unfair lock at a mutex's path = %v, %v, want ErrNotEphemeral", other, err)
	}
	w.MustRelease(m)
}
