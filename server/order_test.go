package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/memnet"
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
			if wire.Unmarshal(a.body, &st); st.Stat.Version != e.version {
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

		// Before any read that shows the write of somebody else.
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
				if wire.Unmarshal(a.body, &st); st.Stat.Mzxid > told && told > 0 {
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

func TestASlowReaderStallsNobodyAndIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 64 << 10
		r := start(t, func(o *Options) { o.OutputBytesMax = limit })
		slow, w := r.connect("slow"), r.connect("w")
		w.create("/n", zk.Persistent)
		slow.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/n"}, nil)
		r.net.Link("slow", "").Mute(memnet.ToClient)
		begin := time.Now()
		for range 6000 { // events of 38 bytes
			if code := w.call(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1}, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		if d := time.Since(begin); d > 0 {
			t.Errorf("a slow reader cost the others %v", d)
		}
		synctest.Wait()
		if n := r.Stats().Connections; n != 1 {
			t.Errorf("%d connections, want only the writer's: the slow one holds more than %d bytes", n, limit)
		}
	})
}

func TestAClientThatReadsNoAnswersIsNotReadFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		slow, w := r.connect("slow"), r.connect("w")
		big := make([]byte, 1<<20-200)
		w.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: big, ACL: zk.OpenACL()}, nil)
		get := frameOf(1, wire.OpGetData, &wire.WatchRequest{Path: "/big"})
		stuck := false
		for range 10000 { // 10 GB of answers
			slow.nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
			if _, err := slow.nc.Write(get); err != nil {
				stuck = true
				break
			}
		}
		if !stuck {
			t.Error("the server goes on reading requests whose answers nobody takes")
		}
		for range 10 {
			w.ping()
			time.Sleep(2 * time.Second)
		}
		if n := r.Stats().Connections; n != 1 {
			t.Errorf("%d connections when the silent client's session has expired, want the other one alone", n)
		}
	})
}

// A client that takes its answers may ask for any number at once, also behind a write.
func TestWhoTakesTheAnswersIsNotCutOff(t *testing.T) {
	get, multiRead := &wire.WatchRequest{Path: "/big"}, &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}}
	for _, c := range []struct {
		reads, behind, bytes int
		op                   wire.Op
		what                 wire.Record
	}{
		{20, 20, 1<<20 - 200, wire.OpGetData, get}, {20, 20, 1<<20 - 200, wire.OpMultiRead, multiRead},
		{5000, 5000, 10 << 10, wire.OpGetData, get}, {5000, 300, 10 << 10, wire.OpGetData, get},
	} {
		t.Run(fmt.Sprintf("%d %v of %d bytes, %d behind a write", c.reads, c.op, c.bytes, c.behind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				busy, p := r.connect("busy"), r.connect("c")
				p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, c.bytes), ACL: zk.OpenACL()}, nil)
				release := r.stall()
				defer release()
				busy.send(wire.OpCreate, createReq("/n", zk.Persistent)) // and its reader commits, or the loop
				synctest.Wait()
				p.raw(frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1}))
				ask := func(from, to int) {
					var b []byte
					for i := from; i < to; i++ {
						b = append(b, frameOf(int32(2+i), c.op, c.what)...)
					}
					go p.nc.Write(b)
					synctest.Wait()
				}
				ask(0, c.behind)
				release()
				ask(c.behind, c.reads)
				for i := range c.reads + 1 {
					if a := p.receive(); a.Xid != int32(1+i) {
						t.Fatalf("answer to %d, want the one to %d", a.Xid, 1+i)
					}
					time.Sleep(time.Millisecond)
				}
			})
		})
	}
}

