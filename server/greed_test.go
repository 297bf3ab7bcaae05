package server

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A ping needs no lock that a request holds.
func TestAPingWaitsForNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		synctest.Wait() // the server's own goroutines wait for time to pass now, and not for what is locked here
		r.state.Lock()
		r.large <- struct{}{}
		p.raw(frameOf(wire.XidPing, wire.OpPing, nil))
		synctest.Wait()
		p.nc.SetReadDeadline(time.Now().Add(time.Second))
		if a := p.receive(); a.Xid != wire.XidPing {
			t.Errorf("answer to a ping: %+v", a)
		}
		p.nc.SetReadDeadline(time.Time{})
		<-r.large
		r.state.Unlock()
	})
}

func TestTheFirstFrameIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.dial("stranger")
		p.raw([]byte{0, 0, 2, 1}) // 513 bytes
		p.wantClosed()
		ok := r.dial("client")
		if a := ok.handshake(wire.ConnectRequest{Timeout: 10000, Password: make([]byte, 400)}); a.SessionID == 0 {
			t.Error("a first frame of less than 512 bytes is refused")
		}
	})
}

// Reads of long paths are carried out one at a time, and others do not wait for them.
func TestReadsOfLongPathsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		greedy, other := r.connect("greedy"), r.connect("other")
		long := "/" + strings.Repeat("x", largeAnswerBytes)
		for op, q := range map[wire.Op]wire.Record{
			wire.OpExists: &wire.WatchRequest{Path: long}, wire.OpGetData: &wire.WatchRequest{Path: long, Watch: true},
			wire.OpGetChildren: &wire.WatchRequest{Path: long}, wire.OpGetACL: &wire.PrefixRequest{Prefix: long},
		} {
			r.large <- struct{}{}
			xid := greedy.send(op, q)
			greedy.wantSilence(time.Second)
			began := time.Now()
			if code := other.call(wire.OpExists, &wire.WatchRequest{Path: "/"}, nil); code != zk.OK || time.Since(began) > 0 {
				t.Errorf("another client waits %v, %v", time.Since(began), code)
			}
			<-r.large
			if code := greedy.answerTo(xid, nil); code != zk.ErrNoNode {
				t.Errorf("%v of a long path: %v", op, code)
			}
		}
	})
}

// fill makes a directory with n children.
func (p *peer) fill(path string, n int) {
	p.t.Helper()
	q := wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCreate, Path: path, ACL: zk.OpenACL()}}}
	for i := range n {
		q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprint(path, "/", i), ACL: zk.OpenACL()})
	}
	if code := p.call(wire.OpMulti, &q, nil); code != zk.OK {
		p.t.Fatal(code)
	}
}

func (p *peer) wantCount(path string, want int32) {
	p.t.Helper()
	xid := p.send(wire.OpAllChildrenCount, &wire.PathRecord{Path: path})
	if a := p.receive(); a.Xid != xid || a.Err != zk.OK || wire.NewDecoder(a.body).Int32() != want {
		p.t.Errorf("the count below %s: %+v, want %d", path, a, want)
	}
}

// Large subtrees are counted one at a time, also behind a write, and others do not wait for that.
func TestCountsOfLargeSubtreesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		greedy, other := r.connect("greedy"), r.connect("other")
		other.fill("/large", smallCount+1)
		other.fill("/small", smallCount-1)
		for _, behind := range []bool{false, true} {
			r.large <- struct{}{}
			if behind {
				greedy.send(wire.OpSync, &wire.PathRecord{Path: "/"})
			}
			xid := greedy.send(wire.OpAllChildrenCount, &wire.PathRecord{Path: "/large"})
			if behind {
				greedy.receive()
			}
			greedy.wantSilence(time.Second)
			began := time.Now()
			other.wantCount("/small", smallCount-1)
			if took := time.Since(began); took > 0 {
				t.Errorf("another client waits %v", took)
			}
			<-r.large
			if a := greedy.receive(); a.Xid != xid || a.Err != zk.OK || wire.NewDecoder(a.body).Int32() != smallCount+1 {
				t.Errorf("behind a write %t: %+v", behind, a)
			}
		}
	})
}

