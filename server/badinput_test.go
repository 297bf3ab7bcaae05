package server

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

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

// Requests behind a failed authentication are not carried out: the client may believe that it has authenticated.
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
func TestGarbageHarmsNoOtherClient(t *testing.T) {
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
