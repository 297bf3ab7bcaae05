package tree

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func createOp(path string, mode zk.Mode) wire.MultiOp {
	return wire.MultiOp{Op: wire.OpCreate, Path: path, ACL: zk.OpenACL(), Mode: mode}
}

func deleteOp(path string) wire.MultiOp {
	return wire.MultiOp{Op: wire.OpDelete, Path: path, Version: -1}
}

// A closing session takes along what its earlier requests in the same batch are about to create,
// leaves what they are about to delete, and names nothing twice.
func TestCloseSessionInBatch(t *testing.T) {
	s := newSite(t, Options{})
	for _, p := range []string{"/old", "/gone", "/again", "/passed", "/turned"} {
		s.create(p, zk.Ephemeral)
	}
	other := func() *Request { r := s.req(); r.Session = 2; return r }
	do := func(r *Request, op wire.MultiOp) {
		t.Helper()
		if tx := s.d.Op(r, &op); tx.Type == wire.OpError {
			t.Fatalf("%v %s: %v", op.Op, op.Path, tx.Err)
		}
	}
	do(s.req(), deleteOp("/gone"))
	do(s.req(), deleteOp("/again"))
	do(s.req(), createOp("/new", zk.Ephemeral))
	do(s.req(), createOp("/again", zk.Ephemeral))
	do(s.req(), deleteOp("/new"))
	do(s.req(), createOp("/new", zk.Ephemeral))
	do(other(), deleteOp("/passed"))
	do(other(), createOp("/passed", zk.Ephemeral))
	do(other(), deleteOp("/turned"))
	do(other(), createOp("/turned", zk.Persistent))
	if tx := s.d.Multi(s.req(), []wire.MultiOp{createOp("/never", zk.Ephemeral), deleteOp("/none")}); !tx.Failed() {
		t.Fatal("the multi did not fail")
	}
	tx := s.d.CloseSession(s.req())
	if want := []string{"/old", "/again", "/new"}; !slices.Equal(tx.Paths, want) {
		t.Errorf("closeSession lists %q, want %q", tx.Paths, want)
	}
	for _, op := range []wire.MultiOp{createOp("/late", zk.Persistent), deleteOp("/passed"),
		{Op: wire.OpSetData, Path: "/passed", Version: -1}} {
		if tx := s.d.Op(s.req(), &op); tx.Err != zk.ErrSessionExpired {
			t.Errorf("%v after the close: %v", op.Op, tx.Err)
		}
	}
	if tx := s.d.SetACL(s.req(), &wire.SetACLRequest{Path: "/passed", ACL: zk.OpenACL(), Version: -1}); tx.Err != zk.ErrSessionExpired {
		t.Errorf("setACL after the close: %v", tx.Err)
	}
	if tx := s.d.CloseSession(other()); !slices.Equal(tx.Paths, []string{"/passed"}) {
		t.Errorf("the other's closeSession lists %q", tx.Paths)
	}
	if tx := s.d.CloseSession(&Request{Session: 3}); tx.Paths == nil || len(tx.Paths) != 0 {
		t.Errorf("a session without ephemerals lists %#v, want an empty list", tx.Paths)
	}
}

// The paths of a session's ephemerals are bounded; what a failed multi would have made and what is
// deleted does not count.
func TestEphemeralBytesMax(t *testing.T) {
	const each = len("/n0") + pathOverhead
	s := newSite(t, Options{EphemeralBytesMax: 3 * each})
	s.create("/n0", zk.Ephemeral)
	try := func(path string, want zk.Code) {
		t.Helper()
		op := createOp(path, zk.Ephemeral)
		if tx := s.d.Op(s.req(), &op); tx.Err != want {
			t.Errorf("%s: %v, want %v", path, tx.Err, want)
		}
	}
	for range 2 {
		if tx := s.d.Multi(s.req(), []wire.MultiOp{deleteOp("/n0"), createOp("/n7", zk.Ephemeral),
			createOp("/n8", zk.Ephemeral), createOp("/n9", zk.Ephemeral), deleteOp("/none")}); !tx.Failed() || tx.Subs[3].Type == wire.OpError {
			t.Fatalf("the multi: %+v", tx)
		}
	}
	try("/n1", zk.OK)
	try("/n2", zk.OK)
	try("/n3", zk.ErrQuotaExceeded)
	try("/n3/none", zk.ErrNoNode)
	op := createOp("/free", zk.Persistent)
	if tx := s.d.Op(s.req(), &op); tx.Type == wire.OpError {
		t.Errorf("a persistent node: %v", tx.Err)
	}
	op = deleteOp("/n0")
	s.d.Op(s.req(), &op)
	try("/n3", zk.OK)
	try("/n4", zk.ErrQuotaExceeded)
}

