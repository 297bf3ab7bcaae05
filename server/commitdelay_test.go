package server

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// asked returns a request of a connection that came when the queue was made.
func asked(c *conn, op wire.Op, path string) *request {
	r := &request{conn: c, op: op}
	r.single.Path, r.single.Mode = path, zk.EphemeralSequential
	return r
}

// handedOver is a queue that has been told of a hand-over in /l when it was made.
func handedOver() *queue {
	q := newQueue()
	q.delay.dir, q.delay.until = "/l", commitDelayMax
	return q
}

// batchAfter returns the next batch, and how long it took to come.
func (q *queue) batchAfter() ([]*request, time.Duration) {
	began := time.Now()
	return q.next(nil), time.Since(began)
}

// A create that joins a queue in which a hand-over is under way waits for company, with the reads that its connection sends behind it.
// Nothing else waits, and what waits is committed together with what ends the wait.
func TestWhatWaitsForCompany(t *testing.T) {
	a, b := new(conn), new(conn)
	create := func(c *conn) *request { return asked(c, wire.OpCreate2, "/l/n-") }
	persistent, late, ephemeral := create(a), create(a), create(a)
	persistent.single.Mode, ephemeral.single.Mode, late.received = zk.PersistentSequential, zk.Ephemeral, commitDelayMax
	for name, tt := range map[string]struct {
		requests []*request
		waits    bool
	}{
		"a create":                           {[]*request{create(a)}, true},
		"a create of the older kind":         {[]*request{asked(a, wire.OpCreate, "/l/n-")}, true},
		"two creates":                        {[]*request{create(a), create(b)}, true},
		"a create and a listing behind it":   {[]*request{create(a), asked(a, wire.OpGetChildren2, "/l")}, true},
		"a create, and a listing of another": {[]*request{create(a), asked(b, wire.OpGetChildren2, "/l")}, false},
		"a create, and a sync of another":    {[]*request{create(a), asked(b, wire.OpSync, "/l")}, false},
		"two creates of one connection":      {[]*request{create(a), create(a)}, false},
		"a create, and the next release":     {[]*request{create(a), asked(b, wire.OpDelete, "/l/n-1")}, false},
		"a create behind another write":      {[]*request{asked(b, wire.OpSetData, "/x"), create(a)}, false},
		"a create, and one of the server":    {[]*request{create(a), {op: wire.OpCloseSession}}, false},
		"a create elsewhere":                 {[]*request{asked(a, wire.OpCreate2, "/m/n-")}, false},
		"a create below":                     {[]*request{asked(a, wire.OpCreate2, "/l/m/n-")}, false},
		"a persistent create":                {[]*request{persistent}, false},
		"a create without a number":          {[]*request{ephemeral}, false},
		"a create that comes late":           {[]*request{late}, false},
		"a release":                          {[]*request{asked(a, wire.OpDelete, "/l/n-")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := handedOver()
				for _, r := range tt.requests {
					q.add(r)
				}
				if inline := q.takeInline(); tt.waits != (inline == nil) {
					t.Errorf("%d requests are committed at once", len(inline))
				} else if inline != nil {
					if !slices.Equal(inline, tt.requests) {
						t.Errorf("%d requests are committed at once, want %d", len(inline), len(tt.requests))
					}
					return
				}
				if batch, took := q.batchAfter(); !slices.Equal(batch, tt.requests) || took != commitDelayMax {
					t.Errorf("%d requests are committed after %v, want %d after %v", len(batch), took, len(tt.requests), commitDelayMax)
				}
			})
		})
	}
}

// The alarm of one wait does not cut the next one short, and no wait takes longer than two of its times.
func TestTheAlarmIsThatOfOneWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := handedOver(), new(conn)
		q.add(asked(c, wire.OpCreate2, "/l/n-"))
		q.add(asked(nil, wire.OpDelete, "/l/n-1"))
		q.pass(q.takeInline())
		q.add(asked(c, wire.OpSetData, "/x"))
		if plain := q.takeInline(); len(plain) != 1 {
			t.Fatalf("%d requests are committed behind a wait, want one at once", len(plain))
		} else {
			q.pass(plain)
		}
		time.Sleep(commitDelayMax / 2)
		q.put(asked(c, wire.OpCreate2, "/l/n-"))
		if batch, took := q.batchAfter(); len(batch) != 1 || took != commitDelayMax*3/2 {
			t.Errorf("%d requests are committed after %v, want one after %v", len(batch), took, commitDelayMax*3/2)
		}
	})
}

