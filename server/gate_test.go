package server

import (
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

func TestAnAddressThatComesTooFastWaits(t *testing.T) {
	g := newGate(10, 3*time.Second)
	for range 10 {
		if wait, ok := g.enter("a", 1, 0); wait != 0 || !ok {
			t.Fatalf("wait %v, %v within the burst", wait, ok)
		}
	}
	if wait, ok := g.enter("a", 1, 0); wait != 100*time.Millisecond || !ok {
		t.Errorf("wait %v, %v, want a tenth of a second", wait, ok)
	}
	if wait, ok := g.enter("b", 1, 0); wait != 0 || !ok {
		t.Errorf("another address waits %v", wait)
	}
	for range 29 {
		g.enter("a", 1, 0)
	}
	if _, ok := g.enter("a", 1, 0); ok {
		t.Error("a wait longer than a handshake may take")
	}
	if wait, ok := g.enter("a", 1, time.Minute); wait != 0 || !ok {
		t.Errorf("wait %v, %v after a minute of rest", wait, ok)
	}
	for range 1000 {
		g.punish("c", 0)
	}
	if wait, ok := g.enter("c", 1, 0); wait > 3*time.Second || !ok {
		t.Errorf("wait %v, %v after refusals, want at most two seconds and a little", wait, ok)
	}
	if wait, ok := g.enter("", 1000, 0); wait != 0 || !ok {
		t.Error("a Unix socket waits")
	}
}

// Addresses that are not seen any more are forgotten, and too many share one bucket.
func TestAddressesOfTheGateAreBounded(t *testing.T) {
	g := newGate(10, time.Second)
	for i := range 3 * bucketsMax {
		g.enter(fmt.Sprint(i), 1, 0)
	}
	if n := len(g.buckets); n > bucketsMax+1 {
		t.Errorf("%d buckets, want at most %d", n, bucketsMax)
	}
	g.enter("new", 1, time.Minute)
	if n := len(g.buckets); n != 1 {
		t.Errorf("%d buckets after a minute of rest, want that of the address that comes then", n)
	}
}

func TestConnectionsAreCountedByAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"10.1.2.3:99": "10.1.2.3", "[::ffff:10.1.2.3]:99": "10.1.2.3",
		"[2001:db8:1:2:3:4:5:6]:99": "2001:db8:1:2::/64", "[fe80::1%lo]:99": "fe80::/64", "[::1]:1": "::/64",
	} {
		addr, err := net.ResolveTCPAddr("tcp", remote)
		if err != nil {
			t.Fatal(err)
		}
		if got := addressOf(addr); got != want {
			t.Errorf("%s is counted as %s, want %s", remote, got, want)
		}
	}
	if got := addressOf(&net.UnixAddr{Name: "s"}); got != "" {
		t.Errorf("a Unix socket is counted as %s", got)
	}
}

// A flood from one address leaves places for others.
func TestAFloodLeavesPlacesForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectionsMax, o.ConnectionsPerAddressMax = 64, -1 })
		for range 200 {
			if nc, err := r.net.DialAs(t.Context(), "flood", "zk"); err == nil {
				defer nc.Close()
			}
		}
		synctest.Wait()
		for i := range 16 {
			if p := r.connect(fmt.Sprint("other", i%4)); p.session == 0 {
				t.Fatal("no session beside a flood")
			}
		}
	})
}

// Wrong passwords make their own address wait, and no other.
func TestWrongPasswordsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectRateMax = 100 })
		owner := r.connect("owner")
		begin := time.Now()
		const n = 100
		for range n {
			p := r.dial("thief")
			p.handshake(wire.ConnectRequest{Timeout: 10000, SessionID: owner.session, Password: make([]byte, 16)})
			p.nc.Close()
		}
		if took := time.Since(begin); took < 15*time.Second {
			t.Errorf("%d wrong passwords within %v", n, took)
		}
		begin = time.Now()
		r.connect("other")
		if took := time.Since(begin); took > 0 {
			t.Errorf("another address waits %v", took)
		}
	})
}

// Large requests that never become whole make room for those that do.
func TestLargeRequestsHaveABudget(t *testing.T) {
	const budget = 8 << 20
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax, o.LargeRequestBytesMax = -1, budget })
		whole := frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 1<<20-100), Version: -1})
		for i := range 2 * budget / len(whole) {
			p := r.connect(fmt.Sprint("slow", i%10))
			p.nc.Write(whole[:len(whole)-1]) // fails if the session expires while the request waits
		}
		synctest.Wait()
		if used := r.frames.used.Load(); used > budget {
			t.Errorf("%d bytes of requests are being read, at most %d should be", used, budget)
		}
		p := r.connect("honest")
		p.raw(whole)
		if a := p.receive(); a.Xid != 1 {
			t.Errorf("answer %+v", a)
		}
	})
}
