package interop

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

// These tests let connections between our mutex and Apache ZooKeeper break at chosen requests.

// A contender is a session of ours whose connections can be broken.
type contender struct {
	*client.Session
	mutex *lock.Mutex
	proxy *faultproxy.Proxy
}

func newContender(t *testing.T, servers, path string) *contender {
	t.Helper()
	var d net.Dialer
	p := faultproxy.New(d.DialContext)
	t.Cleanup(p.Close) // after the session's
	s := open(t, servers, client.Options{SessionTimeout: sessionTimeout, Dial: p.Dial})
	m, err := lock.NewMutex(s, path, lock.Options{})
	must(t, err)
	return &contender{s, m, p}
}

func (c *contender) lock(t *testing.T) *lock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := c.mutex.Lock(ctx)
	must(t, err)
	return h
}

func release(t *testing.T, h *lock.Hold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, h.Release(ctx))
}

// goLock asks for the lock in a goroutine, and returns when c's znode stands in line.
func (c *contender) goLock(t *testing.T, l *line) <-chan *lock.Hold {
	t.Helper()
	before := len(l.look.children(l.path))
	held := make(chan *lock.Hold, 1)
	go func() {
		h, err := c.mutex.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		held <- h
	}()
	l.await(before + 1)
	return held
}

// granted waits for the hold that goLock is after. Whoever is forgotten by a lock is so for good: the limit
// is for the machine.
func granted(t *testing.T, held <-chan *lock.Hold) *lock.Hold {
	t.Helper()
	select {
	case h := <-held:
		if h == nil {
			t.FailNow()
		}
		return h
	case <-time.After(patience):
		t.Fatalf("not granted within %v", patience)
	}
	return nil
}

// A free lock costs one round trip: the requests for it leave together.
func TestFreeLockIsOneWrite(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	c := newContender(t, srv.Addr(), "/free")
	release(t, c.lock(t)) // makes the directory
	for range 20 {
		mark := c.proxy.Mark()
		h := c.lock(t)
		log := c.proxy.Since(mark).Asked(append(faultproxy.Creates(), faultproxy.Lists()...)...)
		if log.Ops() != "create, children" || log.Reads() != 1 {
			t.Fatalf("asked in %d writes, want a create and a listing in one:\n%v", log.Reads(), log)
		}
		release(t, h)
	}
}

// A hand-over from the first in line to the second costs no listing.
func TestHandOverSendsNoListing(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newLine(t, "/handover", srv.Addr(), srv.Addr())
	a, b := newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path)
	h := a.lock(t)
	held := b.goLock(t, l)
	b.awaitWatches(t)
	mark := b.proxy.Mark()
	release(t, h)
	release(t, granted(t, held))
	if log := b.proxy.Since(mark).Asked(faultproxy.Lists()...); len(log) > 0 {
		t.Errorf("the hand-over took a listing:\n%v", log)
	}
}

// awaitWatches waits until c has asked for watches and has been answered.
func (c *contender) awaitWatches(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if slices.ContainsFunc(c.proxy.Since(0).Answered(), func(e faultproxy.Entry) bool { return e.Watch }) {
			return
		}
	}
	t.Fatal("no watches were asked for")
}

