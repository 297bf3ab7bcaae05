package interop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
	"github.com/lockkeeper/lockkeeper/zk"
)

// These tests let connections and sessions break under each kind of our locks, on Apache ZooKeeper. What the suite of
// package locks asks of single kinds is asked there.

// A way is how to take a lock.
type way func(context.Context) (*lock.Hold, error)

// A kindOfLock is a lock and two ways to take it that exclude each other.
type kindOfLock struct {
	name        string
	mine, other func(s *client.Session, path string) (way, error)
	queue       string   // where those that wait stand, below the lock's path
	dirs        []string // where every contender stands, one znode each
}

func mutexWay(s *client.Session, path string) (way, error) {
	m, err := lock.NewMutex(s, path, lock.Options{})
	if err != nil {
		return nil, err
	}
	return m.Lock, nil
}

func writeWay(s *client.Session, path string) (way, error) {
	m, err := lock.NewRWMutex(s, path, lock.Options{})
	if err != nil {
		return nil, err
	}
	return m.Lock, nil
}

func readWay(s *client.Session, path string) (way, error) {
	m, err := lock.NewRWMutex(s, path, lock.Options{})
	if err != nil {
		return nil, err
	}
	return m.RLock, nil
}

func permitWay(s *client.Session, path string) (way, error) {
	m, err := lock.NewSemaphore(s, path, 1, lock.Options{})
	if err != nil {
		return nil, err
	}
	return m.Acquire, nil
}

func curatorPermitWay(s *client.Session, path string) (way, error) {
	m, err := lock.NewCuratorSemaphore(s, path, 1, lock.Options{})
	if err != nil {
		return nil, err
	}
	return m.Acquire, nil
}

var kindsOfLocks = []kindOfLock{
	{name: "mutex", mine: mutexWay, other: mutexWay, dirs: []string{""}},
	{name: "write", mine: writeWay, other: readWay, dirs: []string{""}},
	{name: "read", mine: readWay, other: writeWay, dirs: []string{""}},
	{name: "permit", mine: permitWay, other: permitWay, dirs: []string{""}},
	{name: "curator-permit", mine: curatorPermitWay, other: curatorPermitWay, queue: "/locks", dirs: []string{"/locks", "/leases"}},
}

// line returns a lock of this kind.
func (k kindOfLock) line(t *testing.T, path, servers string) *testLock {
	t.Helper()
	l := newTestLock(t, path, servers, servers)
	l.dir = path + k.queue
	return l
}

// empty checks that no znode is left.
func (k kindOfLock) empty(l *testLock) {
	l.t.Helper()
	for _, d := range k.dirs {
		l.empty(l.path + d)
	}
}

// A taker is a session of ours that takes a lock in one way, and can be cut off.
type taker struct {
	*client.Session
	take  way
	proxy *faultproxy.Proxy
}

func (l *testLock) taker(how func(*client.Session, string) (way, error), timeout time.Duration) *taker {
	l.t.Helper()
	var d net.Dialer
	p := faultproxy.New(d.DialContext)
	l.t.Cleanup(p.Close) // after the session's
	s := open(l.t, l.servers, client.Options{SessionTimeout: timeout, Dial: p.Dial})
	take, err := how(s, l.path)
	must(l.t, err)
	return &taker{s, take, p}
}

func (k *taker) must(t *testing.T) *lock.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	h, err := k.take(ctx)
	must(t, err)
	return h
}

// join asks for the lock beside the test and returns when one more stands in the queue.
func (k *taker) join(l *testLock) <-chan *lock.Hold {
	l.t.Helper()
	before := len(l.children(l.dir))
	held := make(chan *lock.Hold, 1)
	go func() {
		h, err := k.take(l.t.Context())
		if err != nil {
			l.t.Error(err)
		}
		held <- h
	}()
	l.await(before + 1)
	return held
}

// granted waits for the hold that join is after. A waiter that a lock forgets is forgotten for good: the limit
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

func release(t *testing.T, h *lock.Hold) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, h.Release(ctx))
}

