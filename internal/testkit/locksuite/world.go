// Package locksuite is one suite of tests for the locks that runs against any ensemble: the server of
// this project in virtual time, and Apache ZooKeeper in real time. "Correct" then means the same for both.
//
// The tests of the failure atlas carry its numbers. Faults are injected between client and server, by a
// faultproxy of each client's own, so that nothing in the server or in the client knows of them.
package locksuite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Backend is an ensemble that the suite can be run against.
type Backend struct {
	// Bubble runs one test; in virtual time if the backend can, then everything that the test uses must
	// be started in it.
	Bubble func(t *testing.T, f func(t *testing.T))
	// Start returns an ensemble for one test, which ends with it.
	Start func(t *testing.T) Ensemble
	// SideBySide runs several tests at once, as many as the test flag -parallel allows: in real time most of them wait.
	SideBySide bool
	// Ours says that it is Memory: tests that look behind the server's answers run too.
	Ours bool
}

// An Ensemble is what clients connect to.
type Ensemble struct {
	Servers string            // the server list
	Dial    faultproxy.Dialer // connects to one of them
	Tick    time.Duration     // of the servers
	Timeout time.Duration     // for sessions; at least two ticks
	Virtual bool              // time is: nothing takes longer than it should, and repetitions are cheap
	Clock   *clock.Clock      // of clients; nil is the machine's
	server  *memory           // the server, if it is ours
}

// A World is an ensemble with its clients, for one test.
type World struct {
	Ensemble
	t     testing.TB
	dir   string
	admin *client.Session
}

var worlds atomic.Int64

func newWorld(t *testing.T, b Backend) *World {
	w := &World{Ensemble: b.Start(t), t: t}
	w.dir = fmt.Sprintf("/locksuite/%d-%d/lock", time.Now().UnixNano(), worlds.Add(1))
	w.admin = w.open("admin", client.Options{Dial: w.Dial})
	return w
}

// patience is how long a test waits for what must happen, in ensembles that run in real time too.
const patience = 30 * time.Second

// Context ends with the test, or when patience does.
func (w *World) Context() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *World) open(label string, opt client.Options) *client.Session {
	w.t.Helper()
	if opt.SessionTimeout == 0 {
		opt.SessionTimeout = w.Timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := client.Open(ctx, w.Servers, clock.With(opt, w.Clock))
	if err != nil {
		w.t.Fatalf("open session %s: %v", label, err)
	}
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Close(ctx) // a test may have left it unreachable
	})
	return s
}

// Queue returns the names of the contenders' nodes in the world's lock directory, in no order; none if the
// directory is not there.
func (w *World) Queue() []string { return w.QueueAt(w.dir) }

// QueueAt is Queue for another path.
func (w *World) QueueAt(dir string) []string {
	w.t.Helper()
	names, _, err := w.fresh().Children(w.Context(), dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		w.t.Fatal(err)
	}
	return names
}

// NodesOf returns the paths of the contenders whose nodes carry a label, first in the queue first.
func (w *World) NodesOf(label string) []string {
	w.t.Helper()
	line, err := inspect.Contenders(w.Context(), w.fresh(), w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	var nodes []string
	for _, c := range line {
		if c.Owner.Label == label {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}

// Bounded checks that f returns within limit and a quarter of a second (I5).
func (w *World) Bounded(what string, limit time.Duration, f func()) {
	w.t.Helper()
	began := time.Now()
	f()
	if d := time.Since(began); d > limit+250*time.Millisecond+w.slack() {
		w.t.Errorf("I5: %s took %v, the limit was %v", what, d, limit)
	}
}

// fresh returns the world's own session when what it reads is at least as new as what any client has been told:
// the server that answers it may lag behind the one that answered them.
func (w *World) fresh() *client.Session {
	w.t.Helper()
	if err := w.admin.AwaitWrites(w.Context()); err != nil { // a sync shows less if the server is the leader
		w.t.Fatal(err)
	}
	return w.admin
}

// Exists reports whether a node is there.
func (w *World) Exists(path string) (bool, error) {
	w.t.Helper()
	_, ok, err := w.fresh().Exists(w.Context(), path)
	return ok, err
}

// Within waits until cond holds, at most d, and ends the test if it does not.
func (w *World) Within(d time.Duration, what string, cond func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("not within %v: %s", d, what)
		}
	}
}

// WaitQueue waits until that many contenders are in the queue.
func (w *World) WaitQueue(n int) {
	w.t.Helper()
	w.Within(patience, fmt.Sprintf("%d contenders in the queue", n), func() bool { return len(w.Queue()) == n })
}

// Clean checks that nothing is left in the lock directory, soon (I2), and no watch on the server, if that
// can be asked (I4).
func (w *World) Clean() {
	w.t.Helper()
	w.Within(time.Second+w.slack(), "I2: the lock directory is empty", func() bool { return len(w.Queue()) == 0 })
	if w.server != nil {
		w.Within(time.Second, "I4: the server has no watches", func() bool { return w.server.Stats().Watches == 0 })
	}
}

// slack is what a test in real time grants a busy machine; nothing in virtual time, where machines are
// never busy.
func (w *World) slack() time.Duration {
	if w.Virtual {
		return 0
	}
	return 2 * time.Second
}

// moment is how long to wait for something that must not happen, or to let things come to rest.
func (w *World) moment() time.Duration {
	if w.Virtual {
		return time.Second
	}
	return 50 * time.Millisecond
}

// slow makes the way to the servers take a while, if it can, and returns what a round trip takes.
func (w *World) slow() time.Duration {
	if w.server == nil {
		return time.Millisecond
	}
	const oneWay = time.Millisecond
	w.server.net.Link("", memoryAddress).Latency(oneWay)
	return 2 * oneWay
}

// expired reports whether err is the end of a hold's session, or the news that its node is gone, which an ensemble
// may bring first: expiry deletes the node, and only then hangs up.
func (w *World) expired(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) || !w.Virtual && errors.Is(err, lock.ErrNodeDeleted)
}