// The ephemerals of a session that has many are walked through for one session at a time, though the answer may be empty, and others do
// not wait for that: also behind a write, and behind the one that creates them.
func TestWalksThroughManyEphemeralsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		other := r.connect("other")
		for i, behind := range []string{"nothing", "a sync", "the multi that creates them"} {
			greedy := r.connect("greedy")
			var q wire.MultiRequest
			for k := range 1000 {
				q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprint("/", i, "-", k), ACL: zk.OpenACL(), Mode: zk.Ephemeral})
			}
			made := greedy.send(wire.OpMulti, &q)
			if i < 2 {
				greedy.answerTo(made, nil)
			}
			r.large <- struct{}{}
			if i == 1 {
				greedy.send(wire.OpSync, &wire.PathRecord{Path: "/"})
			}
			xid := greedy.send(wire.OpGetEphemerals, &wire.PrefixRequest{Prefix: "/x"})
			if i > 0 {
				greedy.receive()
			}
			greedy.wantSilence(time.Second)
			began := time.Now()
			if !other.exists("/") || time.Since(began) > 0 {
				t.Errorf("behind %s: another client waits %v", behind, time.Since(began))
			}
			<-r.large
			var got wire.StringsResponse
			if code := greedy.answerTo(xid, &got); code != zk.OK || len(got.Strings) > 0 {
				t.Errorf("behind %s: %v, %d paths", behind, code, len(got.Strings))
			}
		}
	})
}

// What a read costs that neither its request nor the tree tells when it comes is not left to the committer.
func TestReadsOfUnknownCostDoNotWaitInTheQueue(t *testing.T) {
	for op, q := range map[wire.Op]wire.Record{
		wire.OpAllChildrenCount: &wire.PathRecord{Path: "/"}, wire.OpGetEphemerals: &wire.PrefixRequest{Prefix: "/"}, wire.OpWhoAmI: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			busy, p := r.connect("busy"), r.connect("c")
			release := r.stall()
			busy.send(wire.OpSync, &wire.PathRecord{Path: "/"})
			busy.send(wire.OpCreate, createReq("/busy", zk.Persistent))
			synctest.Wait()
			write := p.send(wire.OpCreate, createReq("/n", zk.Ephemeral))
			read := p.send(op, q)
			synctest.Wait()
			if n := r.queue.size(); n != 1 {
				t.Errorf("%v: %d requests in the queue, want the write alone", op, n)
			}
			release()
			if code := p.answerTo(write, nil); code != zk.OK {
				t.Errorf("the write: %v", code)
			}
			if code := p.answerTo(read, nil); code != zk.OK {
				t.Errorf("%v behind it: %v", op, code)
			}
		})
	}
}

// The reads of a batch are limited by what is expected of them, and those under one lock by what they turn out to be: what came before them
// may have changed what they read.
func TestReadsOfABatchAreInPieces(t *testing.T) {
	for _, bytes := range []int{largeAnswerBytes - 10000, largeAnswerBytes + 10000} {
		synctest.Test(t, func(t *testing.T) {
			const expected = largeAnswerBytes
			r := start(t)
			p := r.connect("c")
			p.large("/large", bytes)
			var c *conn
			for _, c = range r.conns.byID {
			}
			synctest.Wait() // there is no committer, and the test takes its place
			body := (&wire.WatchRequest{Path: "/large"}).AppendTo(nil)
			var batch []*request
			for range 2 * batchBytesMax / expected {
				batch = append(batch, &request{conn: c, op: wire.OpGetChildren, body: body, weight: expected})
			}
			batch = r.decideAll(batch)
			if len(batch) != batchBytesMax/expected {
				t.Errorf("%d reads of %d bytes in a batch", len(batch), expected)
			}
			batch = batch[:20]
			for _, r := range batch {
				c.out.count(r.weight)
			}
			for answered := 0; answered < len(batch); {
				n := r.finishSome(batch[answered:])
				if n*bytes > pieceBytes+largeAnswerBytes {
					t.Errorf("%d lists of %d bytes under one lock", n, bytes)
				}
				answered += n
			}
			c.out.flush()
			for range batch {
				if a := p.receive(); a.Err != zk.OK || len(a.body) < bytes*9/10 {
					t.Fatalf("answer %v with %d bytes", a.Err, len(a.body))
				}
			}
		})
	}
}