// An alarm that goes off while a batch is committed leaves nothing to wait for behind it.
func TestTheAlarmDuringABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := handedOver(), new(conn)
		q.add(asked(c, wire.OpCreate2, "/l/n-"))
		q.add(asked(nil, wire.OpDelete, "/l/n-1"))
		batch := q.takeInline()
		q.add(asked(c, wire.OpCreate2, "/l/n-"))
		time.Sleep(3 * commitDelayMax)
		q.pass(batch)
		if batch, took := q.batchAfter(); len(batch) != 1 || took > 0 {
			t.Errorf("%d requests are committed after %v, want one at once", len(batch), took)
		}
	})
}

// A request that is much work waits apart from others, and is company too.
func TestMuchWorkIsCompany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := handedOver()
		q.add(asked(new(conn), wire.OpCreate2, "/l/n-"))
		much := asked(new(conn), wire.OpMulti, "")
		much.work = muchWork + 1
		q.add(much)
		if batch := q.takeInline(); len(batch) != 1 {
			t.Errorf("%d requests are committed at once, want the create", len(batch))
		}
	})
}

// What waits when the queue is closed is not lost.
func TestWhatWaitsWhenTheQueueIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := handedOver()
		q.add(asked(new(conn), wire.OpCreate2, "/l/n-"))
		q.close()
		if batch, took := q.batchAfter(); len(batch) != 1 || took > 0 {
			t.Errorf("%d requests are committed after %v, want one at once", len(batch), took)
		}
	})
}

// Where three sessions take turns, the create of the one that has released shares the sync of the next release, and its listing shows
// the queue as it is behind its create. Another write ends the wait. With two sessions, the create is committed at once.
func TestTurnsShareSyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		syncs := 0
		one, two, three := r.connect("one"), r.connect("two"), r.connect("three")
		one.create("/l", zk.Persistent)
		one.create("/x", zk.Persistent)
		claim := func(p *peer) string { return p.create("/l/n-", zk.EphemeralSequential) }
		watch := func(p *peer, path string) {
			if code := p.call(wire.OpExists, &wire.WatchRequest{Path: path, Watch: true}, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		release := func(p *peer, path string) {
			if code := p.call(wire.OpDelete, &wire.VersionRequest{Path: path, Version: -1}, nil); code != zk.OK {
				t.Fatal(code)
			}
		}
		first, second, third := claim(one), claim(two), claim(three)
		watch(two, first)
		watch(three, second)
		synctest.Wait()
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpDatasync {
				syncs++
			}
			return nil
		})
		wantSyncs := func(want int) {
			t.Helper()
			synctest.Wait()
			if syncs != want {
				t.Errorf("%d syncs, want %d", syncs, want)
			}
			syncs = 0
		}

		began := time.Now()
		release(one, first)
		two.wantEvent(zk.NodeDeleted, first)
		wantSyncs(1)
		made, listed := one.send(wire.OpCreate, createReq("/l/n-", zk.EphemeralSequential)), one.send(wire.OpGetChildren, &wire.WatchRequest{Path: "/l"})
		wantSyncs(0)
		release(two, second)
		wantSyncs(1)
		var fourth wire.PathRecord
		var queue wire.StringsResponse
		if code := one.answerTo(made, &fourth); code != zk.OK {
			t.Fatal(code)
		}
		one.answerTo(listed, &queue)
		if len(queue.Strings) != 3 {
			t.Errorf("the listing behind the create shows %v, want three claims: the release came later", queue.Strings)
		}
		three.wantEvent(zk.NodeDeleted, second)
		if took := time.Since(began); took > 0 {
			t.Errorf("two hand-overs took %v", took)
		}

		began = time.Now()
		fifth := claim(two) // behind two claims, with nothing to come
		if took := time.Since(began); took == 0 || took > 2*commitDelayMax {
			t.Errorf("a create without company took %v", took)
		}
		wantSyncs(1)
		watch(one, third)
		release(three, third)
		one.wantEvent(zk.NodeDeleted, third)
		wantSyncs(1)
		made = three.send(wire.OpCreate, createReq("/l/n-", zk.EphemeralSequential))
		wantSyncs(0)
		two.call(wire.OpSetData, &wire.SetDataRequest{Path: "/x", Version: -1}, nil)
		wantSyncs(1)
		var sixth wire.PathRecord
		three.answerTo(made, &sixth)

		release(three, sixth.Path)
		watch(two, fourth.Path)
		release(one, fourth.Path)
		two.wantEvent(zk.NodeDeleted, fourth.Path)
		wantSyncs(2)
		began = time.Now()
		claim(one)
		if took := time.Since(began); took > 0 {
			t.Errorf("a create behind one claim took %v", took)
		}
		release(two, fifth)
	})
}

