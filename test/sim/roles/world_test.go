package roles

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/sim/replica"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	tick    = 500 * time.Millisecond
	timeout = 4 * time.Second // of sessions
	turmoil = 40 * time.Second
	calm    = 40 * time.Second // from the last fault to the look at what is left
	lag     = 2 * time.Millisecond
	lagMax  = 3 * time.Second
)

// A world is a leader, two followers, and clients, in one bubble.
type world struct {
	t         testing.TB
	ctx       context.Context
	rnd       *rand.Rand // of the faults; actors have their own
	net       *memnet.Network
	srv       *server.Server
	followers []*replica.Replica
	clients   []*clientOf
	other     *client.Session // connected to the leader without faults
	work      sync.WaitGroup
	old       bool   // servers have no persistent watches
	expires   bool   // sessions may be ended by the server at any moment
	vandal    func() // deletes something as another client; nil if nothing may be deleted

	mu         sync.Mutex // guards what follows; not held across I/O
	tree       *tree.Tree // what is committed
	outcome    tree.Outcome
	heed       func(ev zk.Event) // is told of each change of the tree, under mu; nil if none is wanted
	violations []string
	lines      []string
}

// A clientOf is a Keeper with what breaks its connections.
type clientOf struct {
	name  string
	proxy *faultproxy.Proxy
	*client.Keeper
}

// run runs a scenario in a bubble, and returns what was wrong.
func run(t *testing.T, seed uint64, scenario func(w *world)) (violations, lines []string) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, ctx: t.Context(), rnd: rand.New(rand.NewPCG(seed, 0)), net: memnet.New(), tree: tree.New(false)}
		fs := &feed{Mem: vfs.NewMem(), read: map[string]int64{}, synced: w.committed}
		var err error
		w.srv, err = server.Open(bridge.OnDisk(server.Options{DataDir: "/data", TickTime: tick, ConnectionsPerAddressMax: -1}, fs))
		must(t, err)
		for _, name := range []string{"f1", "f2"} {
			ln, err := w.net.Listen(name + ":2181")
			must(t, err)
			dial := func() (net.Conn, error) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				return w.net.DialAs(ctx, name, "leader:2181")
			}
			w.followers = append(w.followers, replica.New(name, ln, dial, tick, lag))
		}
		ln, err := w.net.Listen("leader:2181")
		must(t, err)
		var serving sync.WaitGroup
		serving.Go(func() { w.srv.Serve(ln) })
		w.net.Link("", "").Latency(time.Millisecond)
		w.other, err = client.Open(w.ctx, "leader:2181", client.Options{Dial: w.net.Dialer("other"), SessionTimeout: timeout})
		must(t, err)
		scenario(w)
		w.work.Wait()
		for _, c := range w.clients {
			c.Close(context.Background())
			c.proxy.Close()
		}
		w.other.Close(context.Background())
		for _, r := range w.followers {
			r.Close()
		}
		must(t, w.srv.Close())
		serving.Wait()
		violations, lines = w.violations, w.lines
	})
	return violations, lines
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// committed is told of each transaction.
func (w *world) committed(t txn.Txn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree.Apply(&t, &w.outcome)
	for _, e := range w.outcome.Effects {
		if w.heed != nil && e.Type != zk.NodeChildrenChanged {
			w.heed(e.Event)
		}
	}
	for _, r := range w.followers {
		r.Feed(t)
	}
}

// note notes a line, which is shown if the run fails. Its caller may hold mu or not.
func (w *world) note(format string, args ...any) {
	line := fmt.Sprintf("%s ", time.Now().Format("05.000")) + fmt.Sprintf(format, args...)
	noting.Lock()
	defer noting.Unlock()
	w.lines = append(w.lines, line)
}

