package server

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// changing makes a directory of n children. Until stop is called, a child is created and another deleted, again and again.
func (p *peer) changing(path string, n int) (stop func()) {
	p.fill(path, n)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := n - 1; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			p.call(wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{ // in this order, so that the znode that is first does not stay where it was
				{Op: wire.OpCreate, Path: fmt.Sprint(path, "/", i+1), ACL: zk.OpenACL()},
				{Op: wire.OpDelete, Path: fmt.Sprint(path, "/", i), Version: -1},
			}}, nil)
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

// manyNames is so many that their list is made in pieces.
const manyNames = 2*pieceNames + 1000

// A list that is made in pieces is that of one moment, of a directory that changes all the time too, and it comes.
func TestAListIsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, w := r.connect("c"), r.connect("w")
		stop := w.changing("/large", manyNames)
		for range 20 {
			var l wire.ChildrenResponse
			if code := p.call(wire.OpGetChildren2, &wire.WatchRequest{Path: "/large"}, &l); code != zk.OK {
				t.Fatal(code)
			}
			slices.Sort(l.Children)
			if len(l.Children) != manyNames || len(slices.Compact(l.Children)) != manyNames || l.Stat.NumChildren != manyNames {
				t.Errorf("%d names and %d counted, want %d", len(l.Children), l.Stat.NumChildren, manyNames)
			}
		}
		stop()
	})
}

// A list made in one piece is whole also if the directory changes after room was made for it.
func TestAListInOnePieceIsWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, w := r.connect("c"), r.connect("w")
		var c *conn
		for _, one := range r.conns.byID {
			if one.session == p.session {
				c = one
			}
		}
		stop := w.changing("/large", manyNames)
		for i := range int32(300) {
			one := turn{c: c, who: c.who, h: wire.ReplyHeader{Xid: i}, granted: math.MaxInt}
			if !one.tryList("/large", false, true, math.MaxInt) {
				t.Fatal("no list came of one piece")
			}
			c.out.flush()
			var l wire.ChildrenResponse
			p.answerTo(i, &l)
			if len(l.Children) != manyNames || l.Stat.NumChildren != manyNames {
				t.Fatalf("list %d: %d names and %d counted, want %d", i, len(l.Children), l.Stat.NumChildren, manyNames)
			}
		}
		stop()
	})
}
