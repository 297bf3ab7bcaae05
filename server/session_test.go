package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestF46_SilentSessionsExpireWithinTimeoutAndTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax = -1 })
		observer := r.connect("observer")
		observer.handshakeTimeout(r, 40*time.Second)
		const n = 200
		heard := make(map[string]time.Time)
		for i := range n {
			p := r.connect("victim")
			path := fmt.Sprintf("/e%d", i)
			p.create(path, zk.Ephemeral)
			time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
			p.ping()
			heard[path] = time.Now()
		}
		r.net.Freeze("victim") // nothing arrives, and no connection ends
		const timeout, step = 10 * time.Second, 10 * time.Millisecond
		for len(heard) > 0 {
			time.Sleep(step)
			left := observer.children("/")
			for path, at := range heard {
				if slices.Contains(left, path[1:]) {
					continue
				}
				if d := time.Since(at); d < timeout || d > timeout+testTick+step {
					t.Errorf("seed %d: %s expired after %v, want %v to %v", seed, path, d, timeout, timeout+testTick)
				}
				delete(heard, path)
			}
		}
	})
}

// handshakeTimeout moves p to a longer timeout by way of another connection.
func (p *peer) handshakeTimeout(r *rig, d time.Duration) {
	q := r.dial("observer")
	q.handshake(wire.ConnectRequest{Timeout: int32(d.Milliseconds()), SessionID: p.session, Password: p.password})
	*p = *q
}

func TestExpiredClientSeesTheEndAndIsToldWhenItComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a, watcher := r.connect("a"), r.connect("w")
		a.create("/e", zk.Ephemeral)
		watcher.call(wire.OpExists, &wire.WatchRequest{Path: "/e", Watch: true}, nil)
		for range 4 {
			time.Sleep(4 * time.Second)
			watcher.raw(frameOf(wire.XidPing, wire.OpPing, nil))
		}
		for {
			a := watcher.receive()
			if a.Xid == wire.XidPing {
				continue
			}
			if a.Xid != wire.XidEvent || a.event.Type != zk.NodeDeleted {
				t.Errorf("received %+v, want the deletion of /e", a)
			}
			break
		}
		a.wantClosed()
		if b := r.resume(a); b.session != 0 || b.timeout != 0 {
			t.Errorf("an expired session was resumed as %x", b.session)
		}
	})
}

func TestAuthIsNoSignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("a")
		for begin := time.Now(); ; time.Sleep(time.Second) {
			if _, err := p.nc.Write(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("a:b")})); err != nil {
				break
			}
			if d := time.Since(begin); d > 20*time.Second {
				t.Fatalf("session of 10 s lives after %v of nothing but auth requests", d)
			}
		}
	})
}

func TestF46_RestartGivesFullTimeoutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a, dead := r.connect("a"), r.connect("dead")
		a.create("/alive", zk.Ephemeral)
		dead.create("/dead", zk.Ephemeral)
		time.Sleep(9 * time.Second)
		r.reopen(r.fs.CrashClone(nil))
		restart := time.Now()
		time.Sleep(9 * time.Second)
		b := r.resume(a)
		if b.session != a.session {
			t.Fatal("a live session did not survive the restart")
		}
		if !b.exists("/dead") {
			t.Error("a session was expired before its full timeout after the restart")
		}
		for b.exists("/dead") {
			time.Sleep(100 * time.Millisecond)
			if d := time.Since(restart); d > 10*time.Second+2*testTick {
				t.Fatalf("a dead session lives on %v after the restart", d)
			}
		}
		if !b.exists("/alive") {
			t.Error("the live session lost its ephemeral")
		}
	})
}