// seed returns a seed of this run's own, which is told if the test fails.
func (w *World) seed() uint64 {
	seed := rand.Uint64()
	w.t.Cleanup(func() {
		if w.t.Failed() {
			w.t.Logf("seed %d", seed)
		}
	})
	return seed
}

// reps is how often a test repeats something: full in virtual time, few where each takes its time.
func (w *World) reps(full, few int) int {
	switch {
	case !w.Virtual:
		return few
	case full >= 5000:
		return full / repsDivisor
	}
	return full
}

// Quiet waits until the clients have nothing under way: no request is unanswered, and for a while nothing but heartbeats passes their
// proxies, which with many clients never cease for that long. A while in which the machine was late for us does not count: it may
// have been late for a client that is about to ask.
func (w *World) Quiet(clients ...*Client) {
	w.t.Helper()
	marks := make([]faultproxy.Mark, len(clients))
	for i, c := range clients {
		marks[i] = c.Proxy.Mark()
	}
	w.Within(patience, "the clients come to rest", func() bool {
		rest := sleepInTime(max(w.moment(), 150*time.Millisecond))
		for i, c := range clients {
			passed := c.Proxy.Since(marks[i])
			marks[i] += faultproxy.Mark(len(passed))
			rest = rest && !slices.ContainsFunc(passed, isWork) && !hasUnanswered(c.Proxy.Since(0))
		}
		return rest
	})
}

// sleepInTime sleeps in steps, and reports whether the machine was in time at the end of each.
func sleepInTime(d time.Duration) bool {
	const steps = 5
	inTime := true
	for range steps {
		began := time.Now()
		time.Sleep(d / steps)
		inTime = inTime && time.Since(began) < 2*d/steps
	}
	return inTime
}

// hasUnanswered reports whether a request that is no heartbeat waits for its answer.
func hasUnanswered(log faultproxy.Log) bool {
	unanswered := map[int]int{} // by connection
	for _, e := range log {
		switch {
		case e.Kind == faultproxy.Closed:
			delete(unanswered, e.Conn)
		case e.Kind == faultproxy.Asked && isWork(e):
			unanswered[e.Conn]++
		case e.Kind == faultproxy.Answered && isWork(e):
			unanswered[e.Conn]--
		}
	}
	for _, n := range unanswered {
		if n > 0 {
			return true
		}
	}
	return false
}

// Delete removes a node as an administrator would.
func (w *World) Delete(path string) {
	w.t.Helper()
	if err := w.admin.Delete(w.Context(), path, -1); err != nil {
		w.t.Fatal(err)
	}
}

// DeleteAll removes a node and everything below it.
func (w *World) DeleteAll(path string) {
	w.t.Helper()
	for _, name := range w.QueueAt(path) {
		w.DeleteAll(zk.Join(path, name))
	}
	if err := w.admin.Delete(w.Context(), path, -1); err != nil && !errors.Is(err, zk.ErrNoNode) {
		w.t.Fatal(err)
	}
}

// Create makes a node as another client would.
func (w *World) Create(path string, mode zk.Mode) string {
	w.t.Helper()
	for dir := zk.Parent(path); dir != "/"; dir = zk.Parent(dir) {
		if _, ok, err := w.fresh().Exists(w.Context(), dir); err != nil {
			w.t.Fatal(err)
		} else if ok {
			break
		}
		w.Create(dir, zk.Persistent)
	}
	c, err := w.admin.Create(w.Context(), path, nil, mode, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return c.Path
}
