// Package clients tests the client against Apache ZooKeeper: one server, and three that are killed, frozen
// and left without a quorum; and the command where that wants TLS and credentials.
package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

const (
	tick = 200 * time.Millisecond
	// timeout leaves two seconds for the way to another server: silence is noticed after two thirds of it.
	timeout = 6 * time.Second
	// patience is how long a test waits for what must happen on a busy machine.
	patience = 30 * time.Second
)

func open(t *testing.T, servers string, o client.Options) *client.Session {
	t.Helper()
	if o.SessionTimeout == 0 {
		o.SessionTimeout = timeout
	}
	s, err := client.Open(within(t, patience), servers, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Close(ctx) // a test may have left it without servers
	})
	return s
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, s *client.Session, path string, mode zk.Mode) client.Created {
	t.Helper()
	c, err := s.Create(within(t, patience), path, nil, mode, nil)
	must(t, err)
	return c
}

func fired(t *testing.T, w *client.Watch) zk.Event {
	t.Helper()
	select {
	case <-w.Done():
	case <-time.After(patience):
		t.Fatal("the watch does not fire")
	}
	ev, _, err := w.Event()
	must(t, err)
	return ev
}

// watchCount asks a server how many watches it keeps.
func watchCount(t *testing.T, srv *apache.Server) (count int) {
	t.Helper()
	out, err := srv.FourLetter("mntr")
	must(t, err)
	for line := range strings.Lines(out) {
		if _, err := fmt.Sscanf(line, "zk_watch_count\t%d", &count); err == nil {
			return count
		}
	}
	t.Fatalf("no zk_watch_count in %q", out)
	return 0
}

// F10, F49: a server that is killed and comes back finds the session and its watches again.
func TestWatchesSurviveARestart(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	s := open(t, srv.Addr(), client.Options{})
	create(t, s, "/n", zk.Persistent)
	held := create(t, s, "/held", zk.Ephemeral)
	_, _, w, err := s.WatchGet(within(t, patience), "/n")
	must(t, err)
	_, _, absent, err := s.WatchExists(within(t, patience), "/absent")
	must(t, err)
	watch, err := s.AddWatch(within(t, patience), "/tree", true)
	must(t, err)
	srv.Restart()
	stat, ok, err := s.Exists(within(t, patience), "/held")
	if !ok || err != nil || stat.Czxid != held.Stat.Czxid {
		t.Errorf("the ephemeral after the restart: %v, %v", ok, err)
	}
	if ev, err := watch.Next(within(t, patience)); err != nil || !ev.Gap {
		t.Errorf("watch after the restart: %+v, %v, want a gap", ev, err)
	}
	_, err = s.Set(within(t, patience), "/n", nil, -1)
	must(t, err)
	create(t, s, "/absent", zk.Persistent)
	create(t, s, "/tree", zk.Persistent)
	if ev := fired(t, w); ev.Type != zk.NodeDataChanged || ev.Path != "/n" {
		t.Errorf("event %+v", ev)
	}
	if ev := fired(t, absent); ev.Type != zk.NodeCreated || ev.Path != "/absent" {
		t.Errorf("event %+v", ev)
	}
	if ev, err := watch.Next(within(t, patience)); err != nil || ev.Type != zk.NodeCreated || ev.Path != "/tree" {
		t.Errorf("watch: %+v, %v", ev, err)
	}
}

// F14: what no caller waits for is removed from the server, persistent watches included.
func TestAbandonedWatchesAreRemoved(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	s := open(t, srv.Addr(), client.Options{})
	create(t, s, "/n", zk.Persistent)
	_, _, data, err := s.WatchGet(within(t, patience), "/n")
	must(t, err)
	_, _, children, err := s.WatchChildren(within(t, patience), "/n")
	must(t, err)
	one, err := s.AddWatch(within(t, patience), "/one", false)
	must(t, err)
	all, err := s.AddWatch(within(t, patience), "/all", true)
	must(t, err)
	if got := watchCount(t, srv); got < 4 {
		t.Errorf("%d watches, want 4 at least", got)
	}
	began := len(srv.Log())
	data.Cancel()
	children.Cancel()
	one.Close()
	all.Close()
	must(t, s.Sync(within(t, patience), "/"))
	if got := watchCount(t, srv); got != 0 {
		t.Errorf("%d watches, want none", got)
	}
	beside, err := s.AddWatch(within(t, patience), "/n", false)
	must(t, err)
	_, _, children, err = s.WatchChildren(within(t, patience), "/n")
	must(t, err)
	beside.Close()
	must(t, s.Sync(within(t, patience), "/"))
	create(t, s, "/n/below", zk.Ephemeral)
	if ev := fired(t, children); ev.Type != zk.NodeChildrenChanged {
		t.Errorf("the watch beside a persistent watch that was closed: %+v", ev)
	}
	if log := string(srv.Log()[began:]); strings.Contains(log, "Exception") { // a removal of a type that the server does not know
		t.Errorf("the server has logged an error:\n%s", log[strings.Index(log, "Exception"):])
	}
}

// F44: a server that has lost its data refuses the session; it ends with an error, in bounded time.
func TestWipedServer(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	s := open(t, srv.Addr(), client.Options{})
	create(t, s, "/n", zk.Persistent)
	srv.Kill()
	must(t, os.RemoveAll(srv.DataDir()+"/version-2"))
	srv.Launch()
	srv.AwaitServing()
	_, _, err := s.Get(within(t, patience), "/n")
	if !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("get: %v, want %v", err, zk.ErrSessionExpired)
	}
}

