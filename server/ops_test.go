package server

import (
	"encoding/hex"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestPingIsAnsweredWithItsOwnXid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t).connect("c")
		for _, xid := range []int32{-2, 5, 0, -1} {
			p.raw(frameOf(xid, wire.OpPing, nil))
			if a := p.receive(); a.Xid != wire.XidPing || a.Err != zk.OK || a.Zxid != 1 || len(a.body) != 0 {
				t.Errorf("ping with xid %d: answer %+v, want xid -2 and zxid 1", xid, a)
			}
		}
	})
}

func TestShapesOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ExtendedTypes = true })
		p := r.connect("c")
		for _, c := range []struct {
			name string
			op   wire.Op
			q    wire.Record
			code zk.Code
			size int // of the record
		}{
			{"create", wire.OpCreate, createReq("/a", zk.Persistent), zk.OK, 6},
			{"create2", wire.OpCreate2, createReq("/b", zk.Persistent), zk.OK, 6 + 68},
			{"container", wire.OpCreateContainer, createReq("/c", zk.Container), zk.OK, 6 + 68},
			{"ttl", wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: *createReq("/d", zk.PersistentTTL), TTL: 1000}, zk.OK, 6 + 68},
			{"ttl without a ttl mode", wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: *createReq("/e", zk.Persistent), TTL: -1}, zk.ErrBadArguments, 0},
			{"bad flags", wire.OpCreate, createReq("/e", 7), zk.ErrBadArguments, 0},
			{"again", wire.OpCreate, createReq("/a", zk.Persistent), zk.ErrNodeExists, 0},
			{"set", wire.OpSetData, &wire.SetDataRequest{Path: "/a", Version: -1}, zk.OK, 68},
			{"setACL", wire.OpSetACL, &wire.SetACLRequest{Path: "/a", ACL: zk.OpenACL(), Version: -1}, zk.OK, 68},
			{"setACL with too many", wire.OpSetACL, &wire.SetACLRequest{Path: "/a", ACL: make([]zk.ACL, tree.ACLEntriesMax+1), Version: -1}, zk.ErrInvalidACL, 0},
			{"exists", wire.OpExists, &wire.WatchRequest{Path: "/a"}, zk.OK, 68},
			{"get", wire.OpGetData, &wire.WatchRequest{Path: "/b"}, zk.OK, 5 + 68},
			{"get null", wire.OpGetData, &wire.WatchRequest{Path: "/a"}, zk.OK, 4 + 68},
			{"getACL", wire.OpGetACL, &wire.PathRecord{Path: "/a"}, zk.OK, 4 + 4 + 9 + 10 + 68},
			{"children", wire.OpGetChildren, &wire.WatchRequest{Path: "/a"}, zk.OK, 4},
			{"children2", wire.OpGetChildren2, &wire.WatchRequest{Path: "/a"}, zk.OK, 4 + 68},
			{"delete", wire.OpDelete, &wire.VersionRequest{Path: "/a", Version: -1}, zk.OK, 0},
			{"sync anything", wire.OpSync, &wire.PathRecord{Path: "no path"}, zk.OK, 4 + 7},
			{"all children", wire.OpAllChildrenCount, &wire.PathRecord{Path: "/"}, zk.OK, 4},
			{"ephemerals", wire.OpGetEphemerals, &wire.PrefixRequest{}, zk.OK, 4},
			{"reconfig", wire.OpReconfig, &wire.ReconfigRequest{}, zk.ErrReconfigDisabled, 0},
			{"addWatch", wire.OpAddWatch, &wire.AddWatchRequest{Path: "/x"}, zk.OK, 4},
			{"addWatch of a bad mode", wire.OpAddWatch, &wire.AddWatchRequest{Path: "/x", Mode: 2}, zk.ErrMarshalling, 0},
			{"checkWatches", wire.OpCheckWatches, &wire.WatchKindRequest{Path: "/x", Kind: zk.WatchPersistent}, zk.OK, 0},
			{"removeWatches", wire.OpRemoveWatches, &wire.WatchKindRequest{Path: "/x", Kind: zk.WatchAny}, zk.OK, 0},
			{"removeWatches again", wire.OpRemoveWatches, &wire.WatchKindRequest{Path: "/x", Kind: zk.WatchAny}, zk.ErrNoWatcher, 0},
			{"removeWatches of a bad kind", wire.OpRemoveWatches, &wire.WatchKindRequest{Path: "/x", Kind: 9}, zk.ErrMarshalling, 0},
		} {
			xid := p.send(c.op, c.q)
			if a := p.receive(); a.Xid != xid || a.Err != c.code || len(a.body) != c.size {
				t.Errorf("%s: answer %+v, want %v and %d bytes", c.name, a, c.code, c.size)
			}
		}
	})
}