// So it is with all requests whose answers can be larger than they are, and with answers that are larger than all
// that may wait.
func TestLargeAnswersDoNotCutOff(t *testing.T) {
	const limit = 1 << 20
	long := strings.Repeat("x", 300)
	acl, names := zk.OpenACL(), make([]string, 200)
	for i := range names {
		names[i] = fmt.Sprint("/", i, long)
		acl = append(acl, zk.ACL{Perms: zk.PermRead, Scheme: "digest", ID: fmt.Sprint(i, long, ":hash")})
	}
	small := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpSetData, Path: "/s", Version: -1}}, 4000)}
	missed := wire.SetWatchesRequest{Data: slices.Repeat([]string{"/s"}, 10000), Exist: []string{}, Child: []string{}}
	for _, c := range []struct {
		op   wire.Op
		what wire.Record
		n    int
	}{
		{wire.OpGetChildren, &wire.WatchRequest{Path: "/"}, 30}, {wire.OpGetEphemerals, &wire.PrefixRequest{}, 30},
		{wire.OpGetACL, &wire.PathRecord{Path: "/a"}, 30}, {wire.OpMulti, &small, 6}, {wire.OpSetWatches, &missed, 6},
		{wire.OpGetChildren, &wire.WatchRequest{Path: "/large"}, 4},
	} {
		for _, behind := range []wire.Op{wire.OpSetData, wire.OpExists} {
			t.Run(fmt.Sprintf("%d %v behind %v", c.n, c.op, behind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, func(o *Options) { o.OutputBytesMax = limit })
					busy, p := r.connect("busy"), r.connect("c")
					for _, path := range []string{"/s", "/large"} {
						p.create(path, zk.Persistent)
					}
					p.call(wire.OpCreate, &wire.CreateRequest{Path: "/a", ACL: acl}, nil)
					for _, name := range names {
						p.create(name, zk.Ephemeral)
					}
					for i := range limit / 1000 {
						p.create(fmt.Sprint("/large/", i, strings.Repeat("x", 1000)), zk.Persistent)
					}
					release := r.stall()
					defer release()
					busy.send(wire.OpCreate, createReq("/n", zk.Persistent)) // which commits, or the loop
					synctest.Wait()
					b := frameOf(1, behind, &wire.SetDataRequest{Path: "/", Version: -1})
					for i := range c.n {
						b = append(b, frameOf(int32(2+i), c.op, c.what)...)
					}
					go p.nc.Write(b)
					synctest.Wait()
					release()
					for i := range c.n + 1 {
						if a := p.receiveAnswer(); a.Xid != int32(1+i) || a.Err != zk.OK {
							t.Fatalf("answer to %d, %v, want the one to %d", a.Xid, a.Err, 1+i)
						}
					}
				})
			})
		}
	}
}

func TestAMultiReadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.OutputBytesMax = 4 << 20 })
		p := r.connect("c")
		p.call(wire.OpCreate, &wire.CreateRequest{Path: "/big", Data: make([]byte, 1<<20-200), ACL: zk.OpenACL()}, nil)
		for n, want := range map[int]zk.Code{4: zk.OK, 5: zk.ErrMarshalling} {
			q := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}, n)}
			if code := p.call(wire.OpMultiRead, &q, nil); code != want {
				t.Errorf("a multiRead of %d MiB with a limit of 4 MiB: %v, want %v", n, code, want)
			}
		}
	})
}

func TestOutstandingRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.OutstandingMax = 10 })
		busy, p := r.connect("busy"), r.connect("c")
		release := r.stall()
		defer release()
		busy.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		const n = 5000
		go func() {
			for range n {
				p.nc.Write(frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 100), Version: -1}))
			}
		}()
		synctest.Wait()
		if got := r.Stats().Outstanding; got != 1+10 {
			t.Errorf("%d requests are outstanding, want 10 beside the one on its way to the disk", got)
		}
		release()
		busy.receive()
		for range n {
			p.receive()
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

func TestBadFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.FrameBytesMax = 4096; o.ConnectionsPerAddressMax = -1 })
		for _, length := range []int32{-1, -1 << 31, 0, 1, 7, 4097, 1<<31 - 1} {
			p := r.connect("c")
			p.raw(binary.BigEndian.AppendUint32(nil, uint32(length)))
			if length > 0 && length < 8 {
				p.raw(make([]byte, length))
			}
			p.wantClosed()
		}
		p := r.connect("c")
		q := &wire.SetDataRequest{Path: "/", Version: -1}
		q.Data = make([]byte, 4096-(len(frameOf(1, wire.OpSetData, q))-4))
		if code := p.call(wire.OpSetData, q, nil); code != zk.OK {
			t.Errorf("a frame of exactly the limit: %v", code)
		}
	})
}

