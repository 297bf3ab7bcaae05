package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestTheRightToCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		batches := make(chan []*request)
		go func() {
			defer close(batches)
			var worked []*request
			for {
				worked = q.next(worked)
				if len(worked) == 0 {
					return
				}
				batches <- slices.Clone(worked)
			}
		}()
		a, b, c, d := new(request), new(request), new(request), new(request)
		want := func(got []*request, want ...*request) {
			t.Helper()
			if !slices.Equal(got, want) {
				t.Fatalf("%d requests to commit, want %d", len(got), len(want))
			}
		}

		want(q.takeInline())
		q.add(a)
		q.add(b)
		first := q.takeInline()
		want(first, a, b)
		q.put(c)
		q.add(d)
		want(q.takeInline()) // the committer has to take them next
		synctest.Wait()
		select {
		case <-batches:
			t.Fatal("two commit at once")
		default:
		}
		q.pass(first)
		synctest.Wait()
		q.add(a) // while the loop is at work
		want(<-batches, c, d)
		want(<-batches, a)
		synctest.Wait()
		q.put(b)
		want(<-batches, b)
		synctest.Wait()
		for range inlineMax + 1 {
			q.add(a)
		}
		many := q.takeInline()
		q.pass(many)
		q.add(b)
		want(q.takeInline()) // there was much to do: the loop shall
		want(<-batches, b)
		synctest.Wait()
		q.add(c)
		last := q.takeInline()
		want(last, c)
		q.pass(last)
		q.add(c) // and the reader that added it has ended without a commit
		q.close()
		want(<-batches, c)
		if q.put(d) {
			t.Error("a closed queue takes requests")
		}
		if _, open := <-batches; open {
			t.Error("the loop goes on")
		}
	})
}

// Sessions that end together, without a connection, are not all carried out before what comes behind them.
func TestEndsOfSessionsLetOthersPass(t *testing.T) {
	q := newQueue()
	for range 20 * muchWork {
		q.add(&request{op: wire.OpCloseSession, work: 1})
	}
	first := &request{conn: new(conn)}
	q.add(first)
	take := func() []*request {
		items := q.takeInline()
		q.mu.Lock()
		q.committer, q.last = none, 0
		q.mu.Unlock()
		return items
	}
	left := 20*muchWork + 1
	for i := 0; left > 0; i++ {
		next := &request{conn: new(conn)} // comes while the ends wait
		q.add(next)
		items := take()
		left -= len(items)
		if i == 0 && (len(items) != muchWork+2 || !slices.Contains(items, first)) || len(items) > laterWork {
			t.Errorf("%d requests in batch %d", len(items), i)
		}
		if !slices.Contains(items, next) {
			items = take()
			if !slices.Equal(items, []*request{next}) {
				t.Errorf("%d requests in the batch behind batch %d, want what came before that", len(items), i)
			}
		} else {
			left++
		}
	}
}

// The end of a session is as much work as its ephemerals, those included that are being created.
func TestTheEndOfASessionIsAsMuchWorkAsItsEphemerals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2 * muchWork
		r := start(t)
		w, p := r.connect("w"), r.connect("c")
		p.create("/here", zk.Ephemeral)
		release := r.stall()
		w.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		var q wire.MultiRequest
		for i := range n {
			q.Ops = append(q.Ops, wire.MultiOp{Op: wire.OpCreate, Path: fmt.Sprint("/", i), ACL: zk.OpenACL(), Mode: zk.Ephemeral})
		}
		made, over := p.send(wire.OpMulti, &q), p.send(wire.OpCloseSession, nil)
		synctest.Wait()
		r.queue.mu.Lock()
		if later := r.queue.later; len(later) != 2 || later[1].op != wire.OpCloseSession || later[1].work < n+1 {
			t.Errorf("%d requests wait apart, the last worth %d operations", len(later), later[len(later)-1].work)
		}
		r.queue.mu.Unlock()
		release()
		for _, xid := range []int32{made, over} {
			if code := p.answerTo(xid, nil); code != zk.OK {
				t.Error(code)
			}
		}
		p.wantClosed()
		if n := r.Stats().Ephemerals; n != 0 {
			t.Errorf("%d ephemerals are left", n)
		}
		r.conns.Lock()
		defer r.conns.Unlock()
		for _, c := range r.conns.byID {
			if n := c.pendingWork.Load(); n != 0 {
				t.Errorf("%d operations without an answer, with nothing asked", n)
			}
		}
	})
}
