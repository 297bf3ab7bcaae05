package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/server"
)

// short returns a context of its own that ends after d; it serves in cleanups, too.
func short(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks that err is target.
func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: %v, want %v", what, err, target)
	}
}

// ours is a server of this project at an address, on a disk that outlives it.
type ours struct {
	t    testing.TB
	net  *memnet.Network
	addr string
	fs   *vfs.Mem
	opt  server.Options
	srv  *server.Server
}

const serverTick = time.Second

// start runs a server of this project.
func start(t testing.TB, n *memnet.Network, addr string) *ours {
	t.Helper()
	return startWith(t, n, addr, server.Options{})
}

func startWith(t testing.TB, n *memnet.Network, addr string, opt server.Options) *ours {
	t.Helper()
	o := &ours{t: t, net: n, addr: addr, fs: vfs.NewMem(), opt: opt}
	o.up()
	t.Cleanup(o.down)
	return o
}

// up starts the server on the disk it has.
func (o *ours) up() {
	o.t.Helper()
	opt := o.opt
	opt = bridge.OnDisk(opt, o.fs)
	opt.DataDir = "/data"
	opt.PreAllocBytes = 64 << 10 // a disk in memory pays for every byte
	if opt.TickTime == 0 {
		opt.TickTime = serverTick
	}
	srv, err := server.Open(opt)
	if err != nil {
		o.t.Fatal(err)
	}
	l, err := o.net.Listen(o.addr)
	if err != nil {
		o.t.Fatal(err)
	}
	o.srv = srv
	go srv.Serve(l)
}

// down stops the server at once; its sessions live on.
func (o *ours) down() {
	if o.srv != nil {
		o.srv.Close()
		o.srv = nil
	}
}

// wipe makes the server forget everything.
func (o *ours) wipe() {
	o.down()
	o.fs = vfs.NewMem()
}

// await waits until the session's state is in phase.
func await(t testing.TB, s *client.Session, phase client.Phase) client.State {
	t.Helper()
	limit := time.After(5 * time.Minute)
	for {
		st, changed := s.State()
		if st.Phase == phase {
			return st
		}
		if st.Phase.Final() {
			t.Fatalf("the session is %v (%v), want %v", st.Phase, st.Cause, phase)
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the session is still %v, want %v", st.Phase, phase)
		}
	}
}

// fired waits until a watch fires.
func fired(t testing.TB, w *client.Watch) {
	t.Helper()
	select {
	case <-w.Done():
	case <-time.After(5 * time.Minute):
		t.Fatal("the watch does not fire")
	}
}

// netConn shortens the signature of dial functions.
type netConn = net.Conn

func contains(s, substr string) bool { return strings.Contains(s, substr) }

// cut breaks the session's connection and waits for the next one. (Waiting for Disconnected first would be
// wrong: a state is a level, and this one may be over before it is looked at.)
func cut(t testing.TB, n *memnet.Network, s *client.Session) client.State {
	t.Helper()
	before, _ := s.State()
	n.Link("", "").Cut()
	limit := time.After(5 * time.Minute)
	for {
		st, changed := s.State()
		if st.Phase == client.Connected && st.Conn > before.Conn {
			return st
		}
		if st.Phase.Final() {
			t.Fatalf("the session is %v (%v), want it to reconnect", st.Phase, st.Cause)
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the session is %v, want it to reconnect", st.Phase)
		}
	}
}
