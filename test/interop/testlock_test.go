package interop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/test/interop/peer"
	"github.com/lockkeeper/lockkeeper/test/interop/register"
	"github.com/lockkeeper/lockkeeper/zk"
)

// sharing are the makes that heed each other on one path.
var sharing = []peer.Kind{peer.Lockkeeper, peer.Curator, peer.GoZookeeper, peer.KazooCurator}

const (
	tick = 300 * time.Millisecond
	// sessionTimeout is that of sessions that have to live until a test cuts them off: a busy machine may keep a JVM silent for
	// seconds, and a hold ends after two thirds of the timeout.
	sessionTimeout = 6 * time.Second
	crashTimeout   = 4 * time.Second // of peers that crash: a busy machine may keep one that lives from the processor for two seconds
	// patience is how long a test waits for what must happen on a busy machine.
	patience = 30 * time.Second
)

func open(t *testing.T, servers string, o client.Options) *client.Session {
	t.Helper()
	s, err := client.Open(t.Context(), servers, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		s.Close(ctx)
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onBothServers runs f with Apache ZooKeeper and with the server of this project.
// Neither syncs, so that a slow disk ends no session.
func onBothServers(t *testing.T, f func(t *testing.T, addr string)) {
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		f(t, apache.Start(t, apache.Options{Tick: tick}).Addr())
	})
	t.Run("ours", func(t *testing.T) {
		t.Parallel()
		f(t, ours.Start(t, server.Options{TickTime: tick, NoSync: true}).Addr())
	})
}

// A testLock is a lock's directory on a server, with a register to judge those that use it.
type testLock struct {
	t       *testing.T
	servers string
	path    string
	dir     string // where those that wait have a znode each
	reg     *register.Register
	look    *raw
	timeout time.Duration // of the sessions of peers that are started from now on: long, unless one is to crash
	started int
}

func newTestLock(t *testing.T, path, servers, lookAt string) *testLock {
	t.Helper()
	return &testLock{t: t, servers: servers, path: path, dir: path, reg: openRegister(t),
		look: connect(t, lookAt, watcherTimeout, nil), timeout: patience}
}

// newTestSemaphore is newTestLock for a semaphore in Curator's layout.
func newTestSemaphore(t *testing.T, path, servers string) *testLock {
	t.Helper()
	l := newTestLock(t, path, servers, servers)
	l.dir = path + "/locks"
	return l
}

// start starts a peer that is to use the lock.
func (l *testLock) start(k peer.Kind) *peer.Peer {
	l.t.Helper()
	p := l.launch(k)
	p.Expect("ready")
	return p
}

// startAll starts peers side by side.
func (l *testLock) startAll(kinds ...peer.Kind) []*peer.Peer {
	l.t.Helper()
	peers := make([]*peer.Peer, len(kinds))
	for i, k := range kinds {
		peers[i] = l.launch(k)
	}
	for _, p := range peers {
		p.Expect("ready")
	}
	return peers
}

func (l *testLock) launch(k peer.Kind) *peer.Peer {
	l.t.Helper()
	l.started++
	return peer.Launch(l.t, k, peer.Config{Servers: l.servers, Timeout: l.timeout,
		Name: fmt.Sprintf("%d-%s", l.started, k), Register: l.reg.Addr()})
}

// join lets p ask for the mutex and returns when it stands in the queue.
func (l *testLock) join(p *peer.Peer) {
	l.t.Helper()
	l.joinAs(p, peer.Mutex)
}

func (l *testLock) joinAs(p *peer.Peer, as peer.As) {
	l.t.Helper()
	before := len(l.children(l.dir))
	p.Ask(l.path, as)
	l.await(before + 1)
}

// await waits until so many stand in the queue.
func (l *testLock) await(n int) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); len(l.children(l.dir)) != n; {
		if time.Now().After(deadline) {
			l.t.Fatalf("in the queue: %q, want %d", l.children(l.dir), n)
		}
		time.Sleep(time.Millisecond)
	}
}

// busy waits until so many more have come and gone.
func (l *testLock) busy(visits int) {
	l.t.Helper()
	want := len(l.reg.Visits()) + visits
	for end := time.After(time.Minute); len(l.reg.Visits()) < want; {
		_, changed := l.reg.Inside()
		select {
		case <-changed:
		case <-end:
			l.t.Fatalf("the queue stands still: %d visits, waiting for %d", len(l.reg.Visits()), want)
		}
	}
}

// met waits until each of the peers has been inside since that many visits.
func (l *testLock) met(since int, peers ...*peer.Peer) {
	l.t.Helper()
	end := time.After(time.Minute)
	for {
		_, changed := l.reg.Inside()
		missing := map[string]bool{}
		for _, p := range peers {
			missing[p.Name()] = true
		}
		for _, v := range l.reg.Visits()[since:] {
			delete(missing, v.Name)
		}
		if len(missing) == 0 {
			return
		}
		select {
		case <-changed:
		case <-end:
			l.t.Fatalf("not let in within a minute: %v", slices.Sorted(maps.Keys(missing)))
		}
	}
}

// children lists a directory; one that is not there, or has gone because it was empty, has none.
func (l *testLock) children(dir string) []string {
	l.t.Helper()
	l.look.send(wire.OpGetChildren2, &wire.WatchRequest{Path: dir})
	h, body, err := l.look.receive(rawTimeout)
	var resp wire.ChildrenResponse
	if err == nil && h.Err == zk.OK {
		resp.DecodeFrom(body)
		err = body.Err()
	}
	if err != nil || h.Err != zk.OK && h.Err != zk.ErrNoNode {
		l.t.Fatalf("list %s: %v, %v", dir, h.Err, err)
	}
	return resp.Children
}

// empty checks that no znode is left in the directories that stay when those that crashed have expired.
func (l *testLock) empty(dirs ...string) {
	l.t.Helper()
	if len(dirs) == 0 {
		dirs = []string{l.path}
	}
	for _, dir := range dirs {
		var left []string
		deadline := time.Now().Add(max(sessionTimeout, crashTimeout) + 2*tick + 2*time.Second)
		for left = l.children(dir); len(left) > 0 && time.Now().Before(deadline); left = l.children(dir) {
			time.Sleep(10 * time.Millisecond)
		}
		if len(left) > 0 {
			l.t.Errorf("left in %s: %q", dir, left)
		}
	}
}
