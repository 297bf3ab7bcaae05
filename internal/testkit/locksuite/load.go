package locksuite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Group F of the atlas: many waiters, and what an operation costs. Costs are counted, never timed.
var loadTests = []test{
	{"F29_OneReleaseWakesOne", f29OneWakes},
	{"F29_ListingTooLarge", f29ListingTooLarge},
	{"F29_QueueMax", f29QueueMax},
	{"F30_FreeLock", f30FreeLock},
	{"F30_HandOver", f30HandOver},
}

// work returns what clients sent and were told, heartbeats aside.
func work(log faultproxy.Log) (asked, notified faultproxy.Log) {
	for _, e := range log {
		switch {
		case e.Kind == faultproxy.Asked && isWork(e):
			asked = append(asked, e)
		case e.Kind == faultproxy.Notified:
			notified = append(notified, e)
		}
	}
	return asked, notified
}

// isWork reports whether an entry is no part of a heartbeat.
func isWork(e faultproxy.Entry) bool { return e.Op != wire.OpPing && e.Op != wire.OpSync }

// cycle has a client take a lock and give it back, and returns the work of it. A busy machine may be so late with
// the release that the hold begins to watch its node, as holds do that are not short: the request and its event do not count.
func (w *World) cycle(c *Client, take func(context.Context) (*lock.Hold, error)) (asked, notified faultproxy.Log) {
	w.t.Helper()
	mark := c.Proxy.Mark()
	w.MustRelease(must(w, take))
	asked, notified = work(c.Proxy.Since(mark))
	if w.Virtual {
		return asked, notified
	}
	ends := func(told faultproxy.Entry) bool { // of a node that was watched
		return told.EventType == zk.NodeDeleted && slices.ContainsFunc(asked, func(e faultproxy.Entry) bool {
			return e.Op == wire.OpGetData && e.Path == told.Path
		})
	}
	notified = slices.DeleteFunc(notified, ends)
	return asked.But(wire.OpGetData), notified
}

// A long queue: each release wakes the next and no other, with the same few requests all along.
func f29OneWakes(w *World, t *testing.T) {
	waiters, over := w.reps(1000, 100), w.reps(10, 5)
	clients := make([]*Client, over)
	for i := range clients {
		clients[i] = w.Client(fmt.Sprint("c", i))
	}
	first := must(w, w.Client("a").Mutex(lock.Options{}).Lock)
	grants := make(chan *lock.Hold, waiters)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	for i := range waiters {
		m := clients[i%over].Mutex(lock.Options{})
		go func() {
			h, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			grants <- h
		}()
	}
	w.WaitQueue(waiters + 1)
	w.Quiet(clients...)
	marks := make([]faultproxy.Mark, over)
	for i, c := range clients {
		marks[i] = c.Proxy.Mark()
	}
	held := first
	var last int64
	for i := range waiters {
		if err := held.Release(ctx); err != nil {
			t.Fatal(err)
		}
		held = <-grants
		if held == nil {
			t.FailNow()
		}
		if held.Token() <= last {
			t.Fatalf("grant %d: token %#x after %#x", i, held.Token(), last)
		}
		last = held.Token()
	}
	// A hand-over is one request, the release. Every hold was too short, and its own node watched already,
	// to send more. The next is told of its predecessor's end, and before that of its release marker, if others
	// were ahead of that one too; the one that released is told that its own node is gone.
	releases, others, notified := 0, faultproxy.Log(nil), 0
	for i, c := range clients {
		asked, told := work(c.Proxy.Since(marks[i]))
		rest := asked.But(wire.OpDelete, wire.OpMulti)
		releases, others, notified = releases+len(asked)-len(rest), append(others, rest...), notified+len(told)
	}
	if releases != waiters-1 || len(others) > 0 {
		t.Errorf("%d hand-overs took %d requests to release, and besides: %s", waiters, releases, others.Ops())
	}
	if notified > 3*waiters {
		t.Errorf("%d notifications for %d hand-overs, want at most three each", notified, waiters)
	}
	if err := held.Release(ctx); err != nil {
		t.Fatal(err)
	}
}

