package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The reply to the create is lost, and the server that the client comes back to does not know the node yet, unless it has to
// commit something: the leader answers a sync without what it has proposed. There is no second node.
func f02StaleListing(w *World, t *testing.T) {
	b := w.Client("b")
	held := must(w, b.Mutex(lock.Options{}).Lock)
	var committed, stale atomic.Int64 // connection that has seen a transaction; listings that were behind
	f := w.follower()
	f.swallow = func(conn int, op wire.Op) bool {
		if op == wire.OpMulti {
			committed.Store(int64(conn))
		}
		return false
	}
	f.listing = func(conn int, names []string) []string {
		if conn == 1 || committed.Load() == int64(conn) {
			return names
		}
		stale.Add(1)
		return []string{path.Base(held.Node())}
	}
	a := w.ClientWith("a", client.Options{Dial: f.Dial})
	a.Proxy.CutAfter(w.joins())
	g := ask(w, a.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	g.StillPending(w.moment())
	if line := w.Queue(); len(line) != 2 {
		t.Errorf("%d nodes in the queue, want the holder's and one of the waiter's: %v", len(line), line)
	}
	if n := len(a.Proxy.Since(0).Asked(wire.OpCreate2)); n != 1 {
		t.Errorf("%d creates were sent, want 1", n)
	}
	w.MustRelease(held)
	w.MustRelease(g.Granted())
	if stale.Load() > 0 {
		t.Error("the client listed without a transaction after its reconnect")
	}
}

// beforeSecondLook calls f between the client's create and the listing that its attempt goes by: the first,
// which leaves in one write with the create, is lost. What f has done is known to the server that lists. done is closed after that,
// which may be later than the end of the attempt.
func (w *World) beforeSecondLook(c *Client, f func()) (done <-chan struct{}) {
	c.Proxy.CutBefore(w.lists())
	second := w.lists()
	second.Skip = 1
	ran := make(chan struct{})
	c.Proxy.Before(second, func(faultproxy.Request) {
		defer close(ran)
		f()
		w.heardBy(c)
	})
	return ran
}

// heardBy lets the server that a client is connected to, if there is one, catch up with all others.
func (w *World) heardBy(c *Client) {
	st, _ := c.State()
	if w.Virtual || st.Server == "" {
		return
	}
	s, err := client.Open(w.Context(), st.Server, client.Options{Dial: w.Dial, SessionTimeout: w.Timeout})
	if err != nil {
		w.t.Error(err)
		return
	}
	defer s.Close(w.Context())
	if err := s.Sync(w.Context(), "/"); err != nil {
		w.t.Error(err)
	}
}

// A second node that carries the attempt's id, however it came about, is removed, and the waiter does not
// wait for itself.
func f02Duplicate(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, b.Mutex(lock.Options{}).Lock)
	var prefix atomic.Value
	a.Proxy.Before(w.joins(), func(r faultproxy.Request) { prefix.Store(r.Path) })
	w.beforeSecondLook(a, func() { w.Create(prefix.Load().(string), zk.EphemeralSequential) })
	g := ask(w, a.Mutex(lock.Options{}).Lock)
	time.Sleep(w.moment())
	w.WaitQueue(2)
	first := w.NodesOf("a")
	if len(first) != 1 {
		t.Fatalf("nodes of the attempt: %v, want its first", first)
	}
	c := ask(w, w.Client("c").Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	w.MustRelease(held)
	h := g.Granted()
	if h.Node() != first[0] {
		t.Errorf("granted with %s, the place in the queue was %s", h.Node(), first[0])
	}
	w.MustRelease(h)
	w.MustRelease(c.Granted())
}

// A node that carries the attempt's id but is not of the session is not ours: it goes when it likes.
func f03ForeignNode(w *World, t *testing.T) {
	for _, requeue := range []bool{false, true} {
		a := w.Client("a")
		w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock))
		var foreign atomic.Value
		a.Proxy.Before(w.joins(), func(r faultproxy.Request) {
			foreign.Store(w.Create(r.Path, zk.EphemeralSequential))
		})
		a.Proxy.CutBefore(w.joins())
		h, err := a.Mutex(lock.Options{Requeue: requeue}).Lock(w.Context())
		switch {
		case !requeue && !errors.Is(err, lock.ErrPlaceLost):
			t.Errorf("Lock = %v, %v, want ErrPlaceLost", h, err)
		case requeue && err != nil:
			t.Errorf("Lock with Requeue = %v", err)
		case requeue && h.Node() == foreign.Load():
			t.Errorf("the hold stands on another session's node")
		}
		if h != nil {
			w.MustRelease(h)
		}
		w.Clean()
	}
}