// A client that comes back to a server with a shorter maximum, and does not get the answer that says so, counts on the longer
// timeout still. From its first request on, the shorter one counts.
func TestAShorterTimeoutCountsOnceTheClientKnowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.dial("c")
		p.handshake(wire.ConnectRequest{Timeout: 30000})
		r.opts.MaxSessionTimeout = 2 * testTick
		r.reopen(r.fs)
		for range 2 { // the second time, the shorter one has been granted before
			q := r.resume(p)
			if q.session != p.session || q.timeout != 2*testTick {
				t.Fatalf("resumed session %x with a timeout of %v", q.session, q.timeout)
			}
			time.Sleep(29 * time.Second)
		}
		q := r.resume(p)
		time.Sleep(4 * testTick)
		q.ping()
		time.Sleep(3*testTick + time.Second)
		if n := r.Stats().Sessions; n != 0 {
			t.Error("a session whose client knows the shorter timeout lives on after it")
		}
	})
}

// A client that has come back to a server with a longer minimum counts on that from then on.
func TestF46_ARestartKeepsALongerMinimum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		r.opts.MinSessionTimeout = 2 * p.timeout
		r.reopen(r.fs)
		q := r.resume(p)
		if q.timeout != r.opts.MinSessionTimeout {
			t.Fatalf("granted %v, want %v", q.timeout, r.opts.MinSessionTimeout)
		}
		r.reopen(r.fs)
		time.Sleep(q.timeout)
		if r.resume(q).session != q.session {
			t.Errorf("a session that was granted %v has expired before", q.timeout)
		}
	})
}

// No session expires for its silence while the files are being read, however long that takes.
func TestF46_ASlowStartCostsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		var slow sync.Once
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpRead {
				slow.Do(func() { time.Sleep(time.Minute) })
			}
			return nil
		})
		r.open()
		time.Sleep(p.timeout)
		if r.resume(p).session != p.session {
			t.Error("a session has expired while the server was starting")
		}
	})
}

func TestCloseSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a, b := r.connect("a"), r.connect("b")
		a.create("/e", zk.Ephemeral)
		b.call(wire.OpGetData, &wire.WatchRequest{Path: "/e", Watch: true}, nil)
		burst := frameOf(7, wire.OpCloseSession, nil)
		burst = append(burst, frameOf(8, wire.OpCreate, createReq("/behind", zk.Ephemeral))...)
		burst = append(burst, frameOf(9, wire.OpExists, &wire.WatchRequest{Path: "/"})...)
		a.raw(burst)
		if got := a.receive(); got.Xid != 7 || got.Err != zk.OK || got.Zxid != b.lastZxid+1 {
			t.Errorf("answer to the close: %+v", got)
		}
		a.wantClosed()
		b.wantEvent(zk.NodeDeleted, "/e")
		if b.exists("/behind") {
			t.Error("a request behind the close was carried out")
		}
		if r.resume(a).session != 0 {
			t.Error("a closed session was resumed")
		}
	})
}

// stall makes the disk hang in its next sync, and returns a function that lets it go on.
func (r *rig) stall() (release func()) {
	gate, once := make(chan struct{}), sync.Once{}
	r.fs.SetFault(func(op vfs.Op, path string, _ int64) error {
		if op == vfs.OpDatasync {
			<-gate
		}
		return nil
	})
	return func() { once.Do(func() { close(gate) }) }
}

// When a request has not been carried out because the session is about to end, none behind it is answered.
func TestNothingIsAnsweredBehindWhatWasDropped(t *testing.T) {
	for _, heard := range []bool{false, true} { // of the client, at the same tick
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			p := r.connect("c")
			if heard {
				p.ping()
			}
			r.sessions.Lock()
			r.sessions.table.BeginClose(p.session) // the transaction that closes it is on its way
			r.sessions.Unlock()
			p.send(wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1})
			synctest.Wait()
			p.nc.Write(frameOf(2, wire.OpExists, &wire.WatchRequest{Path: "/"}))
			p.wantClosed()
		})
	}
}