// A count that is made in pieces is that of one moment: it never shows a half of a multi.
func TestACountIsOfOneMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2*pieceNames + 10
		r := start(t)
		p, w := r.connect("c"), r.connect("w")
		p.fill("/large", n)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 200 {
				w.call(wire.OpMulti, &wire.MultiRequest{Ops: []wire.MultiOp{
					{Op: wire.OpDelete, Path: fmt.Sprint("/large/", i), Version: -1},
					{Op: wire.OpCreate, Path: fmt.Sprint("/large/n", i), ACL: zk.OpenACL()},
				}}, nil)
			}
		}()
		for range 100 {
			p.wantCount("/large", n)
		}
		<-done
	})
}

// The watches of a connection that ends go in pieces, and none is left.
func TestManyWatchesGoInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * pieceReads
		r := start(t)
		p := r.connect("c")
		var q wire.SetWatchesRequest
		for i := range n {
			q.Exist = append(q.Exist, fmt.Sprint("/", i))
		}
		if code := p.call(wire.OpSetWatches, &q, nil); code != zk.OK {
			t.Fatal(code)
		}
		var c *conn
		for _, one := range r.conns.byID {
			c = one
		}
		r.state.Lock()
		r.fence(c)
		if got := r.watches.Count(); got != n-pieceReads {
			t.Errorf("%d watches when the connection is fenced, want %d", got, n-pieceReads)
		}
		r.state.Unlock()
		p.wantClosed()
		p.nc.Close()
		synctest.Wait()
		if got := r.Stats().Watches; got != 0 {
			t.Errorf("%d watches are left", got)
		}
	})
}

// Many connections that end at once, each with many watches, do not lock the state by turns: their watches go one connection
// after the other, as everything that takes long does.
func TestWatchesOfEndedConnectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 3 * pieceReads
		r := start(t)
		other, p := r.connect("other"), r.connect("c")
		var q wire.SetWatchesRequest
		for i := range n {
			q.Exist = append(q.Exist, fmt.Sprint("/", i))
		}
		if code := p.call(wire.OpSetWatches, &q, nil); code != zk.OK {
			t.Fatal(code)
		}
		r.large <- struct{}{}
		p.nc.Close()
		synctest.Wait()
		if got := r.Stats().Watches; got != n-pieceReads {
			t.Errorf("%d watches while something else takes long, want %d", got, n-pieceReads)
		}
		other.create("/1", zk.Persistent) // waits for nothing
		<-r.large
		synctest.Wait()
		if got := r.Stats().Watches; got != 0 {
			t.Errorf("%d watches are left", got)
		}
	})
}

// What follows a wrong first frame is not read, and its address waits before it may open a session.
func TestAWrongFirstFrameCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.ConnectRateMax = 10 })
		p := r.dial("stranger")
		p.raw([]byte{0, 16, 0, 0})
		p.wantClosed()
		if _, err := p.nc.Write(make([]byte, 1<<20)); err == nil {
			t.Error("the server reads what follows a wrong frame")
		}
		for from, want := range map[string]time.Duration{"client": 0, "stranger": time.Second} {
			began := time.Now()
			r.connect(from)
			if took := time.Since(began); took < want || want == 0 && took > 0 {
				t.Errorf("a session of the %s took %v, want %v or a little more", from, took, want)
			}
		}
	})
}

func TestOperationsOfAMultiAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.MultiOpsMax = 300 })
		p := r.connect("c")
		for n, want := range map[int]zk.Code{300: zk.OK, 301: zk.ErrMarshalling} {
			check := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpCheck, Path: "/", Version: -1}}, n)}
			if code := p.call(wire.OpMulti, &check, nil); code != want {
				t.Errorf("multi of %d operations: %v, want %v", n, code, want)
			}
			read := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/"}}, n)}
			if code := p.call(wire.OpMultiRead, &read, nil); code != want {
				t.Errorf("multiRead of %d operations: %v, want %v", n, code, want)
			}
		}
	})
}