// A process whose session has expired comes back with a new one while others compete. The new session does
// not profit from the old one's node.
func f03NewSession(w *World, t *testing.T) {
	var reg Register
	a, b := w.Client("a"), w.Client("b")
	old := must(w, a.Mutex(lock.Options{}).Lock)
	reg.Enter(old.Token())
	wait := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	reg.Leave()
	w.Expire(a.Session)
	again := w.Client("a")
	next := ask(w, again.Mutex(lock.Options{}).Lock)
	h := wait.Granted()
	reg.Enter(h.Token())
	next.StillPending(w.moment())
	reg.Leave()
	w.MustRelease(h)
	h = next.Granted()
	reg.Enter(h.Token())
	reg.Leave()
	w.MustRelease(h)
	w.Ended(old, lock.ErrLost)
	reg.Check(t)
}

// Cancelled while the create is under way: the call returns, and the node that is made later goes.
func f04CancelDuringCreate(w *World, t *testing.T) {
	a := w.Client("a")
	w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock))
	a.Proxy.Hold(w.joins(), 500*time.Millisecond)
	began := time.Now()
	ctx, cancel := context.WithTimeout(w.Context(), 100*time.Millisecond)
	defer cancel()
	w.Bounded("a cancelled Lock", 100*time.Millisecond, func() {
		if h, err := a.Mutex(lock.Options{}).Lock(ctx); h != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock = %v, %v, want the deadline's error", h, err)
		}
	})
	w.Within(1500*time.Millisecond-time.Since(began)+w.slack(), "the node is gone a second after the reply",
		func() bool { return len(w.Queue()) == 0 })
}

// Cancelled at any moment, Lock leaves nothing behind.
func f04CancelAnywhere(w *World, _ *testing.T) {
	w.cancelAnywhere(w.reps(10_000, 200), w.Client("a").Mutex(lock.Options{}).Lock)
}

// cancelAnywhere asks for a lock so many times, cancelled at any moment of two round trips: there is either a hold
// or an error, never both or neither.
func (w *World) cancelAnywhere(times int, take func(context.Context) (*lock.Hold, error)) {
	w.t.Helper()
	w.MustRelease(must(w, take)) // what is above it is there
	w.slow()
	var cycles [3]time.Duration
	for i := range cycles {
		began := time.Now()
		w.MustRelease(must(w, take))
		cycles[i] = time.Since(began)
	}
	slices.Sort(cycles[:])
	trip := cycles[1] / 2 // as usual: a busy machine may take much longer for one of them
	r := rand.New(rand.NewPCG(w.seed(), 0))
	granted, refused := 0, 0
	for range times {
		ctx, cancel := context.WithCancel(context.Background())
		stop := time.AfterFunc(time.Duration(r.Int64N(int64(2*trip))), cancel)
		h, err := take(ctx)
		stop.Stop()
		cancel()
		switch {
		case (h == nil) == (err == nil):
			w.t.Fatalf("F26: hold %v and error %v: exactly one of them must be nil", h, err)
		case h != nil:
			granted++
			if err := h.Release(context.Background()); err != nil {
				w.t.Fatalf("release: %v", err)
			}
		case !errors.Is(err, context.Canceled):
			w.t.Fatalf("Lock = %v, want the context's error", err)
		default:
			refused++
		}
		time.Sleep(time.Duration(r.Int64N(int64(4 * trip)))) // or all stand behind what those before left
	}
	if granted == 0 || refused == 0 {
		w.t.Errorf("%d granted and %d cancelled: the cancels hit one side only", granted, refused)
	}
}

// A break before or after any step of a wait costs neither the node nor the place.
func f05KeepsPlace(w *World, t *testing.T) {
	gets := faultproxy.Match{Ops: []wire.Op{wire.OpGetData}, Prefix: w.dir + "/"}
	again := w.lists()
	again.Skip = 1 // the listing after the neighbour gave up
	steps := []struct {
		name string
		m    faultproxy.Match
	}{{"S3", w.joins()}, {"S4", w.lists()}, {"S6", gets}, {"S9", again}}
	for _, s := range steps {
		for _, applied := range []bool{false, true} {
			f05Step(w, t, fmt.Sprintf("%s, applied %v", s.name, applied), func(c *Client) { c.Cut(s.m, applied) }, func(*Client) {})
		}
	}
	f05Step(w, t, "S7", func(*Client) {}, func(c *Client) { c.Proxy.CutAll() })
}