// What counts as a slow sync is an option.
func TestSlowSync(t *testing.T) {
	for limit, want := range map[time.Duration]int64{0: 0, 500 * time.Millisecond: 1, 600 * time.Millisecond: 0} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, func(o *Options) { o.SlowSync = limit })
			c := r.connect("c")
			release := r.stall()
			c.send(wire.OpCreate, createReq("/n", zk.Persistent))
			time.Sleep(500 * time.Millisecond)
			release()
			c.answerTo(c.xid, nil)
			if got := r.Stats().SlowSyncs; got != want {
				t.Errorf("a sync of 500 ms with a limit of %v counts %d times as slow, want %d", limit, got, want)
			}
		})
	}
}

func TestF45_RequestsOfTheOldConnectionAreDroppedOnceTheSessionHasMoved(t *testing.T) {
	parks := map[string]func(t *testing.T, r *rig, old *peer) (unpark func()){
		"on the way to the server": func(t *testing.T, r *rig, old *peer) func() {
			link := r.net.Link("old", "")
			link.Mute(memnet.ToServer)
			old.send(wire.OpCreate, createReq("/parked", zk.Ephemeral))
			return link.Heal
		},
		"in the server, behind the new connection": nil,
	}
	for name, park := range parks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				old := r.connect("old")
				other := r.connect("other")
				var fresh *peer
				if park != nil {
					unpark := park(t, r, old)
					defer unpark()
					fresh = r.resume(old)
					fresh.call(wire.OpSync, &wire.PathRecord{Path: "/"}, nil)
					if fresh.exists("/parked") {
						t.Fatal("carried out before it arrived")
					}
					unpark()
				} else {
					// The disk is busy with another write. The new connection's wish is in
					// the queue, and then comes a request of the old one.
					release := r.stall()
					defer release()
					other.send(wire.OpCreate, createReq("/other", zk.Persistent))
					synctest.Wait()
					fresh = r.dial("fresh")
					wire.WriteRecord(fresh.nc, &wire.ConnectRequest{Timeout: 10000, SessionID: old.session, Password: old.password})
					synctest.Wait()
					old.send(wire.OpCreate, createReq("/parked", zk.Ephemeral))
					synctest.Wait()
					release()
					fresh.frame()
				}
				synctest.Wait()
				if fresh.exists("/parked") {
					t.Error("a request of the old connection was carried out after the new one had the session")
				}
				old.wantClosed()
			})
		})
	}
}

func TestF45_RequestsThatCameFirstAreCarriedOutFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		old, other := r.connect("old"), r.connect("other")
		release := r.stall()
		defer release()
		other.send(wire.OpCreate, createReq("/other", zk.Persistent))
		synctest.Wait()
		old.send(wire.OpCreate, createReq("/e", zk.Ephemeral))
		synctest.Wait()
		fresh := r.dial("fresh")
		wire.WriteRecord(fresh.nc, &wire.ConnectRequest{Timeout: 10000, SessionID: old.session, Password: old.password})
		synctest.Wait()
		release()
		fresh.frame()
		if !fresh.exists("/e") {
			t.Error("when the session had moved, an earlier request was neither carried out nor past")
		}
	})
}

func TestF45_TwoConnectionsFightForASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax = -1 })
		p := r.connect("first")
		p.create("/d", zk.Persistent)
		const rounds = 1000
		mayBe, sure := 0, 0
		for i := range rounds {
			// The loser's create races with the winner's arrival.
			burst := frameOf(int32(i+1), wire.OpCreate, createReq("/d/n-", zk.PersistentSequential))
			if i%2 == 0 {
				p.raw(burst)
			} else {
				go p.nc.Write(burst)
			}
			mayBe++
			q := r.resume(p)
			if q.session != p.session {
				t.Fatalf("round %d: the session is lost", i)
			}
			before := len(q.children("/d"))
			q.create("/d/n-", zk.PersistentSequential)
			sure++
			synctest.Wait()
			if after := len(q.children("/d")); after != before+1 {
				t.Fatalf("round %d: %d children after one create, want %d: a request of the old connection slipped in", i, after, before+1)
			}
			p.nc.Close()
			p = q
		}
		if n := len(p.children("/d")); n < sure || n > sure+mayBe {
			t.Errorf("%d children after %d answered and %d unanswered creates", n, sure, mayBe)
		}
		p.ping()
	})
}

