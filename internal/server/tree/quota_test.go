package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// put creates or sets a persistent znode.
func (s *site) put(path, data string) zk.Code {
	op := wire.MultiOp{Op: wire.OpSetData, Path: path, Data: []byte(data), Version: -1}
	if _, ok := s.tree.Lookup(path); !ok {
		op = wire.MultiOp{Op: wire.OpCreate, Path: path, Data: []byte(data), ACL: zk.OpenACL()}
	}
	return s.op(op)
}

// quota makes a quota the way zkCli.sh does: all znodes above it, the limits, an empty usage.
func (s *site) quota(top, text string) {
	s.t.Helper()
	at := quotaRoot
	for name := range strings.SplitSeq(top[1:], "/") {
		at += "/" + name
		s.put(at, "")
	}
	for _, c := range []struct{ name, text string }{{limitName, text}, {statName, "count=0,bytes=0"}} {
		if code := s.put(at+"/"+c.name, c.text); code != zk.OK {
			s.t.Fatalf("quota of %s: %s: %v", top, c.name, code)
		}
	}
}

func (s *site) wantUsage(top, want string) {
	s.t.Helper()
	if got, _, code := s.tree.Get(nil, quotaRoot+top+"/"+statName); string(got) != want || code != zk.OK {
		s.t.Errorf("usage of %s is %q, %v; want %q", top, got, code, want)
	}
}

func TestUsageFollowsTheSubtree(t *testing.T) {
	s := newSite(t, Options{})
	s.put("/a", "12345")
	s.put("/a/b", "12")
	s.put("/ab", "not below")
	s.quota("/a", "count=100,bytes=100")
	s.wantUsage("/a", "count=2,bytes=7")
	before := s.stat(quotaRoot + "/a/" + statName)
	digest, _ := s.tree.Digest()

	s.put("/a/c", "123")
	s.wantUsage("/a", "count=3,bytes=10")
	s.put("/a/b", "")
	s.wantUsage("/a", "count=3,bytes=8")
	s.create("/a/e", zk.Ephemeral)
	s.wantUsage("/a", "count=4,bytes=9")
	s.apply(s.d.CloseSession(s.req()))
	s.wantUsage("/a", "count=3,bytes=8")
	s.put("/ab", "still not below")
	s.wantUsage("/a", "count=3,bytes=8")

	after := s.stat(quotaRoot + "/a/" + statName)
	if after != before {
		t.Errorf("the Stat of the usage became %+v, was %+v", after, before)
	}
	for _, p := range []string{"/a/c"} {
		s.delete(p)
	}
	s.put("/a/b", "12")
	s.put("/ab", "not below")
	if now, _ := s.tree.Digest(); now == digest {
		t.Error("the digest knows nothing of the sets in between") // versions differ
	}
	s.wantUsage("/a", "count=2,bytes=7")

	// Without limits nothing is counted.
	s.delete(quotaRoot + "/a/" + limitName)
	s.put("/a/d", "1")
	s.wantUsage("/a", "count=2,bytes=7")
	// A usage that is created again is counted again, also in vain.
	s.delete(quotaRoot + "/a/" + statName)
	s.quota("/a", "count=1,bytes=-1")
	s.wantUsage("/a", "count=3,bytes=8")
	s.quota("/none", "count=1,bytes=-1")
	s.wantUsage("/none", "count=0,bytes=0")
}

