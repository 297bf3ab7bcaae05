package locksuite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
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

// Seeing which contender holds what.
var lookTests = []test{
	{"Look_EveryKind", lookEveryKind},
	{"Look_Curator", lookCurator},
	{"Watch_EveryChange", watchEveryChange},
	{"F09_WatchedLockComes", f09WatchedLockComes},
	{"F10_WatchAcrossBreaks", f10WatchBreaks},
	{"Watch_All", watchAll},
	{"Watch_Ends", watchEnds},
	{"F29_WatchReadsWhatChanged", f29WatchCost},
}

// told says in a few words what a snapshot shows: the kind, and which contenders stand in it, the waiters in brackets.
func told(snap inspect.Snapshot) string {
	words := []string{string(snap.Kind)}
	if snap.Permits > 0 {
		words = append(words, fmt.Sprint(snap.Permits))
	}
	for i, c := range snap.Contenders {
		who := c.Owner.Label
		if who == "" {
			who = string(c.Data)
		}
		if c.Place != i {
			who += fmt.Sprintf("@%d", c.Place)
		}
		if !c.Held {
			who = "(" + who + ")"
		}
		words = append(words, who)
	}
	return strings.Join(words, " ")
}

// look returns told of a lock.
func (w *World) look(path string) string {
	w.t.Helper()
	snap, err := inspect.Look(w.Context(), w.fresh(), path)
	if err != nil {
		w.t.Fatal(err)
	}
	if n := len(snap.Holders()) + len(snap.Waiters()); n != len(snap.Contenders) || snap.Path != path {
		w.t.Errorf("%s: %d holders and waiters of %d contenders", snap.Path, n, len(snap.Contenders))
	}
	return told(snap)
}

// wantLook waits until a lock shows what is wanted.
func (w *World) wantLook(want string) {
	w.t.Helper()
	var got string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		got = w.look(w.dir)
		if got == want {
			return
		}
	}
	w.t.Fatalf("the lock shows %q, want %q", got, want)
}