// A listing larger than the client reads is an error of its own, at once, and no reason to reconnect.
func f29ListingTooLarge(w *World, t *testing.T) {
	const children = 100
	for i := range children {
		w.Create(fmt.Sprintf("%s/stranger-with-a-long-name-%d", w.dir, i), zk.Persistent)
	}
	a := w.ClientWith("a", client.Options{ReplyBytesMax: 2 << 10})
	h, err := a.Mutex(lock.Options{}).Lock(w.Context())
	var size *client.SizeError
	if h != nil || !errors.As(err, &size) {
		t.Errorf("Lock = %v, %v, want a *client.SizeError", h, err)
	}
	w.Within(time.Second+w.slack(), "I2: the attempt's node is gone", func() bool { return len(w.Queue()) == children })
	if n := a.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	w.DeleteAll(w.dir)
}

// A line that is long enough can be refused.
func f29QueueMax(w *World, t *testing.T) {
	opt := lock.Options{QueueMax: 1}
	held := must(w, w.Client("a").Mutex(opt).Lock)
	g := ask(w, w.Client("b").Mutex(opt).Lock)
	w.WaitQueue(2)
	if h, err := w.Client("c").Mutex(opt).Lock(w.Context()); !errors.Is(err, lock.ErrQueueFull) {
		t.Errorf("Lock behind more than QueueMax = %v, %v, want ErrQueueFull", h, err)
	}
	w.Within(time.Second+w.slack(), "I2: the refused one's node is gone", func() bool { return len(w.Queue()) == 2 })
	w.MustRelease(held)
	w.MustRelease(g.Granted())
}

// A free lock costs one write that carries create and listing, and one request to release: three requests,
// two round trips. Where the directory is missing, making it adds two requests.
func f30FreeLock(w *World, t *testing.T) {
	a := w.Client("a")
	m := a.Mutex(lock.Options{})
	w.MustRelease(must(w, m.Lock))
	asked, notified := w.cycle(a, m.Lock)
	if got, want := asked.Ops(), "create, children, delete"; got != want {
		t.Errorf("lock and release sent %q, want %q", got, want)
	}
	if len(asked) == 3 && asked[0].Read != asked[1].Read {
		t.Error("create and listing left in two writes")
	}
	if len(notified) > 0 {
		t.Errorf("notifications of a lock without waiters: %v", notified)
	}

	w.Delete(w.dir)
	asked, _ = w.cycle(a, m.Lock)
	if got, want := asked.Ops(), "create, children, create container, create, children, delete"; got != want {
		t.Errorf("lock and release of a lock without directory sent %q, want %q", got, want)
	}
}

// Two take turns. On an unbroken connection a hand-over needs no listing: the delete and the notification
// are all there is between release and grant.
func f30HandOver(w *World, t *testing.T) {
	a, b := w.Client("a"), w.Client("b")
	held := must(w, a.Mutex(lock.Options{}).Lock)
	trip := w.slow()
	for range w.reps(100, 20) {
		asked := b.Proxy.Mark()
		g := ask(w, b.Mutex(lock.Options{}).Lock)
		w.Within(patience, "the waiter has created, listed, and watches two nodes", func() bool {
			came, _ := work(b.Proxy.Since(asked))
			return len(came) == 4
		})
		w.Quiet(b)
		marks := []faultproxy.Mark{a.Proxy.Mark(), b.Proxy.Mark()}
		began := time.Now()
		w.MustRelease(held)
		next := g.Granted()
		left, _ := work(a.Proxy.Since(marks[0]))
		came, told := work(b.Proxy.Since(marks[1]))
		if len(left) != 1 {
			t.Errorf("the release sent %q, want one request", left.Ops())
		}
		if len(came) != 0 || len(told) != 1 {
			t.Errorf("the grant took the requests %q and %d notifications, want none and one", came.Ops(), len(told))
		}
		if d := g.at.Sub(began); w.Virtual && d > trip {
			t.Errorf("the hand-over took %v, want one way there and one way back, %v", d, trip)
		}
		a, b, held = b, a, next
	}
	w.MustRelease(held)
}
