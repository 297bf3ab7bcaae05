package cache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A version that shares pieces with the one before differs from it as one does that shares none.
func TestDifferenceOfVersionsThatSharePieces(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	zxid := int64(0)
	var c *chunks
	for round := range 60 {
		before := c
		e := c.edit()
		for range rnd.IntN(1 + 40*(round%20)) {
			path := fmt.Sprintf("/x/%04d", rnd.IntN(3000))
			was := e.get(path)
			zxid++
			switch n := (&Node{Path: path, Stat: zk.Stat{Czxid: zxid, Mzxid: zxid}}); {
			case was == nil && rnd.IntN(4) > 0 || was != nil && rnd.IntN(8) == 0:
				e.set(n)
			case was != nil && rnd.IntN(2) == 0:
				n.Stat.Czxid = was.Stat.Czxid
				e.set(n)
			default:
				e.remove(path)
			}
		}
		c = e.done()
		for _, v := range [][2]*chunks{{before, c}, {c, before}, {nil, c}, {c, nil}, {c, c}} {
			got, want := difference(v[0], v[1]), difference(bulk(slices.Collect(v[0].from(""))), v[1])
			if !slices.EqualFunc(got, want, func(a, b Change) bool {
				return a.Kind == b.Kind && a.Node.Path == b.Node.Path && a.Node.Stat == b.Node.Stat && a.Old.Stat == b.Old.Stat
			}) {
				t.Fatalf("round %d: %v, want %v", round, got, want)
			}
		}
	}
}

// What it takes to find the one change between two versions of 100,000 znodes.
func BenchmarkDifference(b *testing.B) {
	var nodes []*Node
	for i := range 100_000 {
		nodes = append(nodes, &Node{Path: fmt.Sprintf("/x/%06d", i), Stat: zk.Stat{Czxid: int64(i + 1), Mzxid: int64(i + 1)}})
	}
	before := bulk(nodes)
	e := before.edit()
	e.set(&Node{Path: "/x/050000", Stat: zk.Stat{Czxid: 50_001, Mzxid: 200_000}})
	after := e.done()
	for b.Loop() {
		if n := len(difference(before, after)); n != 1 {
			b.Fatalf("%d changes", n)
		}
	}
}