// f05Step lets b wait behind a and in front of c, while b's connection breaks. A neighbour ahead of it gives
// up meanwhile.
func f05Step(w *World, t *testing.T, step string, plant, meanwhile func(b *Client)) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	ctx, giveUp := context.WithCancel(w.Context())
	neighbour := askUnder(ctx, w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	plant(b)
	wait := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(3)
	first := w.NodesOf("b")
	behind := ask(w, c.Mutex(lock.Options{}).Lock)
	w.WaitQueue(4)
	time.Sleep(w.moment())
	meanwhile(b)
	giveUp()
	neighbour.Outcome()
	w.WaitQueue(3)
	time.Sleep(w.moment())
	if now := w.NodesOf("b"); !slices.Equal(now, first) {
		t.Errorf("%s: the waiter's node was %v and is %v", step, first, now)
	}
	w.MustRelease(held)
	h := wait.Granted()
	if h.Node() != first[0] {
		t.Errorf("%s: granted with node %s, joined with %s", step, h.Node(), first[0])
	}
	behind.StillPending(w.moment())
	w.MustRelease(h)
	w.MustRelease(behind.Granted())
	w.Clean()
	for _, c := range []*Client{a, b, c} {
		c.Close(w.Context())
	}
}

// The session ends between the create and the listing, in an empty directory: "lowest" is not enough. A
// server of an ensemble that has not heard of the end yet can still list the node; then the hold ends as
// soon as it hears.
func f06Expired(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	w.MustRelease(must(w, b.Mutex(lock.Options{}).Lock))
	expired := w.beforeSecondLook(a, func() { w.Expire(a.Session) })
	h, err := a.Mutex(lock.Options{}).Lock(w.Context())
	switch {
	case h != nil && !w.Virtual:
		w.Ended(h, lock.ErrLost)
	case h != nil || !errors.Is(err, zk.ErrSessionExpired):
		t.Errorf("Lock = %v, %v, want the session's end", h, err)
	}
	other := ask(w, b.Mutex(lock.Options{}).Lock)
	w.MustRelease(other.Granted())
	select {
	case <-expired:
	case <-time.After(patience):
		t.Error("the queue was not listed a second time")
	}
}

// An administrator deletes the node between create and listing.
func f06Deleted(w *World, t *testing.T) {
	for _, requeue := range []bool{false, true} {
		a := w.Client("a")
		w.MustRelease(must(w, w.Client("b").Mutex(lock.Options{}).Lock))
		w.beforeSecondLook(a, func() {
			for _, name := range w.Queue() {
				w.Delete(zk.Join(w.dir, name))
			}
		})
		h, err := a.Mutex(lock.Options{Requeue: requeue}).Lock(w.Context())
		switch {
		case !requeue && !errors.Is(err, lock.ErrPlaceLost):
			t.Errorf("Lock = %v, %v, want ErrPlaceLost", h, err)
		case requeue && err != nil:
			t.Errorf("Lock with Requeue = %v", err)
		case requeue:
			if ok, err := w.Exists(h.Node()); !ok {
				t.Errorf("the hold's node %s is not there (%v)", h.Node(), err)
			}
			w.MustRelease(h)
		}
	}
}

// An administrator deletes the node of a waiter: its call ends at once, or it goes to the end of the queue.
func f06DeletedWhileWaiting(w *World, t *testing.T) {
	a, b, c := w.Client("a"), w.Client("b"), w.Client("c")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	plain := ask(w, b.Mutex(lock.Options{}).Lock)
	w.WaitQueue(2)
	requeued := ask(w, c.Mutex(lock.Options{Requeue: true}).Lock)
	w.WaitQueue(3)
	time.Sleep(w.moment())
	first := w.NodesOf("c")[0]
	w.Delete(w.NodesOf("b")[0])
	w.Bounded("a Lock whose node is deleted", 0, func() {
		if _, err := plain.Outcome(); !errors.Is(err, lock.ErrPlaceLost) {
			t.Errorf("Lock = %v, want ErrPlaceLost", err)
		}
	})
	w.Delete(first)
	w.WaitQueue(2)
	if again := w.NodesOf("c"); len(again) != 1 || again[0] == first {
		t.Errorf("after its node %s was deleted, the waiter has %v", first, again)
	}
	requeued.StillPending(w.moment())
	w.MustRelease(held)
	w.MustRelease(requeued.Granted())
}

