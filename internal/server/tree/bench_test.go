package tree

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A benchTree is a tree and the way of a request through it: decide, apply, forget.
type benchTree struct {
	tree *Tree
	d    *Draft
	r    Request
	out  Outcome
}

func newBenchTree(digests bool) *benchTree {
	tr := New(digests)
	return &benchTree{tree: tr, d: NewDraft(tr, Options{}), r: Request{Session: 1, Time: 1700000000000}}
}

func (s *benchTree) op(b *testing.B, op *wire.MultiOp) string {
	s.r.Zxid++
	tx := s.d.Op(&s.r, op)
	s.tree.Apply(&tx, &s.out)
	s.d.Reset()
	if s.out.Err != zk.OK {
		b.Fatalf("%v %s: %v", op.Op, op.Path, s.out.Err)
	}
	return s.out.Path
}

// fill makes n children of 100 bytes in one directory.
func (s *benchTree) fill(b *testing.B, n int) {
	s.op(b, &wire.MultiOp{Op: wire.OpCreate, Path: "/dir", ACL: zk.OpenACL()})
	data := make([]byte, 100)
	for i := range n {
		s.op(b, &wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprintf("/dir/n%07d", i), Data: data, ACL: zk.OpenACL()})
	}
}

func BenchmarkCreateDelete(b *testing.B) {
	for _, digests := range []bool{true, false} {
		for _, siblings := range []int{0, 100000} {
			b.Run(fmt.Sprintf("digests=%v/siblings=%d", digests, siblings), func(b *testing.B) {
				s := newBenchTree(digests)
				s.fill(b, siblings)
				create := wire.MultiOp{Op: wire.OpCreate, Path: "/dir/lock-", Data: make([]byte, 40), ACL: zk.OpenACL(), Mode: zk.EphemeralSequential}
				remove := wire.MultiOp{Op: wire.OpDelete, Version: -1}
				b.ReportAllocs()
				for b.Loop() {
					remove.Path = s.op(b, &create)
					s.op(b, &remove)
				}
			})
		}
	}
}

func BenchmarkSet(b *testing.B) {
	s := newBenchTree(true)
	s.fill(b, 1000)
	set := wire.MultiOp{Op: wire.OpSetData, Path: "/dir/n0000500", Data: make([]byte, 100), Version: -1}
	b.ReportAllocs()
	for b.Loop() {
		s.op(b, &set)
	}
}

func BenchmarkGet(b *testing.B) {
	s := newBenchTree(true)
	s.fill(b, 100000)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, code := s.tree.Get(nil, "/dir/n0050000"); code != zk.OK {
			b.Fatal(code)
		}
	}
}

func BenchmarkChildren(b *testing.B) {
	for _, n := range []int{10, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newBenchTree(true)
			s.fill(b, n)
			b.ReportAllocs()
			for b.Loop() {
				kids, stat, _ := s.tree.Children(nil, "/dir")
				left := stat.NumChildren
				for range kids.Names() {
					left--
				}
				if left != 0 || int(stat.NumChildren) != n {
					b.Fatal(stat.NumChildren, left)
				}
			}
		})
	}
}

// BenchmarkBatch decides and applies 100 creates and deletes at a time.
func BenchmarkBatch(b *testing.B) {
	s := newBenchTree(true)
	s.fill(b, 1000)
	ops := make([]wire.MultiOp, 100)
	for i := range ops {
		path := fmt.Sprintf("/dir/b%d", i/2)
		ops[i] = wire.MultiOp{Op: wire.OpCreate, Path: path, ACL: zk.OpenACL(), Mode: zk.Ephemeral}
		if i%2 == 1 {
			ops[i] = wire.MultiOp{Op: wire.OpDelete, Path: path, Version: -1}
		}
	}
	txns := make([]txn.Txn, len(ops))
	b.ReportAllocs()
	for b.Loop() {
		for i := range ops {
			s.r.Zxid++
			txns[i] = s.d.Op(&s.r, &ops[i])
		}
		for i := range txns {
			s.tree.Apply(&txns[i], &s.out)
		}
		s.d.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ops)), "ns/request")
}

// BenchmarkMillion measures what a million znodes of 100 bytes cost in memory, data included.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		before := heapInUse()
		s := newBenchTree(true)
		s.fill(b, n)
		after := heapInUse()
		b.ReportMetric(float64(after-before)/n, "bytes/znode")
		runtime.KeepAlive(s)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/create")
}

func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkSnapshot(b *testing.B) {
	const n = 100000
	s := newBenchTree(true)
	s.fill(b, n)
	var nodes []txn.Node
	b.ReportAllocs()
	for b.Loop() {
		c := s.tree.Snapshot()
		for {
			nodes = c.Next(nodes[:0], 256)
			if len(nodes) == 0 {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/znode")
}
