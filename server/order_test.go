package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestAnswersComeInTheOrderOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := start(t)
		p := r.connect("c")
		p.create("/n", zk.Persistent)
		const n = 3000
		type expectation struct {
			xid     int32
			op      wire.Op
			version int32
		}
		var burst []byte
		var want []expectation
		version := int32(0)
		for i := range int32(n) {
			e := expectation{xid: i + 1}
			var q wire.Record
			switch rnd.IntN(8) {
			case 0, 1:
				e.op, q = wire.OpSetData, &wire.SetDataRequest{Path: "/n", Data: []byte("d"), Version: -1}
				version++
			case 2:
				e.op, q = wire.OpSync, &wire.PathRecord{Path: "/n"}
			case 3:
				e.xid, e.op = wire.XidPing, wire.OpPing
			case 4:
				e.xid, e.op, q = wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: fmt.Append(nil, "u:", i%50)}
			default:
				e.op, q = wire.OpExists, &wire.WatchRequest{Path: "/n"}
			}
			e.version = version
			want = append(want, e)
			burst = append(burst, frameOf(e.xid, e.op, q)...)
		}
		go func() { // in pieces of any size
			for rest := burst; len(rest) > 0; {
				k := min(len(rest), 1+rnd.IntN(5000))
				if _, err := p.nc.Write(rest[:k]); err != nil {
					t.Error(err)
				}
				rest = rest[k:]
			}
		}()
		for i, e := range want {
			a := p.receive()
			if a.Xid != e.xid || a.Err != zk.OK {
				t.Fatalf("seed %d: answer %d is %+v, want one to %v with xid %d", seed, i, a.ReplyHeader, e.op, e.xid)
			}
			if e.op != wire.OpExists && e.op != wire.OpSetData {
				continue
			}
			var st wire.StatResponse
			wire.Unmarshal(a.body, &st)
			if st.Stat.Version != e.version {
				t.Fatalf("seed %d: answer %d, to %v, shows version %d, want %d: reads take their turn between writes", seed, i, e.op, st.Stat.Version, e.version)
			}
		}
	})
}

func TestEventsComeBeforeWhatReflectsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		writer, reader := r.connect("w"), r.connect("r")
		writer.create("/n", zk.Persistent)

		// Before the answer to one's own write.
		writer.call(wire.OpGetData, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		xid := writer.send(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1})
		writer.wantEvent(zk.NodeDataChanged, "/n")
		if a := writer.receive(); a.Xid != xid {
			t.Errorf("received %+v, want the answer to the write", a)
		}

		// Before any read that shows the write of another client.
		const rounds = 300
		go func() {
			for range rounds {
				writer.nc.Write(frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1}))
			}
		}()
		reader.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/n"}, nil)
		var told int64 // newest event
		var st wire.StatResponse
		for st.Stat.Version < rounds+1 {
			reader.raw(frameOf(9, wire.OpExists, &wire.WatchRequest{Path: "/n"}))
			for {
				a := reader.receive()
				if a.Xid == wire.XidEvent {
					told = a.Zxid
					continue
				}
				wire.Unmarshal(a.body, &st)
				if st.Stat.Mzxid > told && told > 0 {
					t.Fatalf("read a change of zxid %d, and was told only of %d", st.Stat.Mzxid, told)
				}
				break
			}
		}
	})
}

func TestNothingIsShownBeforeItIsSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		w, other := r.connect("w"), r.connect("r")
		other.call(wire.OpExists, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		release := r.stall()
		defer release()
		w.send(wire.OpCreate, createReq("/n", zk.Persistent))
		w.wantSilence(5 * time.Second)
		if other.exists("/n") {
			t.Error("a reader sees what is not on disk")
		}
		other.ping()
		release()
		other.wantEvent(zk.NodeCreated, "/n")
		w.answerTo(w.xid, nil)
	})
}

func TestWritesGatherWhileTheDiskIsBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		first, p := r.connect("first"), r.connect("w")
		var syncs int
		gate := make(chan struct{})
		r.fs.SetFault(func(op vfs.Op, path string, _ int64) error {
			if op == vfs.OpDatasync {
				syncs++
				<-gate
			}
			return nil
		})
		first.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		before := syncs
		const n = 100
		for range n {
			p.send(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1})
		}
		synctest.Wait()
		close(gate)
		first.receive()
		for range n {
			p.receive()
		}
		if syncs != before+1 {
			t.Errorf("%d writes that waited together took %d syncs, want one", n, syncs-before)
		}
	})
}

func TestFailedDiskAcknowledgesNothing(t *testing.T) {
	for _, op := range []vfs.Op{vfs.OpDatasync, vfs.OpWrite} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				p, reader := r.connect("c"), r.connect("r")
				p.create("/before", zk.Persistent)
				reader.call(wire.OpExists, &wire.WatchRequest{Path: "/after", Watch: true}, nil)
				r.fs.SetFault(func(o vfs.Op, path string, _ int64) error {
					if o == op {
						return fmt.Errorf("no space")
					}
					return nil
				})
				p.send(wire.OpCreate, createReq("/after", zk.Persistent))
				p.wantClosed()
				reader.wantClosed()
				<-r.Done()
				if err := r.Err(); err == nil || err == ErrClosed {
					t.Errorf("Err() = %v, want what the disk said", err)
				}
				if err := r.Close(); err == nil {
					t.Error("Close() = nil after a failure of the disk")
				}
				r.fs = r.fs.KillClone()
				r.open()
				if !r.connect("c").exists("/before") {
					t.Error("what was acknowledged is lost")
				}
			})
		})
	}
}

// Clients match answers by order: what comes behind a write that the disk has failed must not be answered either, in the
// moment that passes before all connections are cut.
func TestNothingIsAnsweredBehindAWriteThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.create("/n", zk.Persistent)
		failure, behind := errors.New("no space"), frameOf(9, wire.OpGetData, &wire.WatchRequest{Path: "/n"})
		r.once.Do(func() {}) // the moment lasts until the test is over
		defer func() {
			r.err = failure
			close(r.ending)
		}()
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op != vfs.OpDatasync {
				return nil
			}
			p.nc.Write(behind)
			return failure
		})
		p.send(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1})
		p.wantClosed()
	})
}

func TestManyClientsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.SnapCount = 100 })
		r.connect("root").create("/d", zk.Persistent)
		var wg sync.WaitGroup
		const clients, each = 10, 50
		for i := range clients {
			p := r.connect(fmt.Sprint("c", i))
			wg.Go(func() {
				for range each {
					p.create("/d/n-", zk.EphemeralSequential)
					p.children("/d")
				}
			})
		}
		wg.Wait()
		p := r.connect("judge")
		if n := len(p.children("/d")); n != clients*each {
			t.Errorf("%d znodes, want %d", n, clients*each)
		}
	})
}

// An answer to a ping must not be ahead of an event that its client has not been sent: a client that takes the zxid for what
// it has seen asks for no earlier events when it reconnects.
func TestPingsAreNotAheadOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, w := r.connect("writer"), r.connect("watcher")
		w.call(wire.OpExists, &wire.WatchRequest{Path: "/n", Watch: true}, nil)
		before := r.lastZxid.Load()
		r.sessions.Lock()
		owner := r.sessions.table.Owner(w.session)
		r.sessions.Unlock()
		out := r.connection(owner).out
		out.mu.Lock() // so that the event cannot be queued
		p.send(wire.OpCreate, createReq("/n", zk.Persistent))
		for stuck := 0; stuck < 1000; runtime.Gosched() {
			if r.state.TryRLock() {
				r.state.RUnlock()
				stuck = 0
			} else {
				stuck++
			}
		}
		if got := r.lastZxid.Load(); got != before {
			t.Errorf("pings are answered with zxid %d before the event of it is queued, want %d", got, before)
		}
		out.mu.Unlock()
		w.wantEvent(zk.NodeCreated, "/n")
		p.answerTo(p.xid, nil)
		if got := r.lastZxid.Load(); got != before+1 {
			t.Errorf("zxid %d behind the event, want %d", got, before+1)
		}
	})
}