// Another client removes the empty directory each time before the create arrives.
func f07DirectoryVanishes(w *World, t *testing.T) {
	a := w.Client("a")
	const times = 50
	rule := a.Proxy.Before(faultproxy.Match{Ops: faultproxy.Creates(), Prefix: w.dir + "/", Times: times}, func(faultproxy.Request) {
		if err := w.admin.Delete(w.Context(), w.dir, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
			t.Error(err)
		}
	})
	w.MustRelease(must(w, a.Mutex(lock.Options{}).Lock))
	if n := rule.Count(); n != times {
		t.Errorf("the directory was taken away %d times, want %d", n, times)
	}
}

// What is above the lock may not be ours to change. It is enough that it is there.
func f07ReadOnlyAncestors(w *World, t *testing.T) {
	a := w.Client("a")
	if err := w.admin.AddAuth(w.Context(), client.Auth{Scheme: "digest", Credential: []byte("admin:secret")}); err != nil {
		t.Fatal(err)
	}
	above := w.Create(zk.Parent(w.dir)+"/above", zk.Persistent)
	if _, err := w.admin.SetACL(w.Context(), above, append(zk.CreatorACL(), zk.ReadOnlyACL()...), -1); err != nil {
		t.Fatal(err)
	}
	dir := zk.Join(above, "lock")
	// Another client makes it just when we find it missing, so we try, and may not.
	a.Proxy.Before(faultproxy.Match{Ops: faultproxy.Creates(), Path: dir}, func(faultproxy.Request) {
		w.Create(dir, zk.Persistent)
	})
	h := must(w, a.MutexAt(dir, lock.Options{}).Lock)
	w.MustRelease(h)

	_, err := a.MutexAt(zk.Join(above, "other"), lock.Options{}).Lock(w.Context())
	if !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("Lock in a directory that we may not make = %v, want ErrNoAuth", err)
	}
}

// Two clients make the same deep path at once.
func f07SamePathAtOnce(w *World, t *testing.T) {
	for range w.reps(50, 5) {
		w.dir = zk.Join(w.dir, "a/b/c")
		a, b := ask(w, w.Client("a").Mutex(lock.Options{}).Lock), ask(w, w.Client("b").Mutex(lock.Options{}).Lock)
		select {
		case <-a.done:
		case <-b.done:
			a, b = b, a
		}
		w.MustRelease(a.Granted())
		w.MustRelease(b.Granted())
	}
}

// No server, servers that swallow everything, servers that take connections and never answer: every call
// ends with its context.
func f08Bounded(w *World, t *testing.T) {
	limit := time.Duration(w.reps(2000, 500)) * time.Millisecond
	for name, fault := range map[string]func(*Client){
		"down":  (*Client).Unreachable,
		"black": (*Client).Blackhole,
		"mute": func(c *Client) {
			c.Proxy.Hold(faultproxy.Match{Ops: []wire.Op{wire.OpCreateSession}, Times: faultproxy.Always}, time.Hour)
			c.Proxy.CutAll()
		},
	} {
		bounded := func(what string, f func(ctx context.Context)) {
			t.Helper()
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			w.Bounded(what+" while servers are "+name, limit, func() { f(ctx) })
		}
		a := w.Client("a")
		h := must(w, a.MutexAt(w.dir+"-"+name, lock.Options{}).Lock)
		fault(a)
		bounded("Release", func(ctx context.Context) {
			if err := h.Release(ctx); err == nil {
				t.Errorf("Release while servers are %s said that the node is gone", name)
			}
		})
		bounded("Lock", func(ctx context.Context) {
			if h, err := a.Mutex(lock.Options{}).Lock(ctx); h != nil || err == nil {
				t.Errorf("Lock while servers are %s = %v, %v", name, h, err)
			}
		})
		bounded("TryLock", func(ctx context.Context) {
			h, err := a.Mutex(lock.Options{}).TryLock(ctx)
			if h != nil || err == nil || errors.Is(err, lock.ErrBusy) {
				t.Errorf("TryLock while servers are %s = %v, %v", name, h, err)
			}
		})
		bounded("Close", func(ctx context.Context) {
			if err := a.Close(ctx); err == nil && a.Err() == nil {
				t.Errorf("Close while servers are %s said that the session is over", name)
			}
		})
	}
}
