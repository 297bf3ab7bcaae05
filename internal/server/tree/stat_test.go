package tree

import (
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fresh tree is that of a fresh Apache ZooKeeper, down to the digest.
func TestFresh(t *testing.T) {
	tr := New(true)
	if d, ok := tr.Digest(); !ok || d != (txn.Digest{Version: 2, Tree: 1371985504}) {
		t.Errorf("Digest = %v, %v", d, ok)
	}
	if tr.Count() != 4 {
		t.Errorf("Count = %d, want 4", tr.Count())
	}
	if n, _ := countBelow(tr, nil, "/"); n != 3 {
		t.Errorf("countBelow(/) = %d, want 3", n)
	}
	for path, want := range map[string]zk.Stat{
		"/":                 {Cversion: -1, NumChildren: 1},
		"/zookeeper":        {Cversion: -2, NumChildren: 2},
		"/zookeeper/quota":  {},
		"/zookeeper/config": {Aversion: -1},
	} {
		data, stat, code := tr.Get(nil, path)
		if data == nil || len(data) != 0 || stat != want || code != zk.OK {
			t.Errorf("Get(%s) = %q, %+v, %v, want %+v", path, data, stat, code, want)
		}
	}
	none := New(false)
	if _, ok := none.Digest(); ok {
		t.Error("a tree without digests has one")
	}
	if d, ok := NewDraft(none, Options{}).Digest(); ok || d != (txn.Digest{}) { // the log would have it
		t.Errorf("a draft without digests has %v", d)
	}
}

// What each change does to the stats of the node and its parent.
func TestStatEffects(t *testing.T) {
	s := newSite(t, Options{ExtendedTypes: true})
	s.create("/p", zk.Persistent) // zxid 1
	fresh := zk.Stat{Czxid: 1, Mzxid: 1, Pzxid: 1, Ctime: 100, Mtime: 100, DataLength: 1}
	step := func(what string, want zk.Stat) {
		t.Helper()
		if got := s.stat("/p"); got != want {
			t.Errorf("after %s\n got %+v\nwant %+v", what, got, want)
		}
	}
	want := fresh
	step("create", want)

	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/p", Data: []byte("abc"), Version: -1}) // 2
	want.Mzxid, want.Mtime, want.Version, want.DataLength = 2, 200, 1, 3
	step("set", want)
	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/p", Data: nil, Version: 1}) // 3
	want.Mzxid, want.Mtime, want.Version, want.DataLength = 3, 300, 2, 0
	step("set to null", want)

	s.setACL("/p", only(zk.PermAll&^zk.PermWrite)) // 4
	want.Aversion = 1
	step("setACL", want)

	s.create("/p/kid", zk.Persistent) // 5
	want.Pzxid, want.Cversion, want.NumChildren = 5, 1, 1
	step("create of a child", want)

	s.create("/p/kid/kid", zk.Persistent)                                         // 6
	s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/p/kid", Data: nil, Version: 0}) // 7
	s.setACL("/p/kid", only(zk.PermAll))                                          // 8
	step("changes below", want)

	s.delete("/p/kid/kid") // 9
	s.delete("/p/kid")     // 10
	want.Pzxid, want.Cversion, want.NumChildren = 10, 2, 0
	step("delete of a child", want)

	s.op(wire.MultiOp{Op: wire.OpDelete, Path: "/p/none", Version: -1}) // 11
	step("a failure", want)

	for mode, path := range map[zk.Mode]string{zk.Ephemeral: "/e", zk.Container: "/c"} {
		s.create(path, mode)
	}
	s.op(wire.MultiOp{Op: wire.OpCreateTTL, Path: "/t", ACL: zk.OpenACL(), Mode: zk.PersistentTTL, TTL: 600000})
	for path, owner := range map[string]struct{ shown, stored int64 }{
		"/e": {1, 1}, "/c": {0, -1 << 63}, "/t": {0, -0xfffffffff6d840},
	} {
		if got := s.stat(path).EphemeralOwner; got != owner.shown {
			t.Errorf("%s shows owner %x, want %x", path, got, owner.shown)
		}
		if got := s.tree.nodes.At(s.tree.find(path)).owner; got != owner.stored {
			t.Errorf("%s stores owner %x, want %x", path, got, owner.stored)
		}
	}
}

// The data version passes its end as Java's int does.
func TestVersionWraps(t *testing.T) {
	s := restored(t, txn.Node{Path: "/n", Version: 1<<31 - 1})
	if code := s.op(wire.MultiOp{Op: wire.OpSetData, Path: "/n", Version: 1<<31 - 1}); code != zk.OK || s.out.Stat.Version != -1<<31 {
		t.Errorf("%v, version %d", code, s.out.Stat.Version)
	}
}

// All that a closing session leaves is deleted under one zxid, with the events in order.
func TestCloseSession(t *testing.T) {
	s := newSite(t, Options{})
	s.create("/p", zk.Persistent)
	s.create("/p/a", zk.Ephemeral)
	s.create("/p/b", zk.Ephemeral)
	s.create("/p/keep", zk.Persistent)
	r := s.req()
	s.apply(s.d.CloseSession(r))
	var got []zk.Event
	for _, e := range s.out.Effects {
		got = append(got, e.Event)
	}
	want := []zk.Event{
		{Type: zk.NodeDeleted, Path: "/p/a", Zxid: r.Zxid}, {Type: zk.NodeChildrenChanged, Path: "/p", Zxid: r.Zxid},
		{Type: zk.NodeDeleted, Path: "/p/b", Zxid: r.Zxid}, {Type: zk.NodeChildrenChanged, Path: "/p", Zxid: r.Zxid},
	}
	if !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
	if p := s.stat("/p"); p.Pzxid != r.Zxid || p.NumChildren != 1 || p.Cversion != 5 {
		t.Errorf("parent %+v", p)
	}
}

// A record of closeSession that lists nothing, of a release before 3.6, closes all the same.
func TestCloseSessionWithoutPaths(t *testing.T) {
	s := newSite(t, Options{})
	s.create("/a", zk.Ephemeral)
	s.apply(txn.Txn{Session: 1, Zxid: 9, Change: txn.Change{Type: wire.OpCloseSession}})
	if _, ok := s.tree.Lookup("/a"); ok || s.tree.EphemeralCount() != 0 {
		t.Error("the ephemeral is still there")
	}
}