// TestF01_F05_CutsWhileJoining breaks the connection at each request of an acquire, up to four times
// in a row: there is one znode for the attempt in the end, and it keeps its place.
func TestF01_F05_CutsWhileJoining(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	type cut func(*faultproxy.Proxy, faultproxy.Match) *faultproxy.Rule
	before, after := (*faultproxy.Proxy).CutBefore, (*faultproxy.Proxy).CutAfter
	reads := []wire.Op{wire.OpGetData, wire.OpExists}
	for i, tt := range []struct {
		name  string
		cut   cut
		ops   []wire.Op
		times int
	}{
		{"before the create", before, faultproxy.Creates(), 1},
		{"after the create", after, faultproxy.Creates(), 1},
		{"before the listing", before, faultproxy.Lists(), 1},
		{"after the listing", after, faultproxy.Lists(), 1},
		{"before four listings", before, faultproxy.Lists(), 4},
		{"after four listings", after, faultproxy.Lists(), 4},
		{"before the watch", before, reads, 1},
		{"after the watch", after, reads, 1},
		{"before four syncs", before, []wire.Op{wire.OpSync}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLine(t, fmt.Sprintf("/joining-%d", i), srv.Addr(), srv.Addr())
			a, b, c := newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path)
			first := a.lock(t)
			rule := tt.cut(b.proxy, faultproxy.Match{Ops: tt.ops, Times: tt.times})
			if tt.name == "before four syncs" { // recovery begins with one
				after(b.proxy, faultproxy.Match{Ops: faultproxy.Creates()})
			}
			second := b.goLock(t, l)
			third := c.goLock(t, l)
			select {
			case <-rule.Acted():
			case <-time.After(patience):
				t.Fatal("nothing was cut")
			}
			release(t, first)
			h := granted(t, second)
			l.await(2)
			select {
			case <-third:
				t.Error("the third in line holds the lock together with the second")
			default:
			}
			release(t, h)
			release(t, granted(t, third))
			l.empty()
		})
	}
}

// TestF09_PredecessorGoneBeforeTheWatch lets the holder leave between the listing that shows it and
// the watch on it.
func TestF09_PredecessorGoneBeforeTheWatch(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newLine(t, "/gone", srv.Addr(), srv.Addr())
	a, b := newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path)
	h := a.lock(t)
	reads := []wire.Op{wire.OpGetData, wire.OpExists}
	stands := make(chan struct{})
	rule := b.proxy.Before(faultproxy.Match{Ops: reads, Path: h.Node()}, func(faultproxy.Request) {
		<-stands // in line: goLock has seen it
		release(t, h)
	})
	held := b.goLock(t, l)
	close(stands)
	release(t, granted(t, held))
	if rule.Count() != 1 {
		t.Errorf("the watch on the predecessor was asked for %d times, want once", rule.Count())
	}
	l.empty()
}

// TestF10_ReleasedWhileTheWaiterWasCutOff lets the event get lost in a black hole that ends before
// the session does.
func TestF10_ReleasedWhileTheWaiterWasCutOff(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newLine(t, "/flap", srv.Addr(), srv.Addr())
	a, b := newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path)
	h := a.lock(t)
	held := b.goLock(t, l)
	b.awaitWatches(t)
	b.proxy.SetFlows(faultproxy.Stall)
	release(t, h)
	time.Sleep(sessionTimeout / 4) // the event is on its way, and there is time left to come back
	b.proxy.CutAll()
	b.proxy.SetFlows(faultproxy.Pass)
	release(t, granted(t, held))
	l.empty()
}

// TestF23_ReleaseFailsOnTheWire breaks the connection around the delete.
func TestF23_ReleaseFailsOnTheWire(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	for i, cut := range []func(*faultproxy.Proxy, faultproxy.Match) *faultproxy.Rule{
		(*faultproxy.Proxy).CutBefore, (*faultproxy.Proxy).CutAfter,
	} {
		for times := 1; times <= 3; times++ {
			l := newLine(t, fmt.Sprintf("/release-%d-%d", i, times), srv.Addr(), srv.Addr())
			a, b := newContender(t, srv.Addr(), l.path), newContender(t, srv.Addr(), l.path)
			h := a.lock(t)
			held := b.goLock(t, l)
			rule := cut(a.proxy, faultproxy.Match{Ops: []wire.Op{wire.OpDelete}, Times: times})
			release(t, h)
			release(t, granted(t, held))
			if rule.Count() == 0 {
				t.Error("nothing was cut")
			}
			release(t, a.lock(t))
			l.empty()
		}
	}
}