// records has a well-formed record of every request that is answered and has one.
var records = map[wire.Op]wire.Record{
	wire.OpCreate:           createReq("/trunc", zk.Persistent),
	wire.OpCreate2:          createReq("/trunc2", zk.Persistent),
	wire.OpCreateContainer:  createReq("/truncc", zk.Container),
	wire.OpCreateTTL:        &wire.CreateTTLRequest{CreateRequest: *createReq("/trunct", zk.PersistentTTL), TTL: 5},
	wire.OpDelete:           &wire.VersionRequest{Path: "/none"},
	wire.OpSetData:          &wire.SetDataRequest{Path: "/", Data: []byte("data")},
	wire.OpSetACL:           &wire.SetACLRequest{Path: "/", ACL: zk.OpenACL()},
	wire.OpMulti:            &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCheck, Path: "/"}}},
	wire.OpExists:           &wire.WatchRequest{Path: "/"},
	wire.OpGetData:          &wire.WatchRequest{Path: "/"},
	wire.OpGetChildren:      &wire.WatchRequest{Path: "/"},
	wire.OpGetChildren2:     &wire.WatchRequest{Path: "/"},
	wire.OpGetACL:           &wire.PathRecord{Path: "/"},
	wire.OpSync:             &wire.PathRecord{Path: "/"},
	wire.OpAllChildrenCount: &wire.PathRecord{Path: "/"},
	wire.OpGetEphemerals:    &wire.PrefixRequest{Prefix: "/"},
	wire.OpMultiRead:        &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpGetData, Path: "/"}}},
	wire.OpSetWatches:       &wire.SetWatchesRequest{Data: []string{"/"}},
	wire.OpAddWatch:         &wire.AddWatchRequest{Path: "/"},
	wire.OpCheckWatches:     &wire.WatchKindRequest{Path: "/", Kind: zk.WatchAny},
	wire.OpRemoveWatches:    &wire.WatchKindRequest{Path: "/", Kind: zk.WatchAny},
	wire.OpReconfig:         &wire.ReconfigRequest{},
	wire.OpAuth:             &wire.AuthRequest{Scheme: "ip"},
}

func TestTruncatedRecordsAreRefusedAndTheConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		for op, rec := range records {
			whole := rec.AppendTo(nil)
			for n := range whole {
				if op == wire.OpAuth {
					break // which ends the connection: see below
				}
				p.xid++
				b, at := wire.BeginFrame(nil)
				h := wire.RequestHeader{Xid: p.xid, Op: op}
				p.raw(wire.EndFrame(append(h.AppendTo(b), whole[:n]...), at))
				a := p.receiveAnswer()
				if a.Xid != p.xid || a.Err != zk.ErrMarshalling || len(a.body) != 0 {
					t.Errorf("%v with %d of %d bytes: answer %+v, want %v alone", op, n, len(whole), a, zk.ErrMarshalling)
				}
			}
			p.xid++
			b, at := wire.BeginFrame(nil)
			h := wire.RequestHeader{Xid: p.xid, Op: op}
			p.raw(wire.EndFrame(append(append(h.AppendTo(b), whole...), 1, 2, 3), at))
			if a := p.receiveAnswer(); a.Err == zk.ErrMarshalling && op != wire.OpSetWatches {
				t.Errorf("%v with bytes behind the record: %v, want them to be ignored", op, a.Err)
			}
		}
	})
}

// Who may believe to have authenticated must not be listened to any further.
func TestAuthThatCannotBeReadEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for name, body := range map[string][]byte{
			"a record that ends early": {0, 0, 0, 0},
			"a null scheme":            {0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 1, 'x'},
			"a null credential":        (&wire.AuthRequest{Scheme: "digest"}).AppendTo(nil),
		} {
			p := r.connect(name)
			b, at := wire.BeginFrame(nil)
			h := wire.RequestHeader{Xid: wire.XidAuth, Op: wire.OpAuth}
			p.raw(wire.EndFrame(append(h.AppendTo(b), body...), at))
			if a := p.receiveAnswer(); a.Err != zk.ErrAuthFailed {
				t.Errorf("%s: %v, want %v", name, a.Err, zk.ErrAuthFailed)
			}
			p.wantClosed()
		}
	})
}