// An entry "auth" stands for many. Those of ordinary requests, one in each list, cost what others do.
func TestAuthEntriesAreMuchWork(t *testing.T) {
	list := func(n int) (acl []zk.ACL) {
		for i := range n {
			acl = append(acl, zk.ACL{Perms: zk.PermAll, Scheme: tree.SchemeAuth, ID: fmt.Sprint(i)})
		}
		return append(acl, zk.ReadOnlyACL()...)
	}
	work := func(op wire.Op, r wire.Record) int {
		q := new(request)
		q.op = op
		q.decodeWrite(r.AppendTo(nil), 1000, zk.OK)
		return q.work
	}
	one, many := createReq("/a", zk.Persistent), createReq("/a", zk.Persistent)
	one.ACL, many.ACL = list(1), list(100)
	var ones wire.MultiRequest
	for range 100 {
		ones.Ops = append(ones.Ops, wire.MultiOp{Op: wire.OpCreate, Path: "/a", ACL: list(1)})
	}
	for name, c := range map[string]struct{ got, least, most int }{
		"a create":                 {work(wire.OpCreate, one), 1, 2},
		"a multi":                  {work(wire.OpMulti, &ones), 100, 200},
		"a create with many":       {work(wire.OpCreate, many), 99 * identitiesMax / entriesPerOp, math.MaxInt},
		"a set far down":           {work(wire.OpSetData, &wire.SetDataRequest{Path: strings.Repeat("/a", 100*levelsPerOp)}), 100, 110},
		"a list to set, with many": {work(wire.OpSetACL, &wire.SetACLRequest{Path: "/a", ACL: list(100)}), 99 * identitiesMax / entriesPerOp, math.MaxInt},
	} {
		if c.got < c.least || c.got > c.most {
			t.Errorf("%s is worth %d operations, want %d to %d", name, c.got, c.least, c.most)
		}
	}
}

// A request that has the znodes of a subtree counted is as much work as the tree is large.
func TestCountingUsageIsMuchWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const usage = "/zookeeper/quota/a/zookeeper_stats"
		r := start(t)
		p := r.connect("c")
		p.fill("/large", 2*muchWork*znodesPerOp)
		multi := &wire.MultiRequest{Ops: []wire.MultiOp{{Op: wire.OpCreate, Path: "/a", ACL: zk.OpenACL()}, {Op: wire.OpCreate, Path: usage, ACL: zk.OpenACL()}}}
		for _, c := range []struct {
			op   wire.Op
			rec  wire.Record
			much bool
		}{
			{wire.OpCreate, createReq(usage, zk.Persistent), true},
			{wire.OpMulti, multi, true},
			{wire.OpCreate, createReq(usage[1:], zk.Persistent), false},
			{wire.OpCreate, createReq("/a/zookeeper_stats", zk.Persistent), false},
		} {
			q := &request{conn: &conn{s: r.Server}, op: c.op}
			q.decodeWrite(c.rec.AppendTo(nil), 10, zk.OK)
			if got := q.work > muchWork; got != c.much {
				t.Errorf("%v %+v is worth %d operations", c.op, c.rec, q.work)
			}
		}
	})
}