// A create waits behind the end of a znode that another client waited for, and behind nothing else.
func TestWhatIsAHandOver(t *testing.T) {
	const first = "/l/n-0000000000" // a claim of one's; two and three have others
	ask := func(p *peer, op wire.Op, r wire.Record) {
		p.t.Helper()
		xid := p.send(op, r)
		if a := p.receiveAnswer(); a.Xid != xid || a.Err != zk.OK {
			p.t.Fatalf("answer to %v: %+v", op, a)
		}
	}
	watch := func(p *peer) { ask(p, wire.OpExists, &wire.WatchRequest{Path: first, Watch: true}) }
	change := func(p *peer, path string) { ask(p, wire.OpSetData, &wire.SetDataRequest{Path: path, Version: -1}) }
	release := func(p *peer) { ask(p, wire.OpDelete, &wire.VersionRequest{Path: first, Version: -1}) }
	for name, tt := range map[string]struct {
		happens func(one, two, three *peer)
		waits   bool
	}{
		"a claim that the next one watches": {func(one, two, _ *peer) { watch(two); release(one) }, true},
		"a claim, and its directory is watched too": {func(one, two, three *peer) {
			watch(two)
			ask(three, wire.OpGetChildren, &wire.WatchRequest{Path: "/l", Watch: true})
			release(one)
		}, true},
		"a claim, and then other requests": {func(one, two, three *peer) {
			watch(two)
			release(one)
			for range 10 { // in the memory of the release
				change(three, "/x")
				change(one, "/x")
			}
		}, true},
		"a claim that no other client watches": {func(one, _, _ *peer) { release(one) }, false},
		"a claim that its own client watches":  {func(one, _, _ *peer) { watch(one); release(one) }, false},
		"a claim that an observer watches": {func(one, two, _ *peer) {
			ask(two, wire.OpAddWatch, &wire.AddWatchRequest{Path: first})
			release(one)
		}, false},
		"a claim in a directory that an observer watches": {func(one, two, _ *peer) {
			ask(two, wire.OpAddWatch, &wire.AddWatchRequest{Path: "/l", Mode: 1})
			release(one)
		}, false},
		"a change of a claim's data": {func(one, two, _ *peer) { watch(two); change(one, first) }, false},
		"a claim that went long ago": {func(one, two, _ *peer) { watch(two); release(one); time.Sleep(commitDelayMax) }, false},
		"a claim that went long before another write": {func(one, two, three *peer) {
			watch(two)
			release(one)
			time.Sleep(commitDelayMax * 3 / 4)
			change(three, "/x")
			time.Sleep(commitDelayMax / 2)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t)
				one, two, three := r.connect("one"), r.connect("two"), r.connect("three")
				one.create("/l", zk.Persistent)
				one.create("/x", zk.Persistent)
				for _, p := range []*peer{one, two, three} {
					p.create("/l/n-", zk.EphemeralSequential)
				}
				tt.happens(one, two, three)
				began := time.Now()
				ask(one, wire.OpCreate, createReq("/l/n-", zk.EphemeralSequential))
				if took := time.Since(began); tt.waits != (took > 0) {
					t.Errorf("the next create took %v", took)
				}
			})
		})
	}
}

// A create whose connection ends while it waits is committed like any other.
func TestACreateThatWaitsOutlivesItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		one, two := r.connect("one"), r.connect("two")
		one.create("/l", zk.Persistent)
		first := one.create("/l/n-", zk.EphemeralSequential)
		for range 2 {
			two.create("/l/n-", zk.EphemeralSequential)
		}
		two.call(wire.OpExists, &wire.WatchRequest{Path: first, Watch: true}, nil)
		one.call(wire.OpDelete, &wire.VersionRequest{Path: first, Version: -1}, nil)
		two.wantEvent(zk.NodeDeleted, first)
		one.send(wire.OpCreate, createReq("/l/n-", zk.EphemeralSequential))
		synctest.Wait()
		if n := len(two.children("/l")); n != 2 {
			t.Errorf("%d claims while the create waits, want 2", n)
		}
		one.nc.Close()
		time.Sleep(2 * commitDelayMax)
		if n := len(two.children("/l")); n != 3 {
			t.Errorf("%d claims, want 3", n)
		}
	})
}