// violated notes that an invariant is broken.
func (w *world) violated(format string, args ...any) {
	w.note("VIOLATED "+format, args...)
	noting.Lock()
	defer noting.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

var noting sync.Mutex // guards lines and violations of all worlds

// join opens a client with faults.
func (w *world) join(name string) *clientOf {
	dial := faultproxy.Dialer(w.net.Dialer(name))
	if w.old {
		dial = withoutAddWatch(dial)
	}
	p := faultproxy.New(dial)
	servers := []string{"leader:2181", "f1:2181", "f2:2181"}
	w.rnd.Shuffle(3, func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	k, err := client.Keep(w.ctx, strings.Join(servers, ","), client.Options{Dial: p.Dial, SessionTimeout: timeout, BackoffMax: 500 * time.Millisecond})
	must(w.t, err)
	c := &clientOf{name, p, k}
	w.clients = append(w.clients, c)
	return c
}

// actor returns a source of chance for an actor.
func (w *world) actor() *rand.Rand { return rand.New(rand.NewPCG(w.rnd.Uint64(), 1)) }

// between sleeps for a while.
func between(rnd *rand.Rand, least, most time.Duration) {
	time.Sleep(least + time.Duration(rnd.Int64N(int64(most-least))))
}

// faults breaks things until the turmoil is over, mends all and waits for the calm.
func (w *world) faults() {
	end := time.Now().Add(turmoil)
	for time.Now().Before(end) {
		between(w.rnd, 20*time.Millisecond, 1500*time.Millisecond)
		c := w.clients[w.rnd.IntN(len(w.clients))]
		f := w.followers[w.rnd.IntN(len(w.followers))]
		last := time.Duration(w.rnd.Int64N(int64(timeout * 3 / 2)))
		switch n := w.rnd.IntN(20); {
		case n < 3:
			w.note("cut %s", c.name)
			c.proxy.CutAll()
		case n < 7:
			m := faultproxy.Match{Ops: writes, Skip: w.rnd.IntN(3), Times: 1 + w.rnd.IntN(2)}
			w.note("the answer to a write of %s is lost", c.name)
			c.proxy.CutAfter(m)
		case n < 8:
			w.note("a request of %s is lost", c.name)
			c.proxy.CutBefore(faultproxy.Match{Skip: w.rnd.IntN(3)})
		case n < 10:
			w.note("%s hears nothing for %v", c.name, last)
			c.proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
			time.AfterFunc(last, func() { c.proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass) })
		case n < 12:
			w.note("%s is cut off for %v", c.name, last)
			c.proxy.SetFlows(faultproxy.Stall)
			time.AfterFunc(last, func() { c.proxy.SetFlows(faultproxy.Pass) })
		case n < 14:
			if s, err := c.Session(gone); err == nil && w.expires {
				w.note("the session of %s expires", c.name)
				w.work.Go(func() { w.srv.ExpireSession(s.ID()) })
			}
		case n < 16:
			d := time.Duration(w.rnd.Int64N(int64(lagMax)))
			w.note("%s lags by %v", f.Name, d)
			f.SetLag(d)
			time.AfterFunc(last, func() { f.SetLag(lag) })
		case n < 17:
			w.note("%s loses its leader for %v", f.Name, last)
			f.SetCut(replica.Follower)
			time.AfterFunc(last, func() { f.SetCut(replica.Whole) })
		default:
			if w.vandal != nil {
				w.vandal()
			}
		}
	}
	time.Sleep(2 * timeout) // what mends itself has done so
	w.note("calm")
	for _, c := range w.clients {
		c.proxy.SetFlows(faultproxy.Pass)
		c.proxy.Refuse(false)
	}
	for _, f := range w.followers {
		f.SetLag(lag)
	}
	time.Sleep(calm)
	synctest.Wait()
}

var writes = []wire.Op{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpSetData, wire.OpDelete, wire.OpMulti}

// gone is a context that has ended: calls with it do not wait.
var gone = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// get returns the data of a committed znode.
func (w *world) get(path string) (data string, stat zk.Stat, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, stat, code := w.tree.Get(nil, path)
	return string(b), stat, code == zk.OK
}

// below returns the names of the committed children of a znode.
func (w *world) below(path string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	kids, _, code := w.tree.Children(nil, path)
	if code != zk.OK {
		return nil
	}
	var names []string
	for name := range kids.Names() {
		names = append(names, name)
	}
	return names
}

// remove deletes a znode as another client.
func (w *world) remove(path string) {
	err := w.other.Delete(w.ctx, path, zk.AnyVersion)
	if err == nil {
		w.note("another client deletes %s", path)
	} else if !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNotEmpty) {
		w.note("another client cannot delete %s: %v", path, err)
	}
}