// TestF01_F05_EveryLockKeepsItsPlace breaks the connection at the requests of an acquire: there is one znode
// for the attempt in the end, and it keeps its place.
func TestF01_F05_EveryLockKeepsItsPlace(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	before, after := (*faultproxy.Proxy).CutBefore, (*faultproxy.Proxy).CutAfter
	for _, k := range kindsOfLocks {
		for i, c := range []struct {
			name string
			cut  func(*faultproxy.Proxy, faultproxy.Match) *faultproxy.Rule
			ops  []wire.Op
		}{
			{"before the create", before, faultproxy.Creates()},
			{"after the create", after, faultproxy.Creates()},
			{"after the listing", after, faultproxy.Lists()},
			{"after the watch", after, []wire.Op{wire.OpGetData, wire.OpExists}},
		} {
			t.Run(k.name+" "+c.name, func(t *testing.T) {
				l := k.line(t, fmt.Sprintf("/joining-%s-%d", k.name, i), srv.Addr())
				a, b, d := l.taker(k.other, patience), l.taker(k.mine, patience), l.taker(k.other, patience)
				first := a.must(t)
				rule := c.cut(b.proxy, faultproxy.Match{Ops: c.ops, Times: 2})
				second := b.join(l)
				third := d.join(l)
				select {
				case <-rule.Acted():
				case <-time.After(patience):
					t.Fatal("nothing was cut")
				}
				release(t, first)
				h := granted(t, second)
				select {
				case <-third:
					t.Error("the third in the queue holds the lock together with the second")
				case <-time.After(settled):
				}
				made := b.proxy.Since(0).Asked(faultproxy.Creates()...)
				if c.name == "after the create" && len(made) != len(k.dirs) {
					t.Errorf("asked for znodes %d times, want %d:\n%v", len(made), len(k.dirs), made)
				}
				release(t, h)
				release(t, granted(t, third))
				k.empty(l)
			})
		}
	}
}

// TestF23_EveryLockIsReleasedOnTheWire breaks the connection around the delete.
func TestF23_EveryLockIsReleasedOnTheWire(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, k := range kindsOfLocks {
		for i, cut := range []func(*faultproxy.Proxy, faultproxy.Match) *faultproxy.Rule{
			(*faultproxy.Proxy).CutBefore, (*faultproxy.Proxy).CutAfter,
		} {
			l := k.line(t, fmt.Sprintf("/release-%s-%d", k.name, i), srv.Addr())
			a, b := l.taker(k.mine, patience), l.taker(k.other, patience)
			h := a.must(t)
			held := b.join(l)
			rule := cut(a.proxy, faultproxy.Match{Ops: []wire.Op{wire.OpDelete, wire.OpMulti}, Times: 2})
			release(t, h)
			release(t, granted(t, held))
			if rule.Count() == 0 {
				t.Errorf("%s: nothing was cut", k.name)
			}
			k.empty(l)
		}
	}
}

// TestF14_WhoGivesUpLeavesNoWatch counts the watches that the server has.
func TestF14_WhoGivesUpLeavesNoWatch(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, k := range kindsOfLocks {
		t.Run(k.name, func(t *testing.T) {
			l := k.line(t, "/watches-"+k.name, srv.Addr())
			a, b := l.taker(k.other, patience), l.taker(k.mine, patience)
			for end := time.Now().Add(patience); watches(t, srv) > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("there are watches before any client wants the lock")
				}
			} // those of sessions that have ended go a moment later
			h := a.must(t)
			idle := moreWatches(t, srv, 0) // the holder's, on its own node
			held := b.join(l)
			moreWatches(t, srv, idle) // such as must not be left
			release(t, h)
			release(t, granted(t, held))
			h = a.must(t)
			for range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), settled)
				if _, err := b.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("a second holder, or none for another reason: %v", err)
				}
				cancel()
			}
			left := watches(t, srv)
			for end := time.Now().Add(patience); left > idle && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
				left = watches(t, srv)
			}
			if left > idle {
				t.Errorf("%d watches are left, before there were %d", left, idle)
			}
			release(t, h)
			k.empty(l)
		})
	}
}

var totalWatches = regexp.MustCompile(`Total watches:(\d+)`)

// watches asks the server how many watches it has.
func watches(t *testing.T, srv *apache.Server) int {
	t.Helper()
	answer, err := srv.FourLetter("wchs")
	must(t, err)
	m := totalWatches.FindStringSubmatch(answer)
	if m == nil {
		t.Fatalf("wchs answers %q", answer)
	}
	n, err := strconv.Atoi(m[1])
	must(t, err)
	return n
}