// Requests that are much work take turns with others, and each connection's stay in order.
func TestMuchWorkTakesTurns(t *testing.T) {
	q := newQueue()
	busy, other := new(conn), new(conn)
	busy.out, other.out = new(output), new(output)
	ask := func(c *conn, xid int32, work int) { q.add(&request{conn: c, xid: xid, work: work}) }
	ask(busy, 1, 1)
	ask(busy, 2, laterWork)
	ask(busy, 3, 1)
	ask(busy, 4, laterWork)
	ask(other, 10, 1)
	var got [][]int32
	take := func() {
		var xids []int32
		items := q.takeInline()
		for _, r := range items {
			xids = append(xids, r.xid)
		}
		got = append(got, xids)
		q.mu.Lock()
		q.committer = none
		q.mu.Unlock()
	}
	take()
	ask(other, 11, 1)
	take()
	ask(busy, 5, 1)
	take()
	take()
	take()
	want := [][]int32{{1, 10}, {2}, {11}, {3}, {4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("taken %v, want %v", got, want)
	}
}

// Many requests of a connection that are each not much work wait apart like one that is, and in order. Requests of one operation do
// not, however many.
func TestMuchWorkInPiecesWaitsApart(t *testing.T) {
	q := newQueue()
	busy, other := new(conn), new(conn)
	ask := func(c *conn, xid int32, work int) { q.add(&request{conn: c, xid: xid, work: work}) }
	for i := range int32(4) {
		ask(busy, i, muchWork/2)
	}
	for i := range int32(2 * muchWork) {
		ask(other, 100+i, 1)
	}
	var got [][2]int
	for range 2 {
		items := q.takeInline()
		apart := 0
		for _, r := range items {
			if r.conn == busy {
				apart++
			}
		}
		got = append(got, [2]int{apart, len(items) - apart})
		q.mu.Lock()
		q.committer, q.last = none, 0
		q.mu.Unlock()
	}
	if want := [][2]int{{2, 2 * muchWork}, {2, 0}}; !slices.Equal(got, want) {
		t.Errorf("of the busy one and of the other were taken %v, want %v", got, want)
	}
	ask(busy, 9, muchWork/2)
	if items := q.takeInline(); len(items) != 1 {
		t.Errorf("%d taken at last, want 1", len(items))
	}
}

// large makes a directory with names of about so many bytes in all.
func (p *peer) large(path string, bytes int) {
	p.create(path, zk.Persistent)
	for i := range bytes / 1000 {
		p.create(fmt.Sprint(path, "/", i, strings.Repeat("x", 1000)), zk.Persistent)
	}
}

// While greedy clients leave their answers lying, all answers together stay within the budget, the greedy are closed, and
// a client that takes its answers gets them.
func TestAnswersOfAllConnectionsHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget, list = 1 << 20, 300 << 10
		var log lockedBuffer
		r := start(t, func(o *Options) {
			o.AnswerBytesMax = budget
			o.ConnectionsPerAddressMax = -1
			o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		})
		p := r.connect("c")
		p.large("/large", list)
		ask := frameOf(1, wire.OpGetChildren, &wire.WatchRequest{Path: "/large"})
		for i := range 20 {
			label := fmt.Sprint("greedy", i)
			g := r.connect(label)
			r.net.Link(label, "").Mute(memnet.ToClient)
			go g.nc.Write(slices.Repeat(ask, 10))
		}
		synctest.Wait()
		if used := r.answers.used.Load(); used > budget {
			t.Errorf("%d bytes of answers wait, the budget is %d", used, budget)
		}
		p.ping()
		if got := p.children("/large"); len(got) != list/1000 {
			t.Errorf("%d children, want %d", len(got), list/1000)
		}
		if n := strings.Count(log.String(), "does not take its answers"); n == 0 {
			t.Error("no line about a connection that was closed")
		}
		if used := r.answers.used.Load(); used > budget {
			t.Errorf("%d bytes of answers wait, the budget is %d", used, budget)
		}
	})
}

// A large answer behind a write comes in its turn.
func TestLargeAnswersComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.large("/large", 200<<10)
		var b []byte
		reads := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/"}}, 300)}
		for i := range int32(20) {
			b = append(b, frameOf(5*i+1, wire.OpSetData, &wire.SetDataRequest{Path: "/", Version: -1})...)
			b = append(b, frameOf(5*i+2, wire.OpGetChildren2, &wire.WatchRequest{Path: "/large", Watch: true})...)
			b = append(b, frameOf(5*i+3, wire.OpMultiRead, &reads)...)
			b = append(b, frameOf(5*i+4, wire.OpExists, &wire.WatchRequest{Path: "/"})...)
			b = append(b, frameOf(5*i+5, wire.OpSetData, &wire.SetDataRequest{Path: "/large", Version: -1})...)
		}
		go p.nc.Write(b)
		for i := range int32(100) {
			if a := p.receiveAnswer(); a.Xid != i+1 || a.Err != zk.OK {
				t.Fatalf("answer to %d, %v, want the one to %d", a.Xid, a.Err, i+1)
			}
		}
	})
}

