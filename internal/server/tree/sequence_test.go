package tree

import (
	"fmt"
	"math"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestSequentialText(t *testing.T) {
	for _, n := range []int32{0, 1, 9, 10, 123456789, 1234567890, math.MaxInt32, -1, -5, -999999999, -1234567890, math.MinInt32} {
		if got, want := sequential("/a-", n), fmt.Sprintf("/a-%010d", n); got != want {
			t.Errorf("sequential(%d) = %q, want %q", n, got, want)
		}
	}
}

// The counter stops at its end instead of wrapping: there the number is used once for each prefix,
// and after that the same name is refused.
func TestF13_CounterStops(t *testing.T) {
	s := restored(t, txn.Node{Path: "/q", Cversion: math.MaxInt32 - 1, Pzxid: 0})
	if got := s.create("/q/a-", zk.PersistentSequential); got != "/q/a-2147483646" {
		t.Errorf("got %s", got)
	}
	if got := s.create("/q/a-", zk.PersistentSequential); got != "/q/a-2147483647" {
		t.Errorf("got %s", got)
	}
	before := s.stat("/q")
	again := wire.MultiOp{Op: wire.OpCreate, Path: "/q/a-", ACL: zk.OpenACL(), Mode: zk.EphemeralSequential}
	if code := s.op(again); code != zk.ErrNodeExists {
		t.Errorf("the same prefix again: %v", code)
	}
	if got := s.create("/q/b-", zk.PersistentSequential); got != "/q/b-2147483647" {
		t.Errorf("another prefix got %s", got)
	}
	s.create("/q/plain", zk.Persistent)
	after := s.stat("/q")
	if after.Pzxid != before.Pzxid || after.NumChildren != 4 || after.Cversion != before.Cversion-2 {
		t.Errorf("before %+v, after %+v", before, after)
	}

	// Within one batch too: nothing that is pending may push the counter over.
	s = restored(t, txn.Node{Path: "/q", Cversion: math.MaxInt32})
	r := s.req()
	op := wire.MultiOp{Op: wire.OpCreate, Path: "/q/a-", ACL: zk.OpenACL(), Mode: zk.PersistentSequential}
	if tx := s.d.Op(r, &op); tx.Path != "/q/a-2147483647" || tx.ParentCversion != math.MinInt32 {
		t.Errorf("first %+v", tx)
	}
	if tx := s.d.Op(r, &op); tx.Err != zk.ErrNodeExists {
		t.Errorf("second %+v", tx)
	}
}

// A counter that came negative out of old data goes on counting up.
func TestF13_NegativeCounter(t *testing.T) {
	s := restored(t, txn.Node{Path: "/q", Cversion: -3})
	for _, want := range []string{"-000000003", "-000000002", "-000000001", "0000000000", "0000000001"} {
		if got := s.create("/q/a", zk.PersistentSequential); got != "/q/a"+want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The suffix is the parent's count of all creates; deletes do not lower it, and a parent created
// anew starts from zero.
func TestF47_Counter(t *testing.T) {
	s := newSite(t, Options{})
	s.create("/q", zk.Container)
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	want(s.create("/q/a-", zk.EphemeralSequential), "/q/a-0000000000")
	s.create("/q/plain", zk.Persistent)
	want(s.create("/q/b-", zk.PersistentSequential), "/q/b-0000000002")
	s.delete("/q/plain")
	s.delete("/q/b-0000000002")
	want(s.create("/q/a-", zk.PersistentSequential), "/q/a-0000000003")
	s.delete("/q/a-0000000000")
	s.delete("/q/a-0000000003")
	r := s.req()
	r.Session = 0
	if code := s.apply(s.d.DeleteContainer(r, "/q")); code != zk.OK {
		t.Fatalf("reaping: %v", code)
	}
	s.create("/q", zk.Container)
	want(s.create("/q/a-", zk.EphemeralSequential), "/q/a-0000000000")

	// Pending creates count.
	a := wire.MultiOp{Op: wire.OpCreate, Path: "/q/a-", ACL: zk.OpenACL(), Mode: zk.EphemeralSequential}
	want(s.d.Op(s.req(), &a).Path, "/q/a-0000000001")
	want(s.d.Op(s.req(), &a).Path, "/q/a-0000000002")
	tx := s.d.Multi(s.req(), []wire.MultiOp{a, {Op: wire.OpDelete, Path: "/none", Version: -1}})
	if !tx.Failed() {
		t.Fatal("the multi did not fail")
	}
	want(s.d.Op(s.req(), &a).Path, "/q/a-0000000003") // a failed multi uses up no number
}