// Apache ZooKeeper answers so where reconfigEnabled is set. kazoo does not know zk.ErrReconfigDisabled.
func TestReconfigEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ReconfigEnabled = true })
		p := r.connect("c")
		if code := p.call(wire.OpReconfig, &wire.ReconfigRequest{}, nil); code != zk.ErrUnimplemented {
			t.Errorf("reconfig answered with %v, want %v", code, zk.ErrUnimplemented)
		}
		p.ping()
	})
}

// kazoo sends "auth" with a null for the id.
func TestAuthInAnACLNeedsNoID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.raw(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("bob:pw")}))
		if a := p.receive(); a.Err != zk.OK {
			t.Fatal(a.Err)
		}
		b, at := wire.BeginFrame(nil)
		b = (&wire.RequestHeader{Xid: 1, Op: wire.OpCreate}).AppendTo(b)
		b = wire.AppendBuffer(wire.AppendString(b, "/n"), nil)
		b = wire.AppendString(wire.AppendInt32(wire.AppendInt32(b, 1), int32(zk.PermAll)), "auth")
		b = wire.AppendInt32(wire.AppendInt32(b, -1), 0)
		p.raw(wire.EndFrame(b, at))
		if a := p.receive(); a.Err != zk.OK {
			t.Fatalf("create answered with %v", a.Err)
		}
		var got wire.ACLResponse
		if code := p.call(wire.OpGetACL, &wire.PathRecord{Path: "/n"}, &got); code != zk.OK || len(got.ACL) != 1 || got.ACL[0].ID != zk.DigestID("bob:pw") {
			t.Errorf("getACL answers %v, %v; want the digest of bob", got.ACL, code)
		}
	})
}

func TestFailedWritesTakeTheirPlaceInTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		last := int64(1)
		if r.Zxid() != last { // the session
			t.Fatalf("zxid %d after one session, want 1", r.Zxid())
		}
		for _, c := range []struct {
			op wire.Op
			q  wire.Record
		}{
			{wire.OpDelete, &wire.VersionRequest{Path: "/none"}},
			{wire.OpMulti, &wire.MultiRequest{}},
			{wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCheck, Path: "/none"}}}},
			{wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpGetData, Path: "/"}}}},
			{wire.OpSetData, nil},
			{wire.OpReconfig, &wire.ReconfigRequest{}},
			{wire.OpCreateTTL, &wire.CreateTTLRequest{CreateRequest: *createReq("/t", zk.PersistentTTL), TTL: 5}},
		} {
			last++
			p.call(c.op, c.q, nil)
			if p.lastZxid != last {
				t.Errorf("%v: answered with zxid %d, want %d", c.op, p.lastZxid, last)
			}
		}
		p.call(wire.OpSync, &wire.PathRecord{}, nil)
		if p.lastZxid != last {
			t.Errorf("sync took a zxid")
		}
		r.reopen(r.fs)
		if r.Zxid() != last {
			t.Errorf("after a restart the last zxid is %d, want %d: error transactions are logged", r.Zxid(), last)
		}
	})
}

func TestMultiResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t).connect("c")
		ops := []wire.MultiOp{
			{Op: wire.OpCreate, Path: "/a", ACL: zk.OpenACL()},
			{Op: wire.OpCreate2, Path: "/a/b", ACL: zk.OpenACL()},
			{Op: wire.OpSetData, Path: "/a/b", Data: []byte("new"), Version: 0},
			{Op: wire.OpCheck, Path: "/a/b", Version: 1},
			{Op: wire.OpCreateContainer, Path: "/c", ACL: zk.OpenACL(), Mode: zk.Container},
			{Op: wire.OpDelete, Path: "/a/b", Version: 1},
		}
		var a wire.MultiResponse
		if code := p.call(wire.OpMulti, &wire.MultiRequest{Ops: ops}, &a); code != zk.OK || len(a.Results) != len(ops) {
			t.Fatalf("multi: %v, %+v", code, a)
		}
		for i, want := range []wire.Op{wire.OpCreate, wire.OpCreate2, wire.OpSetData, wire.OpCheck, wire.OpCreate2, wire.OpDelete} {
			res := a.Results[i]
			if res.Op != want || res.Err != zk.OK {
				t.Errorf("result %d: %+v, want one of type %d", i, res, want)
			}
			if res.Stat.Mzxid != 0 && res.Stat.Mzxid != p.lastZxid {
				t.Errorf("result %d: zxid %d, want that of the answer, %d", i, res.Stat.Mzxid, p.lastZxid)
			}
		}

		ops = []wire.MultiOp{
			{Op: wire.OpCreate, Path: "/d", ACL: zk.OpenACL()},
			{Op: wire.OpSetData, Path: "/none", Version: -1},
			{Op: wire.OpDelete, Path: "/d", Version: -1},
		}
		xid := p.send(wire.OpMulti, &wire.MultiRequest{Ops: ops})
		raw := p.receive()
		want := "ffffffff0000000000" + "00000000" + "ffffffff00ffffff9b" + "ffffff9b" + "ffffffff00fffffffe" + "fffffffe" + "ffffffff01ffffffff"
		if raw.Xid != xid || raw.Err != zk.OK || hex.EncodeToString(raw.body) != want {
			t.Errorf("failed multi: %+v\nbody %x\nwant %s", raw.ReplyHeader, raw.body, want)
		}
		if p.exists("/d") {
			t.Error("part of a failed multi was carried out")
		}

		a = wire.MultiResponse{}
		p.call(wire.OpMultiRead, &wire.MultiRequest{Ops: []wire.MultiOp{
			{Op: wire.OpGetChildren, Path: "/"}, {Op: wire.OpGetData, Path: "/none"}, {Op: wire.OpGetData, Path: "/c"},
		}}, &a)
		if got := []zk.Code{a.Results[0].Err, a.Results[1].Err, a.Results[2].Err}; !slices.Equal(got, []zk.Code{zk.OK, zk.ErrNoNode, zk.OK}) {
			t.Errorf("multiRead: codes %v", got)
		}
		for _, c := range []struct {
			op  wire.Op
			ops []wire.MultiOp
		}{
			{wire.OpMultiRead, []wire.MultiOp{{Op: wire.OpDelete, Path: "/a"}}},
			{wire.OpMulti, []wire.MultiOp{{Op: wire.OpDelete, Path: "/a"}, {Op: wire.OpGetData, Path: "/"}}},
			{wire.OpMulti, []wire.MultiOp{{Op: wire.OpCreate, Path: "/q", Mode: 9, ACL: zk.OpenACL()}}},
		} {
			if code := p.call(c.op, &wire.MultiRequest{Ops: c.ops}, nil); code != zk.ErrMarshalling {
				t.Errorf("%v of %+v: %v, want %v", c.op, c.ops, code, zk.ErrMarshalling)
			}
		}
	})
}

func TestAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.SuperDigest = zk.DigestID("super:secret") })
		auth := func(p *peer, scheme, credential string) answer {
			p.raw(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: scheme, Auth: []byte(credential)}))
			return p.receive()
		}
		a := r.connect("a")
		if got := auth(a, "digest", "bob:pw"); got.Xid != wire.XidAuth || got.Zxid != 0 || got.Err != zk.OK {
			t.Errorf("answer to auth: %+v", got)
		}
		q := createReq("/sec", zk.Persistent)
		q.ACL = zk.CreatorACL()
		a.call(wire.OpCreate, q, nil)
		var acl wire.ACLResponse
		a.call(wire.OpGetACL, &wire.PathRecord{Path: "/sec"}, &acl)
		if want := zk.DigestACL(zk.PermAll, "bob", "pw"); !reflect.DeepEqual(acl.ACL, want) {
			t.Errorf("ACL %v, want %v", acl.ACL, want)
		}
		var who wire.WhoAmIResponse
		a.call(wire.OpWhoAmI, nil, &who)
		if want := []wire.Identity{{Scheme: "ip", ID: "a"}, {Scheme: "digest", ID: "bob"}}; !slices.Equal(who.Identities, want) {
			t.Errorf("whoAmI: %v, want %v", who.Identities, want)
		}

		b := r.connect("b")
		get := &wire.WatchRequest{Path: "/sec"}
		if code := b.call(wire.OpGetData, get, nil); code != zk.ErrNoAuth {
			t.Errorf("read by a stranger: %v", code)
		}
		// The name of super without its password, and the password under another name, open nothing.
		for _, credential := range []string{"super:guess", "super:", "other:secret"} {
			impostor := r.connect("i")
			auth(impostor, "digest", credential)
			if code := impostor.call(wire.OpGetData, get, nil); code != zk.ErrNoAuth {
				t.Errorf("read with %s: %v, want %v", credential, code, zk.ErrNoAuth)
			}
		}
		// Identities come in their turn, also in the middle of a burst.
		burst := frameOf(1, wire.OpSetData, &wire.SetDataRequest{Path: "/sec", Version: -1})
		burst = append(burst, frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("super:secret")})...)
		burst = append(burst, frameOf(2, wire.OpSetData, &wire.SetDataRequest{Path: "/sec", Version: -1})...)
		b.raw(burst)
		for i, want := range []zk.Code{zk.ErrNoAuth, zk.OK, zk.OK} {
			if got := b.receive(); got.Err != want {
				t.Errorf("answer %d of the burst: %v, want %v", i, got.Err, want)
			}
		}
		// They go with the connection.
		resumed := r.resume(b)
		resumed.send(wire.OpGetData, get)
		resumed.wantClosed()

		for _, busy := range []bool{false, true} {
			c := r.connect("c")
			var burst []byte
			if busy {
				burst = frameOf(1, wire.OpSync, &wire.PathRecord{})
			}
			burst = append(burst, frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "kerberos"})...)
			burst = append(burst, frameOf(2, wire.OpCreate, createReq("/behind", zk.Persistent))...)
			c.raw(burst)
			if busy {
				c.receive()
			}
			if got := c.receive(); got.Xid != wire.XidAuth || got.Err != zk.ErrAuthFailed {
				t.Errorf("failed auth: %+v", got)
			}
			c.wantClosed()
			if !c.resumable(r) {
				t.Error("a failed auth cost the session")
			}
		}
		if r.connect("d").exists("/behind") {
			t.Error("a request behind a failed auth was carried out")
		}
		d := r.connect("d")
		if code := d.call(wire.OpSASL, &wire.TokenRecord{}, nil); code != zk.ErrAuthFailed {
			t.Errorf("sasl: %v", code)
		}
		d.wantClosed()
	})
}

func (p *peer) resumable(r *rig) bool { return r.resume(p).session == p.session }

func TestEventsNeedTheRightToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		owner, stranger := r.connect("o"), r.connect("s")
		owner.raw(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte("o:o")}))
		owner.receive()
		for _, p := range []*peer{owner, stranger} {
			p.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/", Mode: wire.AddWatchPersistentRecursive}, nil)
		}
		q := createReq("/sec", zk.Persistent)
		q.ACL = zk.CreatorACL()
		owner.send(wire.OpCreate, q)
		owner.wantEvent(zk.NodeCreated, "/sec")
		stranger.wantSilence(time.Second)
	})
}

func TestSetWatchesCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		w, a := r.connect("w"), r.connect("a")
		for _, path := range []string{"/data", "/deleted", "/same", "/child"} {
			w.create(path, zk.Persistent)
		}
		seen := w.lastZxid
		a.nc.Close()
		set := func(path string) {
			w.call(wire.OpSetData, &wire.SetDataRequest{Path: path, Version: -1}, nil)
		}
		set("/data")
		w.call(wire.OpDelete, &wire.VersionRequest{Path: "/deleted", Version: -1}, nil)
		w.create("/created", zk.Persistent)
		w.create("/child/x", zk.Persistent)

		b := r.resume(a)
		b.raw(frameOf(wire.XidSetWatches, wire.OpSetWatches, &wire.SetWatchesRequest{
			RelativeZxid: seen,
			Data:         []string{"/data", "/deleted", "/same"},
			Exist:        []string{"/created", "/absent"},
			Child:        []string{"/child", "/same"},
		}))
		got := map[string]zk.EventType{}
		for {
			a := b.receive()
			if a.Xid == wire.XidSetWatches {
				break
			}
			if a.Xid != wire.XidEvent || a.Zxid != -1 {
				t.Errorf("received %+v before the answer", a)
			}
			got[a.event.Path] = a.event.Type
		}
		want := map[string]zk.EventType{
			"/data": zk.NodeDataChanged, "/deleted": zk.NodeDeleted, "/created": zk.NodeCreated, "/child": zk.NodeChildrenChanged,
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("caught up with %v, want %v", got, want)
		}
		// Nothing had happened to these: they are armed again.
		set("/data")
		set("/same")
		b.wantEvent(zk.NodeDataChanged, "/same")
		w.create("/absent", zk.Persistent)
		b.wantEvent(zk.NodeCreated, "/absent")
		w.create("/same/x", zk.Persistent)
		b.wantEvent(zk.NodeChildrenChanged, "/same")
	})
}

func TestWatchesGoWithTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.WatchesMax = 3 })
		a := r.connect("a")
		watch := &wire.WatchRequest{Path: "/", Watch: true}
		a.call(wire.OpGetData, watch, nil)
		a.call(wire.OpGetChildren, watch, nil)
		watch = &wire.WatchRequest{Path: "/none", Watch: true}
		if code := a.call(wire.OpGetData, watch, nil); code != zk.ErrNoNode || r.Stats().Watches != 2 {
			t.Errorf("get of a missing znode: %v, %d watches, want no new one", code, r.Stats().Watches)
		}
		if code := a.call(wire.OpExists, watch, nil); code != zk.ErrNoNode || r.Stats().Watches != 3 {
			t.Errorf("exists of a missing znode: %v, %d watches, want a new one", code, r.Stats().Watches)
		}
		if code := a.call(wire.OpExists, &wire.WatchRequest{Path: "/q", Watch: true}, nil); code != zk.ErrThrottled {
			t.Errorf("one watch more than allowed: %v", code)
		}
		b := r.resume(a)
		if n := r.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left when the session has a new connection", n)
		}
		b.call(wire.OpExists, watch, nil)
		b.nc.Close()
		synctest.Wait()
		if n := r.Stats().Watches; n != 0 {
			t.Errorf("%d watches are left when the connection is gone", n)
		}
	})
}

// A read that waits behind a write, on a connection that has gone meanwhile, leaves no watch.
func TestAReadOfADeadConnectionLeavesNoWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		a := r.connect("a")
		release := r.stall()
		defer release()
		a.send(wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1})
		synctest.Wait()
		a.send(wire.OpExists, &wire.WatchRequest{Path: "/n", Watch: true})
		synctest.Wait()
		a.nc.Close()
		time.Sleep(2 * lingerTimeout)
		release()
		synctest.Wait()
		if n := r.Stats().Watches; n != 0 {
			t.Errorf("%d watches of a connection that is gone", n)
		}
	})
}

// Super is known by the whole digest, not by its name. An empty digest, as where none is set, makes no client super.
func TestSuperNeedsItsPassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		digest := zk.DigestID("super:secret")
		r := start(t, func(o *Options) { o.SuperDigest = digest })
		r.connect("owner").call(wire.OpCreate, &wire.CreateRequest{Path: "/closed", ACL: zk.DigestACL(zk.PermAll, "bob", "pw")}, nil)
		read := func(credential string, want zk.Code) {
			t.Helper()
			p := r.connect("c")
			p.authenticate(credential)
			if code := p.call(wire.OpGetData, &wire.WatchRequest{Path: "/closed"}, nil); code != want {
				t.Errorf("with the credential %q: %v, want %v", credential, code, want)
			}
		}
		for _, credential := range []string{"super:guess", "super:", "super", "", digest, "super:secret ", "Super:secret", "super:SECRET", "x:secret"} {
			read(credential, zk.ErrNoAuth)
		}
		read("super:secret", zk.OK)
		r.opts.SuperDigest = ""
		r.reopen(r.fs)
		for _, credential := range []string{"super:secret", "super:", ""} {
			read(credential, zk.ErrNoAuth)
		}
	})
}