// An event of what a large answer does not show yet never comes before it.
func TestEventsAndLargeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p, w := r.connect("c"), r.connect("w")
		p.large("/large", 300<<10)
		p.create("/n", zk.Persistent)
		p.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/n"}, nil)
		p.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/large"}, nil)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 200 {
				w.call(wire.OpSetData, &wire.SetDataRequest{Path: "/n", Version: -1}, nil)
				w.create(fmt.Sprint("/large/n", i), zk.Persistent)
			}
		}()
		var seen, made int32
		reads := wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/n"}}, 2000)}
		for range 30 {
			for _, op := range []wire.Op{wire.OpMultiRead, wire.OpGetChildren} {
				var q wire.Record = &reads
				if op == wire.OpGetChildren {
					q = &wire.WatchRequest{Path: "/large"}
				}
				p.send(op, q)
				for {
					a := p.receive()
					if a.Xid == wire.XidEvent {
						if a.event.Path == "/n" {
							seen++
						} else {
							made++
						}
						continue
					}
					if op == wire.OpMultiRead {
						m := wire.MultiResponse{}
						wire.Unmarshal(a.body, &m)
						for _, res := range m.Results {
							if res.Stat.Mzxid > a.Zxid {
								t.Fatalf("an answer of zxid %d shows a change of zxid %d", a.Zxid, res.Stat.Mzxid)
							}
							if res.Stat.Version < seen {
								t.Fatalf("version %d is read behind %d events", res.Stat.Version, seen)
							}
						}
					} else {
						var names wire.StringsResponse
						wire.Unmarshal(a.body, &names)
						if n := int32(len(names.Strings)) - 307; n < made {
							t.Fatalf("%d names are read behind %d events", n, made)
						}
					}
					break
				}
			}
		}
		<-done
	})
}

// A multiRead whose client is sent events all the time is answered, in one piece at last. It kept other large requests waiting, and its
// session alive, for as long as events came.
func TestAMultiReadAmongEventsEnds(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // each piece is followed by an event: what waits for the mutex runs next
	r := start(t)
	p := r.dial("c")
	p.handshake(wire.ConnectRequest{Timeout: 40000}) // in real time, on a machine that may be busy
	p.create("/big", zk.Persistent)
	p.call(wire.OpSetData, &wire.SetDataRequest{Path: "/big", Data: make([]byte, 100<<10), Version: -1}, nil)
	var c *conn
	r.conns.Lock()
	for _, c = range r.conns.byID {
	}
	r.conns.Unlock()
	var stop atomic.Bool
	var sent sync.WaitGroup
	sent.Go(func() {
		for !stop.Load() {
			r.state.Lock()
			c.events++
			r.state.Unlock()
		}
	})
	defer sent.Wait()
	defer stop.Store(true)
	p.send(wire.OpMultiRead, &wire.MultiRequest{Ops: slices.Repeat([]wire.MultiOp{{Op: wire.OpGetData, Path: "/big"}}, 150)})
	p.nc.SetReadDeadline(time.Now().Add(time.Minute))
	if a := p.receive(); a.Err != zk.OK || len(a.body) < 150*100<<10 {
		t.Errorf("answer %v with %d bytes", a.Err, len(a.body))
	}
}

// A client whose large request waits for those of others cannot be heard, and does not lose its session for that.
func TestASessionOutlivesTheWaitOfALargeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.large("/large", 200<<10)
		r.large <- struct{}{}
		p.send(wire.OpGetChildren, &wire.WatchRequest{Path: "/large"})
		time.Sleep(5 * p.timeout)
		<-r.large
		if a := p.receive(); a.Err != zk.OK || len(a.body) < 200<<10 {
			t.Errorf("answer %v with %d bytes", a.Err, len(a.body))
		}
		p.ping()
		time.Sleep(5 * p.timeout)
		if n := r.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions when the client has been silent for long", n)
		}
	})
}