// All parts of a multi see the parts before them and share a zxid; a failed one changes nothing
// and says which part failed.
func TestMulti(t *testing.T) {
	s := newSite(t, Options{ExtendedTypes: true})
	r := s.req()
	create2 := createOp("/p/b-", zk.PersistentSequential)
	create2.Op = wire.OpCreate2
	container := createOp("/c", zk.Container)
	container.Op = wire.OpCreateContainer
	ops := []wire.MultiOp{
		createOp("/p", zk.Persistent), createOp("/p/a-", zk.PersistentSequential), create2, container,
		{Op: wire.OpSetData, Path: "/p", Data: []byte("d"), Version: 0},
		{Op: wire.OpCheck, Path: "/p", Version: 1},
		deleteOp("/p/a-0000000000"),
	}
	s.apply(s.d.Multi(r, ops))
	var types []wire.Op
	for _, m := range s.out.Multi {
		types = append(types, m.Op)
	}
	if want := []wire.Op{wire.OpCreate, wire.OpCreate, wire.OpCreate2, wire.OpCreate2, wire.OpSetData, wire.OpCheck, wire.OpDelete}; !slices.Equal(types, want) {
		t.Fatalf("answered %v, want %v", types, want)
	}
	if m := s.out.Multi[2]; m.Path != "/p/b-0000000001" || m.Stat.Czxid != r.Zxid {
		t.Errorf("create2: %+v", m)
	}
	if m := s.out.Multi[4]; m.Stat.Version != 1 || m.Stat.NumChildren != 2 {
		t.Errorf("set: %+v", m)
	}
	var events []zk.EventType
	for _, e := range s.out.Effects {
		if e.Zxid != r.Zxid {
			t.Errorf("event %+v, want zxid %d", e.Event, r.Zxid)
		}
		events = append(events, e.Type)
	}
	if want := []zk.EventType{1, 4, 1, 4, 1, 4, 1, 4, 3, 2, 4}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}

	before := dump(s.tree)
	ops = []wire.MultiOp{createOp("/q", zk.Persistent), deleteOp("/c"), deleteOp("/none"), createOp("/r", zk.Persistent)}
	tx := s.d.Multi(s.req(), ops)
	if tx.Subs[0].Type != wire.OpCreate || tx.Subs[2].Type != wire.OpError {
		t.Errorf("logged as %+v", tx)
	}
	s.apply(tx)
	var codes []zk.Code
	for _, m := range s.out.Multi {
		if m.Op != wire.OpError {
			t.Errorf("part of a failed multi answered as %v", m.Op)
		}
		codes = append(codes, m.Err)
	}
	if want := []zk.Code{0, 0, zk.ErrNoNode, zk.ErrRuntimeInconsistency}; !slices.Equal(codes, want) {
		t.Errorf("codes %v, want %v", codes, want)
	}
	if !slices.Equal(before, dump(s.tree)) || len(s.out.Effects) != 0 || s.tree.LastZxid() != s.zxid {
		t.Error("a failed multi changed something, or took no zxid")
	}

	if s.apply(s.d.Multi(s.req(), nil)) != zk.OK || len(s.out.Multi) != 0 || s.tree.LastZxid() != s.zxid {
		t.Error("an empty multi is one that succeeds")
	}
}

// Events carry the list that says which sessions may hear of them: the node's, or its parent's.
func TestEffectLists(t *testing.T) {
	s := newSite(t, Options{})
	s.create("/p", zk.Persistent)
	s.setACL("/p", only(zk.PermAll&^zk.PermAdmin))
	s.op(wire.MultiOp{Op: wire.OpCreate, Path: "/p/kid", ACL: only(zk.PermWrite)})
	if s.out.Effects[0].ACL.Entries()[0].Perms != zk.PermWrite || s.out.Effects[1].ACL.Entries()[0].Perms != zk.PermAll&^zk.PermAdmin {
		t.Errorf("create: %+v", s.out.Effects)
	}
	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/p/kid", Version: -1})
	if s.out.Effects[0].ACL.Entries()[0].Perms != zk.PermWrite {
		t.Errorf("set: %+v", s.out.Effects)
	}
	s.delete("/p/kid")
	if s.out.Effects[0].ACL.Entries()[0].Perms != zk.PermWrite || s.out.Effects[1].ACL.Entries()[0].Perms != zk.PermAll&^zk.PermAdmin {
		t.Errorf("delete: %+v", s.out.Effects)
	}
}