// A usage is counted once in a transaction, at its end, however often that creates it, and not in a replay, which Recount
// ends. Counting takes as long as the subtree is large.
func TestUsageIsCountedOnce(t *testing.T) {
	const stats = quotaRoot + "/a/" + statName
	create := func(path string) txn.Change {
		return txn.Change{Type: wire.OpCreate, Path: path, Data: []byte("new"), ACL: zk.OpenACL()}
	}
	s := newSite(t, Options{})
	for _, path := range []string{"/a", "/a/b", quotaRoot + "/a"} {
		s.put(path, "12")
	}
	var txns []txn.Txn
	multi := func(subs ...txn.Change) {
		tx := txn.Txn{Session: 1, Zxid: s.req().Zxid, Change: txn.Change{Type: wire.OpMulti, Subs: subs}}
		txns = append(txns, tx)
		s.apply(tx)
	}
	remove := txn.Change{Type: wire.OpDelete, Path: stats}
	junk := txn.Change{Type: wire.OpSetData, Path: stats, Data: []byte("junk"), Version: 1}
	start := s.tree.Snapshot().Next(nil, 1000)
	multi(create(stats), remove, create(stats), create("/a/c"))
	s.wantUsage("/a", "count=3,bytes=7")
	multi(remove, create(stats), junk)
	s.wantUsage("/a", "junk")
	multi(remove)
	if len(s.tree.uncounted) != 0 {
		t.Errorf("there is something to count: %v", s.tree.uncounted)
	}
	multi(create(stats), create("/a/d"))
	s.wantUsage("/a", "count=4,bytes=10")

	again := restored(t, start[1:]...)
	for i, want := range []string{"new", "junk", "", "new"} {
		again.apply(txns[i])
		if want != "" {
			again.wantUsage("/a", want)
		}
	}
	again.tree.Recount()
	again.wantUsage("/a", "count=4,bytes=10")
	multi(remove)
	again.apply(txns[len(txns)-1])
	again.apply(txns[0])
	again.wantUsage("/a", "count=4,bytes=10")
}

// Usages of nested subtrees, counted in one walk, are what counting each gives.
func TestNestedSubtreesAreCounted(t *testing.T) {
	seeds(t, 200, func(t *testing.T, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		s := newSite(t, Options{})
		paths := []string{""}
		for i := range 1 + rnd.IntN(40) {
			path := paths[rnd.IntN(len(paths))] + "/" + strings.Repeat([]string{"x", "-"}[rnd.IntN(2)], 1+i)
			s.put(path, strings.Repeat("d", rnd.IntN(5)))
			paths = append(paths, path)
		}
		tops := map[string]struct{}{"/none": {}}
		for range rnd.IntN(10) {
			tops[paths[1+rnd.IntN(len(paths)-1)]] = struct{}{}
		}
		for top := range tops {
			s.quota(top, "count=1")
		}
		s.tree.countUsages(tops)
		for top := range tops {
			var want usage
			for r := range s.tree.below(s.tree.find(top)) {
				want.count++
				want.bytes += int64(s.tree.nodes.At(r).dataLen())
			}
			s.wantUsage(top, string(want.appendTo(nil)))
		}
	})
}

func TestNearestQuotaCounts(t *testing.T) {
	s := newSite(t, Options{})
	s.put("/a", "")
	s.put("/a/b", "")
	s.quota("/a", "count=9")
	s.quota("/a/b", "count=9")
	s.put("/a/b/c", "123")
	s.put("/a/d", "1")
	s.wantUsage("/a", "count=3,bytes=1")
	s.wantUsage("/a/b", "count=2,bytes=3")
}