// The same holds for a large write that waits to be decoded: its session expired, and the write was dropped.
func TestASessionOutlivesTheWaitOfALargeWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		r.large <- struct{}{}
		xid := p.send(wire.OpSetData, &wire.SetDataRequest{Path: "/", Data: make([]byte, 2*largeAnswerBytes), Version: -1})
		time.Sleep(5 * p.timeout)
		<-r.large
		if code := p.answerTo(xid, nil); code != zk.OK {
			t.Errorf("the write that had waited: %v", code)
		}
		p.ping()
		time.Sleep(5 * p.timeout)
		if n := r.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions when the client has been silent for long", n)
		}
	})
}

// An unknown request behind an answer that was given up, for want of memory, is refused like any other. Giving up frees the
// memory again, and the request was taken for the one whose answer now fits.
func TestAnUnknownRequestBehindAnAnswerGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const budget = 1 << 20
		r := start(t, func(o *Options) { o.AnswerBytesMax = budget })
		p, greedy := r.connect("c"), r.connect("greedy")
		small := strings.Repeat("x", largeAnswerBytes-1)
		p.put("/small", small)
		p.put("/grows", small)
		gate := make(chan struct{})
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpDatasync {
				<-gate
			}
			return nil
		})
		grow := p.send(wire.OpSetData, &wire.SetDataRequest{Path: "/grows", Data: make([]byte, 2*largeAnswerBytes), Version: -1})
		synctest.Wait()
		greedy.send(wire.OpSync, &wire.PathRecord{Path: "/"})
		for range budget/largeAnswerBytes - 1 {
			greedy.send(wire.OpGetData, &wire.WatchRequest{Path: "/small"})
		}
		greedy.send(wire.OpGetData, &wire.WatchRequest{Path: "/grows"})
		greedy.send(999, nil)
		synctest.Wait()
		close(gate)
		if code := p.answerTo(grow, nil); code != zk.OK {
			t.Errorf("the write: %v", code)
		}
		p.ping()
		if answers, err := io.ReadAll(greedy.in); len(answers) > largeAnswerBytes {
			t.Errorf("%d bytes of answers (%v) from a connection that was given up", len(answers), err)
		}
		synctest.Wait()
		if used := r.answers.used.Load(); used != 0 {
			t.Errorf("%d bytes of answers are counted still", used)
		}
	})
}

// A client that reconnects must not be left without the watches that it had: the code of a refusal is one that clients
// ignore. And one connection alone cannot take the memory for watches away from the others.
func TestWatchesThatCannotBeSetEndTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8 << 20
		r := start(t, func(o *Options) { o.WatchBytesMax = most })
		missing := func(prefix string, bytes int) *wire.SetWatchesRequest {
			q := &wire.SetWatchesRequest{RelativeZxid: 1 << 60, Data: []string{}, Child: []string{}}
			for i := 0; bytes > 0; i++ {
				q.Exist = append(q.Exist, fmt.Sprintf("/%s%0100d", prefix, i))
				bytes -= len(q.Exist[0]) + watch.Bytes
			}
			return q
		}
		greedy := r.connect("greedy")
		for i := range 11 { // a sixteenth each time: a frame has its limit
			if code := greedy.call(wire.OpSetWatches, missing(fmt.Sprint("a", i), most/16), nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		if code := greedy.call(wire.OpAddWatch, &wire.AddWatchRequest{Path: "/" + strings.Repeat("x", most/16+1)}, nil); code != zk.ErrThrottled {
			t.Errorf("more than three quarters for one connection: %v", code)
		}
		other := r.connect("other")
		if code := other.call(wire.OpSetWatches, missing("b", most/16-1<<10), nil); code != zk.OK {
			t.Errorf("a sixteenth for another connection: %v", code)
		}
		other.send(wire.OpSetWatches, missing("c", most/16)) // too much to be decoded
		other.wantClosed()
		r.Server.opts.WatchesMax = 10
		few := r.connect("few")
		few.send(wire.OpSetWatches, missing("d", 11*(watch.Bytes+100)))
		few.wantClosed()
	})
}