// Sessions that end together, each with as many ephemerals as it may have, are not one batch.
func TestManySessionsEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 11
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax = -1 })
		for i := range n {
			r.connect("c").create(fmt.Sprintf("/%d%s", i, strings.Repeat("x", 1<<20-200)), zk.Ephemeral)
		}
		r.ResetStats()
		time.Sleep(20 * time.Second)
		if st := r.Stats(); st.Sessions != 0 || st.Ephemerals != 0 {
			t.Fatalf("%d sessions and %d ephemerals are left", st.Sessions, st.Ephemerals)
		}
		if most := r.counters.batches.Summary(r.now()).Max; most > batchBytesMax>>20+1 {
			t.Errorf("%d of %d sessions, with an ephemeral of a megabyte each, ended in one batch", most, n)
		}
	})
}

func TestExpireSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		a.create("/e", zk.Ephemeral)
		if !r.ExpireSession(a.session) {
			t.Error("ExpireSession reports that there is no such session")
		}
		a.wantClosed()
		if r.connect("b").exists("/e") {
			t.Error("the ephemeral is there after ExpireSession")
		}
		if r.ExpireSession(a.session) {
			t.Error("ExpireSession reports success for a session that is over")
		}
	})
}

// What a client has sent counts from when its turn comes, not from when the answer before it began to leave.
func TestAClientThatTakesItsTimeKeepsItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.TickTime = 100 * time.Millisecond; o.MaxSessionTimeout = 10 * time.Second })
		p := r.connect("c")
		p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, 1<<20-200), ACL: zk.OpenACL()}, nil)
		var b []byte
		for range 10 {
			b = append(b, frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/big"})...)
		}
		p.raw(b)
		for range 10 {
			time.Sleep(p.timeout * 2 / 3)
			p.receive()
		}
	})
}

// The timeout of a session begins when a request has arrived whole, however slowly it came.
func TestARequestThatArrivesSlowlyCountsFromItsEnd(t *testing.T) {
	for _, op := range []wire.Op{wire.OpSetData, wire.OpExists} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			p := r.connect("c")
			var q wire.Record = &wire.SetDataRequest{Path: "/", Data: make([]byte, 10000), Version: -1}
			if op == wire.OpExists {
				q = &wire.WatchRequest{Path: "/" + strings.Repeat("x", 10000)}
			}
			f := frameOf(1, op, q)
			p.raw(f[:20])
			time.Sleep(p.timeout - time.Second)
			p.raw(f[20:])
			p.receive()
			time.Sleep(p.timeout - time.Second)
			p.ping()
		})
	}
}

// A client whose request waits for the memory that those of others take cannot be heard, and does not lose its session for
// that. Once the memory is there, the request has to arrive within the timeout.
func TestASessionOutlivesTheWaitForARequestsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 1 << 20
		r := start(t, func(o *Options) { o.LargeRequestBytesMax = budget })
		p, half := r.connect("c"), r.connect("half")
		r.frames.add(budget)
		f := frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 2*largeAnswerBytes), Version: -1})
		go p.nc.Write(f)
		half.raw(f[:100])
		time.Sleep(5 * p.timeout)
		r.frames.add(-budget)
		if a := p.receive(); a.Err != zk.OK {
			t.Errorf("the request that had waited: %v", a.Err)
		}
		time.Sleep(p.timeout - time.Second)
		p.ping()
		time.Sleep(2 * testTick)
		if _, ok := r.Sessions()[half.session]; ok {
			t.Error("a session is kept by a request that does not arrive")
		}
	})
}