// As in ZooKeeper, a null path is refused as any other wrong one where data or ACL are set, and a
// mode with a time to live where there is no field for one makes a multi impossible to decode.
func TestOddWritesAreRefusedAsZooKeeperRefusesThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ExtendedTypes = true })
		p := r.connect("c")
		null := []byte{255, 255, 255, 255}
		for _, tt := range []struct {
			op   wire.Op
			body []byte
			want zk.Code
		}{
			{wire.OpSetData, append(null, (&wire.SetDataRequest{}).AppendTo(nil)[4:]...), zk.ErrBadArguments},
			{wire.OpSetACL, append(null, (&wire.SetACLRequest{ACL: zk.OpenACL()}).AppendTo(nil)[4:]...), zk.ErrBadArguments},
			{wire.OpMulti, (&wire.MultiRequest{Ops: []wire.MultiOp{
				{Op: wire.OpCreate, Path: "/x", ACL: zk.OpenACL(), Mode: zk.PersistentTTL}}}).AppendTo(nil), zk.ErrMarshalling},
		} {
			p.xid++
			b, at := wire.BeginFrame(nil)
			h := wire.RequestHeader{Xid: p.xid, Op: tt.op}
			p.raw(wire.EndFrame(append(h.AppendTo(b), tt.body...), at))
			if a := p.receiveAnswer(); a.Err != tt.want {
				t.Errorf("%v: %v, want %v", tt.op, a.Err, tt.want)
			}
		}
	})
}

// Whatever arrives, the server answers or hangs up, goes on, and has logged what it can read again.
func TestGarbageHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := start(t, func(o *Options) { o.ConnectionsPerAddressMax = -1; o.ExtendedTypes = true })
		var ops []wire.Op
		for op := range records {
			ops = append(ops, op)
		}
		slices.Sort(ops)
		for range 300 {
			p := r.connect("garbage")
			var burst []byte
			for range 20 {
				op := ops[rnd.IntN(len(ops))]
				body := records[op].AppendTo(nil)
				for range rnd.IntN(4) {
					switch i := rnd.IntN(len(body) + 1); {
					case i == len(body):
						body = body[:rnd.IntN(len(body)+1)]
					case rnd.IntN(2) == 0:
						body[i] = byte(rnd.IntN(256))
					default:
						body[i] ^= 1 << rnd.IntN(8)
					}
					if len(body) == 0 {
						break
					}
				}
				b, at := wire.BeginFrame(nil)
				h := wire.RequestHeader{Xid: int32(rnd.Uint32()), Op: op}
				burst = append(burst, wire.EndFrame(append(h.AppendTo(b), body...), at)...)
			}
			p.raw(burst)
			p.nc.(interface{ CloseWrite() error }).CloseWrite()
			if _, err := io.Copy(io.Discard, p.in); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			p.nc.Close()
		}
		r.connect("judge").ping()
		synctest.Wait()
		before, _ := r.tree.Digest()
		r.reopen(r.fs.CrashClone(nil))
		if after, _ := r.tree.Digest(); after != before {
			t.Errorf("seed %d: digest %x before a restart, %x after it", seed, before.Tree, after.Tree)
		}
	})
}

func TestUnknownRequestsEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for _, op := range []wire.Op{0, -1, 99, 10, wire.OpCheck, wire.OpDeleteContainer, wire.OpCreateSession} {
			for _, busy := range []bool{false, true} {
				p := r.connect("c")
				var burst []byte
				if busy { // behind a write the commit loop has to answer
					burst = frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1})
				}
				burst = append(burst, frameOf(2, op, &wire.VersionRequest{Path: "/"})...)
				burst = append(burst, frameOf(3, wire.OpCreate, createReq("/behind", zk.Persistent))...)
				p.raw(burst)
				if busy {
					p.answerTo(1, nil)
				}
				if a := p.receive(); a.Xid != 2 || a.Err != zk.ErrUnimplemented || a.Zxid != -1 {
					t.Errorf("op %d: answer %+v, want %v with zxid -1", op, a, zk.ErrUnimplemented)
				}
				p.wantClosed()
			}
		}
		if r.connect("c").exists("/behind") {
			t.Error("a request behind an unknown one was carried out")
		}
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