// The reaper's candidates are looked at again when their turn comes.
func TestReaping(t *testing.T) {
	const neverUsed = 5000
	s := newSite(t, Options{ExtendedTypes: true, NeverUsed: neverUsed})
	s.create("/never", zk.Container)
	s.create("/used", zk.Container)
	s.delete(s.create("/used/kid", zk.Ephemeral))
	s.create("/busy", zk.Container)
	s.create("/busy/kid", zk.Ephemeral)
	s.create("/plain", zk.Persistent)
	s.op(wire.MultiOp{Op: wire.OpCreateTTL, Path: "/ttl", ACL: zk.OpenACL(), Mode: zk.PersistentTTL, TTL: 1000})
	now := s.zxid * 100
	for _, c := range []struct {
		now, neverUsed int64
		max            int
		want           []string
	}{
		{now, 0, 9, []string{"/used"}},
		{now + 1000, 0, 9, []string{"/used"}},
		{now + 1001, 0, 9, []string{"/used", "/ttl"}},
		{now + 9000, 0, 1, []string{"/used"}},
		{now + 9000, neverUsed, 9, []string{"/never", "/used", "/ttl"}},
		{now + 9000, neverUsed, 0, nil},
	} {
		if got, _ := s.tree.Reaper().Next(c.now, c.neverUsed, 9, c.max); !slices.Equal(got, c.want) {
			t.Errorf("Next(now+%d, %d, 9, %d) = %q, want %q", c.now-now, c.neverUsed, c.max, got, c.want)
		}
	}
	s.zxid = 100
	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/ttl", Version: -1})
	for path, want := range map[string]zk.Code{
		"/none": zk.ErrNoNode, "/busy": zk.ErrNotEmpty, "/plain": zk.ErrBadVersion, "/busy/kid": zk.ErrBadVersion,
		"/ttl": zk.ErrBadVersion, "/used": zk.OK, "/never": zk.OK, "/": zk.ErrBadArguments,
	} {
		r := &Request{Zxid: s.zxid + 1, Time: s.zxid*100 + 100}
		if tx := s.d.DeleteContainer(r, path); tx.Err != want || want == zk.OK && (tx.Type != wire.OpDeleteContainer || tx.Path != path) {
			t.Errorf("DeleteContainer(%s) = %+v, want %v", path, tx, want)
		}
	}
}

// The reaper looks at few znodes at a time, and at none twice: to look at a million containers kept all writes waiting for
// tens of milliseconds, and that for each hundred that were deleted.
func TestReapingGoesInStretches(t *testing.T) {
	s := newSite(t, Options{ExtendedTypes: true})
	busy := func(n int) {
		for range n {
			s.create(fmt.Sprint("/busy", s.zxid), zk.Container)
		}
	}
	used := func(path string) {
		s.create(path, zk.Container)
		s.delete(s.create(path+"/kid", zk.Persistent))
	}
	busy(5)
	used("/a")
	busy(5)
	used("/b")
	used("/c")
	used("/d")
	busy(1)
	s.op(wire.MultiOp{Op: wire.OpCreateTTL, Path: "/ttl", ACL: zk.OpenACL(), Mode: zk.PersistentTTL, TTL: 1})
	r := s.tree.Reaper()
	next := func(wantMore bool, want ...string) {
		t.Helper()
		got, more := r.Next(s.zxid*100+100, 0, 4, 2)
		if more != wantMore || !slices.Equal(got, want) {
			t.Errorf("found %q, more %t; want %q, %t", got, more, want, wantMore)
		}
		for _, path := range got {
			s.delete(path)
		}
	}
	next(true)       // 4 busy ones
	next(true, "/a") // 1 and 2 around it
	next(true, "/b") // behind the other 3
	next(true, "/c", "/d")
	next(false, "/ttl")
	next(false)

	// The one that was looked at last is gone, and another one in its place: the reaper begins again.
	r = s.tree.Reaper()
	next(true)
	used("/e")
	last := s.tree.nodes.At(r.last).name()
	s.delete("/" + last)
	s.create("/plain", zk.Persistent)
	next(true)
	next(true)
	next(false, "/e")
}

func TestEphemeralsPrefix(t *testing.T) {
	s := newSite(t, Options{})
	s.create("/p", zk.Persistent)
	for _, p := range []string{"/p/a", "/p/b", "/q"} {
		s.create(p, zk.Ephemeral)
	}
	for prefix, want := range map[string][]string{
		"": {"/p/a", "/p/b", "/q"}, "/": {"/p/a", "/p/b", "/q"}, "/p": {"/p/a", "/p/b"}, "/p/b": {"/p/b"}, "/x": {},
	} {
		if got := s.tree.Ephemerals(1, prefix); !slices.Equal(got, want) {
			t.Errorf("Ephemerals(1, %q) = %q, want %q", prefix, got, want)
		}
	}
	for _, none := range []int64{0, 2, txn.OwnerContainer, txn.OwnerTTL} {
		if got := s.tree.Ephemerals(none, ""); got == nil || len(got) != 0 {
			t.Errorf("Ephemerals(%x) = %#v", none, got)
		}
	}
}