func lookEveryKind(w *World, t *testing.T) {
	dir := w.dir
	at := func(name string) { w.dir = dir + "-" + name }
	a, b, c, d := w.Client("a"), w.Client("b"), w.Client("c"), w.Client("d")

	at("none")
	w.wantLook("")
	w.Create(w.dir, zk.Persistent)
	w.wantLook("")

	at("mutex")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	before := time.Now()
	waits := ask(w, b.Mutex(lock.Options{}).Lock)
	w.wantLook("mutex a (b)")
	if c := w.contender("a"); c.Token != held.Token() || c.Session != a.ID() || before.Sub(c.Since).Abs() > time.Minute {
		t.Errorf("the holder is shown as %+v", c)
	}
	w.MustRelease(held)
	w.wantLook("mutex b")
	w.MustRelease(waits.Granted())

	at("rw")
	r1, r2 := must(w, a.RWMutex().RLock), must(w, b.RWMutex().RLock)
	w3 := ask(w, c.RWMutex().Lock)
	w.wantLook("read-write a b (c)")
	r4 := ask(w, d.RWMutex().RLock)
	w.wantLook("read-write a b (c) (d)")
	w.MustRelease(r1)
	w.wantLook("read-write b (c) (d)")
	w.MustRelease(r2)
	w.wantLook("read-write c (d)")
	h3 := w3.Granted()
	if err := h3.Downgrade(w.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantLook("read-write c d")
	w.MustRelease(h3)
	w.MustRelease(r4.Granted())

	at("semaphore")
	p1 := must(w, a.Semaphore(2).Acquire)
	w.wantLook("semaphore 2 a")
	many := ask(w, acquire(b.Semaphore(2), 2))
	w.wantLook("semaphore 2 a (b) (b)") // there is room for the first of the two, and it waits
	p3 := ask(w, c.Semaphore(2).Acquire)
	w.wantLook("semaphore 2 a (b) (b) (c)")
	w.MustRelease(p1)
	w.wantLook("semaphore 2 b b (c)")
	holds := many.Granted()
	w.MustRelease(holds[1])
	w.wantLook("semaphore 2 b c")
	w.MustRelease(holds[0])
	w.MustRelease(p3.Granted())
	w.wantLook("semaphore 2")

	at("unfair")
	u := must(w, a.Unfair().Lock)
	next := ask(w, b.Unfair().Lock)
	w.untilWaiting(b)
	w.wantLook("unfair a") // a waiter leaves no trace
	w.MustRelease(u)
	w.MustRelease(next.Granted())
	w.wantLook("")
}

// What Curator makes, in Curator's layout, also by ourselves.
func lookCurator(w *World, t *testing.T) {
	dir := w.dir
	node := func(path, data string) {
		w.Create(zk.Parent(path), zk.Persistent)
		if _, err := w.admin.Create(w.Context(), path, []byte(data), zk.EphemeralSequential, nil); err != nil {
			t.Fatal(err)
		}
	}
	w.dir = dir + "-latch"
	node(w.dir+"/_c_3c1a9a0e-3a4a-4d53-a8a9-4be0d6f3f5e1-latch-", "leader")
	w.Create(w.dir+"/stranger", zk.Persistent)
	if _, err := w.admin.Create(w.Context(), w.dir+"/_c_7d0b2f4e-8d0f-4f0c-8b6e-0a8f5a6c1d22-latch-", []byte("next"), zk.EphemeralSequential, nil); err != nil {
		t.Fatal(err)
	}
	w.wantLook("election leader (next)")

	w.dir = dir + "-semaphore"
	clients := []*Client{w.Client("a"), w.Client("b"), w.Client("c"), w.Client("d")}
	var holds []*lock.Hold
	var waits []*Grant
	for i, c := range clients {
		m := c.CuratorSemaphore(2)
		if i < 2 {
			holds = append(holds, must(w, m.Acquire))
			continue
		}
		waits = append(waits, ask(w, m.Acquire))
		w.wantLook([]string{"curator-semaphore a b (c)", "curator-semaphore a b (c) (d)"}[i-2])
	}
	w.MustRelease(holds[0])
	w.wantLook("curator-semaphore b c (d)")
	w.MustRelease(holds[1])
	w.wantLook("curator-semaphore c d")
	for _, g := range waits {
		w.MustRelease(g.Granted())
	}
	w.wantLook("curator-semaphore")
	w.dir = dir
}

// A viewer watches a lock, or all of a directory, beside the test.
type viewer struct {
	shown chan string
	err   chan error // why it ended
	leave context.CancelFunc
}

// view runs through a stream, and tells each snapshot in words.
func view[T any](w *World, watch func(context.Context, *client.Session, string) iter.Seq2[T, error], c *Client, path string, tell func(T) string) *viewer {
	ctx, cancel := context.WithCancel(w.Context())
	v := &viewer{shown: make(chan string, 10_000), err: make(chan error, 1), leave: cancel}
	go func() {
		var end error
		for snap, err := range watch(ctx, c.Session, path) {
			end = err
			if err == nil || errors.Is(err, zk.ErrNoAuth) {
				v.shown <- tell(snap)
			}
		}
		v.err <- end
	}()
	return v
}

// stop ends the stream, and returns what it ended with.
func (v *viewer) stop() error {
	v.leave()
	return <-v.err
}

// sees waits until the viewer is shown something.
func (w *World) sees(v *viewer, want string) {
	w.t.Helper()
	var seen []string
	for end := time.After(patience); ; {
		select {
		case s := <-v.shown:
			seen = append(seen, s)
			if s == want {
				return
			}
		case err := <-v.err:
			w.t.Fatalf("the stream has ended with %v", err)
		case <-end:
			w.t.Fatalf("the viewer has not seen %q, but %q", want, seen)
		}
	}
}

// viewers returns clients of servers that have persistent watches and of those that have not.
func (w *World) viewers() []*Client {
	old := w.follower()
	old.unknown = func(op wire.Op) bool { return op == wire.OpAddWatch }
	return []*Client{w.Client("viewer"), w.ClientWith("viewer of an old server", client.Options{Dial: old.Dial})}
}

// eachViewer calls f once for each of the viewers, with a path of its own.
func (w *World) eachViewer(f func(c *Client)) {
	dir := w.dir
	for i, c := range w.viewers() {
		w.dir = fmt.Sprintf("%s-%d", dir, i)
		f(c)
		c.Close(w.Context())
	}
	w.dir = dir
}

// Each change that lasts is seen, from before the lock is there to after it has gone.
func watchEveryChange(w *World, t *testing.T) {
	w.eachViewer(func(c *Client) {
		v := view(w, inspect.Watch, c, w.dir, told)
		w.sees(v, "")
		a, b := w.Client("a"), w.Client("b")
		h := must(w, a.Mutex(lock.Options{}).Lock)
		w.sees(v, "mutex a")
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.sees(v, "mutex a (b)")
		w.revoke(w.contender("a"))
		w.sees(v, "mutex a (b)") // and once more, because it is revoked
		w.MustRelease(h)
		w.sees(v, "mutex b")
		w.MustRelease(g.Granted())
		w.sees(v, "")
		u := w.dir + "-unfair"
		if err := v.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the stream ended with %v", c.Label, err)
		}

		w.dir = u
		v = view(w, inspect.Watch, c, w.dir, told)
		w.sees(v, "")
		hold := must(w, a.Unfair().Lock)
		w.sees(v, "unfair a")
		w.MustRelease(hold)
		w.sees(v, "")
		v.stop()

		w.dir = u + "-permits"
		hold = must(w, a.Semaphore(1).Acquire)
		v = view(w, inspect.Watch, c, w.dir, told)
		waits := ask(w, b.Semaphore(1).Acquire)
		w.sees(v, "semaphore 1 a (b)")
		if err := setPermits(w.Context(), w.fresh(), w.dir, 2); err != nil {
			t.Fatal(err)
		}
		w.sees(v, "semaphore 2 a b")
		w.MustRelease(hold)
		w.MustRelease(waits.Granted())
		w.sees(v, "semaphore 2")
		v.stop()
	})
}