// moreWatches waits until the server has more watches than n, and returns how many.
func moreWatches(t *testing.T, srv *apache.Server, n int) int {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if now := watches(t, srv); now > n {
			return now
		}
	}
	t.Fatalf("there are no more than %d watches", n)
	return 0
}

// TestF16_EveryLossIsTold deletes the holder's znode, as an operator would.
func TestF16_EveryLossIsTold(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, k := range kindsOfLocks {
		l := k.line(t, "/deleted-"+k.name, srv.Addr())
		a, b := l.taker(k.mine, patience), l.taker(k.other, patience)
		h := a.must(t)
		held := b.join(l)
		must(t, b.Delete(t.Context(), h.Node(), -1))
		release(t, granted(t, held))
		select {
		case <-h.Done():
		case <-time.After(patience):
			t.Fatalf("%s: the loss is not told", k.name)
		}
		if !errors.Is(h.Cause(), lock.ErrNodeDeleted) {
			t.Errorf("%s: the hold ended with %v, want lock.ErrNodeDeleted", k.name, h.Cause())
		}
		release(t, a.must(t)) // it can be taken again
		k.empty(l)
	}
}

// TestF17_FrozenHoldersKnow stops a process until its session has expired and another holds the lock: when it
// goes on, the first thing that it hears of its hold is that it is lost.
func TestF17_FrozenHoldersKnow(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	for _, c := range []struct{ mine, others peer.As }{
		{peer.Mutex, peer.Mutex},
		{peer.Write, peer.Read},
		{peer.Read, peer.Write},
		{peer.Permit(1), peer.Permit(1)},
	} {
		t.Run(string(c.mine), func(t *testing.T) {
			path := "/frozen-" + strings.ReplaceAll(string(c.mine), ":", "-")
			reg, err := register.Open() // to which the frozen one is inside
			must(t, err)
			t.Cleanup(reg.Close)
			start := func(k peer.Kind, timeout time.Duration) *peer.Peer {
				return peer.Start(t, k, peer.Config{Servers: srv.Addr(), Timeout: timeout, Name: "frozen-" + string(k), Register: reg.Addr()})
			}
			next := start(peer.Curator, patience) // first: a JVM takes long to start, and the session of the other is short
			frozen := start(peer.Lockkeeper, crashTimeout)
			first := frozen.Take(path, c.mine)
			frozen.Freeze()
			if second := next.Take(path, c.others); second <= first {
				t.Errorf("token %#x after %#x", second, first)
			}
			frozen.Send("unlock")
			frozen.Thaw()
			if said := frozen.Expect("error"); !strings.Contains(said, "lost") {
				t.Errorf("the release of what was lost: %q", said)
			}
			next.Unlock()
		})
	}
}

// TestF20_LongOutageOfApache takes the server away for longer than the holder's deadline, and for longer
// than its session: the hold is lost once, and nothing is taken again unasked.
func TestF20_LongOutageOfApache(t *testing.T) {
	t.Parallel()
	srv := apache.Start(t, apache.Options{Tick: tick})
	l := newTestLock(t, "/outage", srv.Addr(), srv.Addr())
	a := l.taker(mutexWay, sessionTimeout)
	h := a.must(t)
	mark := a.proxy.Mark()
	srv.Kill()
	killed := time.Now()
	select {
	case <-h.Done():
	case <-time.After(patience):
		t.Fatal("the hold goes on without a server")
	}
	if !errors.Is(h.Cause(), lock.ErrDeadline) {
		t.Errorf("the hold ended with %v, want lock.ErrDeadline", h.Cause())
	}
	time.Sleep(2*sessionTimeout - time.Since(killed))
	srv.Launch()
	srv.AwaitServing()
	l.look = connect(t, srv.Addr(), watcherTimeout, nil)
	l.empty()
	if made := a.proxy.Since(mark).Asked(faultproxy.Creates()...); len(made) > 0 {
		t.Errorf("a lock was taken again unasked: %v", made)
	}
	// The server gives every session its full timeout after a restart, which is too short for a client that comes back late.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	switch h, err := a.take(ctx); {
	case err == nil:
		release(t, h)
	case !errors.Is(err, zk.ErrSessionExpired):
		t.Errorf("the session ended with %v", err)
	}
	l.empty()
}
