package server

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestAHangingDiskCostsNoSessionWhoseClientKeepsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a, idle, w := r.connect("a"), r.connect("idle"), r.connect("w")
		for _, p := range []*peer{a, idle} {
			p.call(wire.OpCreate, createReq(fmt.Sprintf("/e%x", p.session), zk.Ephemeral), nil)
		}
		release := r.stall()
		defer release()
		w.send(wire.OpCreate, createReq("/n", zk.Persistent))
		a.nc.Close()
		var last *peer
		for range 5 { // its connect requests wait behind the disk, and it gives up each of them
			last = r.dial("a")
			wire.WriteRecord(last.nc, &wire.ConnectRequest{Timeout: 10000, SessionID: a.session, Password: a.password})
			time.Sleep(5 * time.Second)
		}
		release()
		var got wire.ConnectResponse
		wire.Unmarshal(last.frame(), &got)
		if got.SessionID != a.session {
			t.Error("the session is gone though its client was heard of all the time")
		}
		if last.exists(fmt.Sprintf("/e%x", idle.session)) {
			t.Error("a session whose client was silent is there still")
		}
	})
}

// A client that has asked for its session once, and waits for the answer, lives too.
func TestAHangingDiskCostsNoSessionWhoseClientWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a, w := r.connect("a"), r.connect("w")
		a.create("/e", zk.Ephemeral)
		release := r.stall()
		defer release()
		w.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		a.nc.Close()
		again := r.dial("a")
		wire.WriteRecord(again.nc, &wire.ConnectRequest{Timeout: 10000, SessionID: a.session, Password: a.password})
		time.Sleep(3 * a.timeout)
		release()
		var got wire.ConnectResponse
		wire.Unmarshal(again.frame(), &got)
		if got.SessionID != a.session {
			t.Fatal("the session is gone though its client waited for it all the time")
		}
		if !again.exists("/e") {
			t.Error("its ephemeral is gone")
		}
		again.nc.Close()
		time.Sleep(a.timeout + 2*testTick)
		if n := r.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions when all clients have been silent for long", n)
		}
	})
}

// A reader that commits hears nothing meanwhile. Its client must not lose its session for that.
func TestAHangingDiskCostsNoSessionWhoseReaderCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, silent := r.connect("c"), r.connect("silent")
		silent.create("/silent", zk.Ephemeral)
		release := r.stall()
		p.send(wire.OpCreate, createReq("/n", zk.Ephemeral))
		pings := 0
		for begin := time.Now(); time.Since(begin) < 3*p.timeout; time.Sleep(p.timeout / 3) {
			p.raw(frameOf(wire.XidPing, wire.OpPing, nil))
			pings++
		}
		release()
		if code := p.answerTo(p.xid, nil); code != zk.OK {
			t.Fatalf("create: %v", code)
		}
		for range pings {
			p.receive()
		}
		for begin := time.Now(); time.Since(begin) < 2*p.timeout; time.Sleep(p.timeout / 3) {
			p.ping()
		}
		if !p.exists("/n") {
			t.Error("a client that was never silent has lost its session")
		}
		if p.exists("/silent") {
			t.Error("a client that was silent still has its session")
		}
	})
}

// Nor is a client heard while its connection is not read from, because as many of its requests wait as may, or a large
// answer waits for them.
func TestAHangingDiskCostsNoSessionWhoseRequestsWait(t *testing.T) {
	for name, last := range map[string][]byte{
		"for room":           frameOf(9, wire.OpExists, &wire.WatchRequest{Path: "/"}),
		"for a large answer": frameOf(9, wire.OpGetData, &wire.WatchRequest{Path: "/large"}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, func(o *Options) { o.OutstandingMax = 2 })
				w, p, silent := r.connect("w"), r.connect("c"), r.connect("silent")
				w.put("/large", strings.Repeat("x", 2*largeAnswerBytes))
				release := r.stall()
				w.send(wire.OpCreate, createReq("/first", zk.Persistent)) // is committed by its reader
				synctest.Wait()
				silent.send(wire.OpCreate, createReq("/silent", zk.Ephemeral))
				p.send(wire.OpCreate, createReq("/a", zk.Ephemeral))
				p.send(wire.OpCreate, createReq("/b", zk.Ephemeral))
				p.raw(last)
				for range 9 {
					p.raw(frameOf(wire.XidPing, wire.OpPing, nil))
					time.Sleep(p.timeout / 3)
				}
				release()
				for range 2 {
					if a := p.receive(); a.Err != zk.OK {
						t.Fatalf("create: %v", a.Err)
					}
				}
				if a := p.receive(); a.Xid != 9 || a.Err != zk.OK {
					t.Fatalf("the last request: %+v", a.ReplyHeader)
				}
				for range 9 {
					p.receive()
				}
				for range 6 {
					p.ping()
					time.Sleep(p.timeout / 3)
				}
				if !p.exists("/a") || !p.exists("/b") {
					t.Error("a client that was never silent has lost its session")
				}
				if _, ok := r.Sessions()[silent.session]; ok {
					t.Error("a client that was silent still has its session")
				}
			})
		})
	}
}

// The disk hangs until right before the session would expire; then the large answer has to wait for others.
func TestAHangingDiskCostsNoSessionWhoseAnswerWaitsAfterThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		w, p := r.connect("w"), r.connect("c")
		w.put("/large", strings.Repeat("x", 2*largeAnswerBytes))
		release := r.stall()
		w.send(wire.OpCreate, createReq("/first", zk.Persistent)) // is committed by its reader
		synctest.Wait()
		p.send(wire.OpCreate, createReq("/a", zk.Ephemeral))
		p.raw(frameOf(9, wire.OpGetData, &wire.WatchRequest{Path: "/large"}))
		time.Sleep(2 * p.timeout)
		r.sessions.Lock()
		at, _ := r.sessions.table.Expiry(p.session)
		r.sessions.Unlock()
		time.Sleep(at - r.now() - time.Second)
		r.large <- struct{}{}
		release()
		time.Sleep(p.timeout / 4)
		<-r.large
		if a := p.receive(); a.Err != zk.OK {
			t.Fatalf("create: %v", a.Err)
		}
		if a := p.receive(); a.Xid != 9 || a.Err != zk.OK {
			t.Fatalf("the large answer: %+v", a.ReplyHeader)
		}
		if !p.exists("/a") {
			t.Error("the ephemeral is gone")
		}
	})
}