// What changes while the viewer is away is seen when it is back; a reader that is slow sees the last of it.
func f10WatchBreaks(w *World, t *testing.T) {
	w.eachViewer(func(c *Client) {
		var slow atomic.Bool
		v := view(w, inspect.Watch, c, w.dir, func(s inspect.Snapshot) string {
			for slow.Load() {
				time.Sleep(w.moment() / 10)
			}
			return told(s)
		})
		w.sees(v, "")
		a := w.Client("a")
		for round := range w.reps(20, 3) {
			c.Unreachable()
			h := must(w, a.Mutex(lock.Options{}).Lock)
			c.Reachable()
			w.sees(v, "mutex a")
			slow.Store(true)
			for range 5 {
				w.MustRelease(h)
				h = must(w, a.Mutex(lock.Options{}).Lock)
			}
			if round%2 == 0 {
				c.Proxy.CutAll()
			}
			w.MustRelease(h)
			slow.Store(false)
			w.sees(v, "")
		}
		v.stop()
	})
}

// A lock that is taken between the requests of one look is seen, although the first request has found nothing.
func f09WatchedLockComes(w *World, t *testing.T) {
	a := w.Client("a")
	held := make(chan *lock.Hold, 1)
	var come atomic.Bool
	old := w.follower() // where only the watches tell
	old.unknown = func(op wire.Op) bool {
		if slices.Contains(faultproxy.Lists(), op) && come.CompareAndSwap(false, true) {
			time.Sleep(w.moment()) // in which what was asked before is answered
			h, err := a.Mutex(lock.Options{}).Lock(w.Context())
			if err != nil {
				t.Error(err)
			}
			held <- h
		}
		return op == wire.OpAddWatch
	}
	c := w.ClientWith("viewer", client.Options{Dial: old.Dial})
	v := view(w, inspect.Watch, c, w.dir, told)
	w.sees(v, "mutex a")
	w.MustRelease(<-held)
	w.sees(v, "")
	v.stop()
}