// F50: credentials hold on every connection; what they protect is out of reach for others.
func TestDigest(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	s := open(t, srv.Addr(), client.Options{Auth: []client.Auth{{Scheme: "digest", Credential: []byte("bob:pw")}}})
	_, err := s.Create(within(t, patience), "/private", []byte("x"), zk.Persistent, zk.CreatorACL())
	must(t, err)
	acl, _, err := s.ACL(within(t, patience), "/private")
	if err != nil || len(acl) != 1 || acl[0].ID != zk.DigestID("bob:pw") {
		t.Errorf("ACL %v, %v", acl, err)
	}
	srv.Restart()
	if data, _, err := s.Get(within(t, patience), "/private"); string(data) != "x" || err != nil {
		t.Errorf("get after the restart: %q, %v", data, err)
	}
	stranger := open(t, srv.Addr(), client.Options{})
	if _, _, err := stranger.Get(within(t, patience), "/private"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a stranger's get: %v, want %v", err, zk.ErrNoAuth)
	}
	if err := stranger.AddAuth(within(t, patience), client.Auth{Scheme: "nonsense"}); !errors.Is(err, zk.ErrAuthFailed) {
		t.Errorf("an unknown scheme: %v, want %v", err, zk.ErrAuthFailed)
	}
	<-stranger.Done()
}

// The largest request that a server takes, and one byte more.
func TestRequestBytesMax(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	s := open(t, srv.Addr(), client.Options{SessionTimeout: patience})
	create(t, s, "/n", zk.Persistent)
	const most = 0xfffff - 8 - 6 - 4 - 4 // less header, path, length and version
	_, err := s.Set(within(t, patience), "/n", make([]byte, most), -1)
	must(t, err)
	var size *client.SizeError
	if _, err := s.Set(within(t, patience), "/n", make([]byte, most+1), -1); !errors.As(err, &size) {
		t.Errorf("set of a byte more: %v", err)
	}
	if c := s.Stats().Connections; c != 1 {
		t.Errorf("%d connections, want 1", c)
	}
}

// The session lives on while each server in turn is killed, the leader too, and again while each is frozen:
// nothing that was acknowledged is lost, and the ephemeral is the same.
func TestEnsembleLosesItsServers(t *testing.T) {
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick, Config: map[string]string{"syncLimit": "5"}})
	s := open(t, e.Connect(), client.Options{})
	held := create(t, s, "/held", zk.Ephemeral)
	create(t, s, "/count", zk.Persistent)
	version := int32(0)
	write := func() {
		t.Helper()
		for {
			stat, err := s.Set(within(t, patience), "/count", nil, version)
			switch {
			case err == nil:
				version = stat.Version
				if version == 0 {
					t.Fatal("version 0 after a set")
				}
				return
			case client.MaybeApplied(err), errors.Is(err, zk.ErrBadVersion):
				if err := s.Sync(within(t, patience), "/"); err != nil {
					t.Fatal(err)
				}
				stat, _, err := s.Exists(within(t, patience), "/count")
				must(t, err)
				if stat.Version < version || stat.Version > version+1 {
					t.Fatalf("version %d, want %d or the next", stat.Version, version)
				}
				version = stat.Version
			default:
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		leader := e.Leader()
		leader.Kill()
		write()
		leader.Launch()
		leader.AwaitServing()
	}
	for _, srv := range e.Servers {
		srv.Freeze()
		write()
		srv.Thaw()
	}
	write()
	stat, ok, err := s.Exists(within(t, patience), "/held")
	if !ok || err != nil || stat.Czxid != held.Stat.Czxid {
		t.Errorf("the ephemeral: %v, %v", ok, err)
	}
}

// F08: without a quorum, calls end with their context. F17: and no age is younger than it may be: writes
// and, soon, everything else go unanswered.
func TestEnsembleWithoutQuorum(t *testing.T) {
	const sessionTimeout = 15 * time.Second // it has to outlast the start of two servers on a busy machine
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick})
	s := open(t, e.Connect(), client.Options{SessionTimeout: sessionTimeout})
	create(t, s, "/held", zk.Ephemeral)
	bridge.Of(s).Vouch(int(client.VouchWrite), 1)
	defer bridge.Of(s).Vouch(int(client.VouchWrite), -1)
	leader := e.Leader()
	leader.Kill()
	follower := e.Servers[0]
	if follower == leader {
		follower = e.Servers[1]
	}
	follower.Kill()
	lost := time.Now()
	for range 3 {
		began := time.Now()
		_, err := s.Set(within(t, 500*time.Millisecond), "/held", nil, -1)
		if took := time.Since(began); took > patience || err == nil {
			t.Errorf("set without a quorum: %v after %v", err, took)
		}
	}
	since := time.Since(lost) // before the age is asked for, which grows
	if age := bridge.Of(s).Lease(int(client.VouchWrite)).Age; age < since {
		t.Errorf("age %v, but there has been no quorum for %v", age, since)
	}
	leader.Launch()
	follower.Launch()
	leader.AwaitServing()
	_, err := s.Set(within(t, patience), "/held", nil, -1)
	must(t, err)
	if age := bridge.Of(s).Lease(int(client.VouchWrite)).Age; age > sessionTimeout {
		t.Errorf("age %v with the quorum back", age)
	}
}