// A path of thousands of parts costs each change no more than one look at each part. To look up each path above it took
// seconds, in which no other request was carried out.
func TestALongPathIsLookedThroughOnce(t *testing.T) {
	s := newSite(t, Options{})
	for i := range 20 {
		top := fmt.Sprint("/q", i)
		s.put(top, "")
		s.quota(top, "count=9")
	}
	below := "/q7" + strings.Repeat("/a", 300000)
	took := time.Hour
	for i := 0; i < 3 && took > time.Second; i++ { // the machine may be busy
		began := time.Now()
		if top, ok := s.tree.quotaOver(below); !ok || top != "/q7" {
			t.Errorf("the quota over it: %q, %v", top, ok)
		}
		took = time.Since(began)
	}
	if took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// A quota of the root would end Apache ZooKeeper, and is refused. A quota whose usage is missing limits nothing.
func TestQuotasThatCountNothing(t *testing.T) {
	s := newSite(t, Options{EnforceQuota: true})
	for _, name := range []string{limitName, statName} {
		if code := s.put(quotaRoot+"/"+name, "count=0,bytes=0"); code != zk.ErrBadArguments {
			t.Errorf("a quota of the root, %s: %v, want that it is refused", name, code)
		}
	}
	s.put(quotaRoot+"/a", "")
	s.put(quotaRoot+"/a/"+limitName, "count=0,bytes=0=;byteHardLimit=0;countHardLimit=0")
	if code := s.put("/a", "12345"); code != zk.OK {
		t.Error(code)
	}
}

// Precedence as in ZooKeeper: of all errors of a create the quota is the last; in a set it comes
// before the version.
func TestHardLimits(t *testing.T) {
	const text = "count=1,bytes=1=;byteHardLimit=10;countHardLimit=3"
	for _, enforce := range []bool{true, false} {
		s := newSite(t, Options{EnforceQuota: enforce})
		s.put("/a", "12345")
		s.quota("/a", text)
		s.create("/a/e", zk.Ephemeral) // 2 znodes, 6 bytes
		set := func(path, data string, version int32) wire.MultiOp {
			return wire.MultiOp{Op: wire.OpSetData, Path: path, Data: []byte(data), Version: version}
		}
		sized := func(path, data string) wire.MultiOp {
			op := createOp(path, zk.Persistent)
			op.Data = []byte(data)
			return op
		}
		for _, c := range []struct {
			name      string
			op        wire.MultiOp
			want      zk.Code // if enforced
			otherwise zk.Code
		}{
			{"bytes", sized("/a/b", "12345"), zk.ErrQuotaExceeded, zk.OK},
			{"exists before quota", sized("/a/e", "12345"), zk.ErrNodeExists, zk.ErrNodeExists},
			{"ephemeral parent before quota", sized("/a/e/x", "12345"), zk.ErrNoChildrenForEphemerals, zk.ErrNoChildrenForEphemerals},
			{"set, with a wrong version", set("/a/e", "123456", 7), zk.ErrQuotaExceeded, zk.ErrBadVersion},
			{"set to the limit", set("/a/e", "12345", -1), zk.OK, zk.OK},
			{"set beyond it", set("/a/e", "123456", -1), zk.ErrQuotaExceeded, zk.OK},
			{"set of the same length", set("/a", "54321", -1), zk.OK, zk.OK},
			{"set to less", set("/a/e", "1", -1), zk.OK, zk.OK},
		} {
			want := c.want
			if !enforce {
				want = c.otherwise
			}
			if got := s.op(c.op); got != want {
				t.Errorf("enforced %t: %s: %v, want %v", enforce, c.name, got, want)
			}
		}
		if !enforce {
			continue
		}
		s.put("/a/b", "")
		if code := s.put("/a/c", ""); code != zk.ErrQuotaExceeded {
			t.Errorf("a fourth znode: %v", code)
		}
		s.wantUsage("/a", "count=3,bytes=6")
	}
}

// What is pending counts, as often as it is going to happen.
func TestHardLimitInABatch(t *testing.T) {
	s := newSite(t, Options{EnforceQuota: true})
	s.put("/a", "")
	s.quota("/a", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=3")
	try := func(op wire.MultiOp, want zk.Code) {
		t.Helper()
		if tx := s.d.Op(s.req(), &op); tx.Err != want {
			t.Errorf("%v %s: %v, want %v", op.Op, op.Path, tx.Err, want)
		}
	}
	for range 2 {
		tx := s.d.Multi(s.req(), []wire.MultiOp{createOp("/a/1", zk.Persistent), createOp("/a/2", zk.Persistent), createOp("/a/3", zk.Persistent)})
		if !tx.Failed() || tx.Subs[1].Type == wire.OpError || tx.Subs[2].Err != zk.ErrQuotaExceeded {
			t.Fatalf("the multi: %+v", tx)
		}
	}
	try(createOp("/a/1", zk.Persistent), zk.OK)
	try(createOp("/a/2", zk.Ephemeral), zk.OK)
	try(createOp("/a/3", zk.Persistent), zk.ErrQuotaExceeded)
	if e, ok := s.d.Excess(); !ok || e != (Excess{Path: "/a", Hard: true, Limit: 3, Reached: 4}) {
		t.Errorf("Excess() = %+v, %t", e, ok)
	}
	try(deleteOp("/a/1"), zk.OK)
	try(createOp("/a/3", zk.Persistent), zk.OK)
	s.d.Reset()
	if e, ok := s.d.Excess(); ok {
		t.Errorf("after Reset Excess() = %+v", e)
	}
}

func TestSoftLimitIsSpokenOf(t *testing.T) {
	s := newSite(t, Options{EnforceQuota: true})
	s.put("/a", "")
	s.quota("/a", "count=-1,bytes=4")
	op := createOp("/a/b", zk.Persistent)
	op.Data = []byte("12345")
	if tx := s.d.Op(s.req(), &op); tx.Type == wire.OpError {
		t.Error(tx.Err)
	}
	if e, ok := s.d.Excess(); !ok || e != (Excess{Path: "/a", Bytes: true, Limit: 4, Reached: 5}) {
		t.Errorf("Excess() = %+v, %t", e, ok)
	}
}

func TestParseLimits(t *testing.T) {
	for text, want := range map[string]limits{
		"":                {usage{-1, -1}, usage{-1, -1}},
		"count=5,bytes=6": {usage{5, 6}, usage{-1, -1}},
		"count=5,bytes=6=;byteHardLimit=7;countHardLimit=8": {usage{5, 6}, usage{8, 7}},
		"bytes=-1;;,countHardLimit=,x=y,count":              {usage{-1, -1}, usage{-1, -1}},
		strings.Repeat(",", quotaTextMax-7) + "count=5":     {usage{5, -1}, usage{-1, -1}},
		strings.Repeat(",", quotaTextMax-6) + "count=5":     {usage{-1, -1}, usage{-1, -1}},
	} {
		if got := parseLimits(text); got != want {
			t.Errorf("parseLimits(%q) = %+v, want %+v", text, got, want)
		}
	}
}

// Usage kept step by step is what counting gives, through random changes, snapshots and replays.
func TestUsageAgainstCounting(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := newSite(t, Options{})
	paths := []string{"/a", "/a/b", "/a/b/c", "/a/d", "/e", "/e/f"}
	for _, top := range []string{"/a", "/e"} {
		s.quota(top, "count=3,bytes=3")
	}
	var txns []txn.Txn
	snapshot := func() []txn.Node {
		return s.tree.Snapshot().Next(nil, 1000)
	}
	start := snapshot()
	startZxid := s.zxid
	for range 500 {
		path := paths[rnd.IntN(len(paths))]
		op := createOp(path, zk.Mode(rnd.IntN(2)))
		op.Data = make([]byte, rnd.IntN(9))
		switch rnd.IntN(4) {
		case 0:
			op = deleteOp(path)
		case 1:
			op = wire.MultiOp{Op: wire.OpSetData, Path: path, Data: make([]byte, rnd.IntN(9)), Version: -1}
		}
		tx := s.d.Op(s.req(), &op)
		if rnd.IntN(50) == 0 {
			tx = s.d.CloseSession(s.req())
		}
		txns = append(txns, tx)
		s.apply(tx)
		before := dump(s.tree)
		s.tree.Recount()
		if !slices.Equal(before, dump(s.tree)) {
			t.Fatalf("seed %d: after %+v counting gives another usage", seed, tx)
		}
	}
	again := restored(t, start[1:]...)
	again.tree.lastZxid = startZxid
	for i := range txns {
		again.tree.Apply(&txns[i], &again.out)
	}
	again.tree.Recount()
	for _, top := range []string{"/a", "/e"} {
		want, _, _ := s.tree.Get(nil, quotaRoot+top+"/"+statName)
		if got, _, _ := again.tree.Get(nil, quotaRoot+top+"/"+statName); !bytes.Equal(got, want) {
			t.Errorf("seed %d: after a replay the usage of %s is %q, want %q", seed, top, got, want)
		}
	}
}

func BenchmarkSetUnderQuota(b *testing.B) {
	s := newBenchTree(true)
	s.fill(b, 1000)
	for _, p := range []string{quotaRoot + "/dir", quotaRoot + "/dir/" + limitName, quotaRoot + "/dir/" + statName} {
		s.op(b, &wire.MultiOp{Op: wire.OpCreate, Path: p, Data: []byte("count=5,bytes=6"), ACL: zk.OpenACL()})
	}
	set := wire.MultiOp{Op: wire.OpSetData, Path: "/dir/n0000500", Data: make([]byte, 100), Version: -1}
	b.ReportAllocs()
	for b.Loop() {
		s.op(b, &set)
	}
}