// All locks below a directory are shown that are held, and one that may not be read does not end that.
func watchAll(w *World, t *testing.T) {
	tell := func(all []inspect.Snapshot) string {
		var words []string
		for _, s := range all {
			words = append(words, zk.Base(s.Path)+": "+told(s))
		}
		return strings.Join(words, ", ")
	}
	w.eachViewer(func(c *Client) {
		top := w.dir
		v := view(w, inspect.WatchAll, c, top, tell)
		w.sees(v, "")
		a := w.Client("a")
		w.dir = top + "/one"
		one := must(w, a.Mutex(lock.Options{}).Lock)
		w.sees(v, "one: mutex a")
		secret := top + "/secret"
		if _, err := w.admin.Create(w.Context(), secret, nil, zk.Persistent, []zk.ACL{{Perms: zk.PermRead, Scheme: "digest", ID: "nobody:x"}}); err != nil {
			t.Fatal(err)
		}
		w.dir = top + "/another"
		another := must(w, a.Unfair().Lock)
		w.sees(v, "another: unfair a, one: mutex a")
		w.MustRelease(another)
		w.sees(v, "one: mutex a")
		w.Delete(secret)
		w.MustRelease(one)
		w.sees(v, "")
		v.stop()
	})
}

// The stream ends with its session, and with its reader, and leaves no watch.
func watchEnds(w *World, t *testing.T) {
	for _, c := range w.viewers() {
		for range inspect.Watch(w.Context(), c.Session, w.dir) {
			break
		}
		if w.server != nil {
			w.Within(time.Second, "no watch is left of a viewer that has left", func() bool { return w.server.Stats().Watches == 0 })
		}
		v := view(w, inspect.Watch, c, w.dir, told)
		w.sees(v, "")
		w.Expire(c.Session)
		if err := <-v.err; !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("%s: the stream ended with %v, want the session's end", c.Label, err)
		}
	}
	if names := slices.Compact(w.Queue()); len(names) > 0 {
		t.Errorf("watching has made %q", names)
	}
}

// A change of one of many locks costs a reading of that one.
func f29WatchCost(w *World, t *testing.T) {
	const locks, most = 20, 6
	dir := w.dir
	a, c := w.Client("a"), w.Client("viewer")
	var holds []*lock.Hold
	for i := range locks {
		w.dir = fmt.Sprintf("%s/%d", dir, i)
		holds = append(holds, must(w, a.Mutex(lock.Options{}).Lock))
	}
	v := view(w, inspect.WatchAll, c, dir, func(all []inspect.Snapshot) string {
		waiters := 0
		for _, s := range all {
			waiters += len(s.Waiters())
		}
		return fmt.Sprintf("%d locks, %d wait", len(all), waiters)
	})
	w.sees(v, fmt.Sprintf("%d locks, 0 wait", locks))
	w.Quiet(a, c)
	mark := c.Proxy.Mark()
	g := ask(w, w.Client("b").Mutex(lock.Options{}).Lock)
	w.sees(v, fmt.Sprintf("%d locks, 1 wait", locks))
	if asked, _ := work(c.Proxy.Since(mark)); len(asked) > most {
		t.Errorf("one more that waits for one of %d locks made the viewer ask %s", locks, asked.Ops())
	}
	v.stop()
	for _, h := range holds {
		w.MustRelease(h)
	}
	w.MustRelease(g.Granted())
	w.DeleteAll(dir)
	w.dir = dir
}
