package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestAReflexIsAHabit(t *testing.T) {
	const within = 10
	var x reflex
	now := time.Duration(1)
	turn := func(took time.Duration) (expected bool) {
		now += 1000
		expected = x.tell(now)
		if again := x.tell(now); again != expected {
			t.Errorf("the second event of one moment: %v, the first: %v", again, expected)
		}
		x.write(now+took, within)
		x.write(now+500, within) // answers nothing
		return expected
	}
	habit := func() {
		t.Helper()
		for i := range reflexStreak {
			if turn(within) {
				t.Fatalf("expected after %d times", i)
			}
		}
		for range 3 {
			if !turn(within) {
				t.Fatal("not expected after so many times")
			}
		}
	}
	habit()
	turn(within + 1) // late once
	habit()
	now += 1000
	x.tell(now) // and not answered
	habit()
}

func TestAtOnceIsMeasuredInSyncs(t *testing.T) {
	var p pulse
	if d := p.atOnce(); d != 0 {
		t.Errorf("%v before any sync", d)
	}
	for range 100 {
		p.note(100 * time.Microsecond)
	}
	if d := p.atOnce(); d < 290*time.Microsecond || d > 300*time.Microsecond {
		t.Errorf("%v for syncs of 100µs", d)
	}
	p.note(900 * time.Microsecond) // counts for an eighth
	if d := p.atOnce(); d < 590*time.Microsecond || d > 600*time.Microsecond {
		t.Errorf("%v after one of 900µs", d)
	}
	for range 100 {
		p.note(time.Second)
	}
	if d := p.atOnce(); d != reflexMax {
		t.Errorf("%v for syncs of a second", d)
	}
}

func TestWhatGathersWaitsForWhoIsExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		taken := make(chan int)
		go func() {
			defer close(taken)
			var worked []*request
			for {
				if worked = q.next(worked); len(worked) == 0 {
					return
				}
				taken <- len(worked)
			}
		}()
		expected, other := &conn{out: new(output)}, new(conn)
		wantTaken := func(after time.Duration, n int) {
			t.Helper()
			began := time.Now()
			if got, took := <-taken, time.Since(began); got != n || took != after {
				t.Errorf("%d requests after %v, want %d after %v", got, took, n, after)
			}
			synctest.Wait()
		}
		q.await(expected, reflexMax/2)
		for range inlineMax - 1 { // who reads leads nothing, and the loop gets nothing
			q.add(&request{conn: other})
			if got := q.takeInline(); got != nil {
				t.Error("a reader did not wait")
			}
		}
		q.put(&request{conn: other})
		time.Sleep(reflexMax / 4)
		q.add(&request{conn: expected})
		got := q.takeInline()
		if len(got) != inlineMax+1 {
			t.Errorf("%d requests together, want %d", len(got), inlineMax+1)
		}
		q.await(expected, reflexMax/2) // by whoever commits
		q.add(&request{conn: other})
		q.pass(got)
		wantTaken(reflexMax*3/4, 1) // the alarm was set with the first

		q.await(expected, reflexMax/2)
		q.put(&request{conn: other})
		time.Sleep(reflexMax / 4)
		q.await(expected, reflexMax*9/10)
		wantTaken(reflexMax*9/10, 1) // the alarm came too early

		time.Sleep(reflexMax)
		q.await(expected, reflexMax/2)
		time.Sleep(reflexMax)
		q.put(&request{conn: other}) // when the time is over
		wantTaken(0, 1)

		q.await(expected, reflexMax/2)
		q.put(&request{conn: expected})
		wantTaken(0, 1)

		q.await(expected, reflexMax/2)
		for range inlineMax + 1 { // too much to wait
			q.put(&request{conn: other})
		}
		wantTaken(0, inlineMax+1)

		expected.out.pending.Store(1) // it has written already
		q.await(expected, reflexMax/2)
		q.put(&request{conn: other})
		wantTaken(0, 1)
		expected.out.pending.Store(0)

		q.await(expected, reflexMax)
		q.put(&request{conn: other})
		q.close()
		wantTaken(0, 1)
		if _, open := <-taken; open {
			t.Error("the loop goes on")
		}
	})
}

// One hands over to another and joins the line again, as long as the other one gives back at once.
func TestAHandOverIsOneSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const syncTakes = 100 * time.Microsecond
		syncs := 0
		r := start(t)
		b, a := r.connect("b"), r.connect("a")
		a.create("/lock", zk.Persistent)
		b.create("/b", zk.Persistent)
		r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
			if op == vfs.OpDatasync {
				syncs++
				time.Sleep(syncTakes)
			}
			return nil
		})
		defer r.fs.SetFault(nil)

		// round has a leave and join again, b write thinks later than it is told, and returns how many syncs
		// that took, and how long a took to join.
		round := func(thinks time.Duration) (int, time.Duration) {
			t.Helper()
			a.call(wire.OpExists, &wire.WatchRequest{Path: "/lock", Watch: true}, nil) // as a holder does
			b.call(wire.OpExists, &wire.WatchRequest{Path: "/lock", Watch: true}, nil)
			before := syncs
			a.send(wire.OpDelete, &wire.VersionRequest{Path: "/lock", Version: -1})
			if code := a.receiveAnswer().Err; code != zk.OK {
				t.Fatal(code)
			}
			began := time.Now()
			joined := make(chan time.Duration)
			go func() {
				a.create("/lock", zk.Persistent)
				joined <- time.Since(began)
			}()
			b.wantEvent(zk.NodeDeleted, "/lock")
			time.Sleep(thinks)
			if code := b.call(wire.OpSetData, &wire.SetDataRequest{Path: "/b", Version: -1}, nil); code != zk.OK {
				t.Fatal(code)
			}
			took := <-joined
			return syncs - before, took
		}
		for range reflexStreak + 20 { // the mean is too low at first, since what came before took no time
			round(syncTakes / 10)
		}
		for range 4 {
			if n, _ := round(syncTakes * 3 / 2); n != 2 {
				t.Errorf("%d syncs for deletion, creation and write; want 2, for the last two share one", n)
			}
		}

		// Of several nobody is waited for.
		c := r.connect("c")
		r.conns.Lock()
		for _, one := range r.conns.byID {
			one.reflex.streak.Store(reflexStreak)
		}
		r.conns.Unlock()
		b.call(wire.OpExists, &wire.WatchRequest{Path: "/lock", Watch: true}, nil)
		c.call(wire.OpExists, &wire.WatchRequest{Path: "/lock", Watch: true}, nil)
		a.send(wire.OpDelete, &wire.VersionRequest{Path: "/lock", Version: -1})
		a.receiveAnswer()
		began := time.Now()
		a.create("/lock", zk.Persistent)
		if took := time.Since(began); took != syncTakes {
			t.Errorf("%v for a write after two have been told, want %v", took, syncTakes)
		}
		b.wantEvent(zk.NodeDeleted, "/lock")
		b.call(wire.OpSetData, &wire.SetDataRequest{Path: "/b", Version: -1}, nil) // at once

		// Nor is who has written already.
		b.call(wire.OpExists, &wire.WatchRequest{Path: "/lock", Watch: true}, nil)
		began = time.Now()
		a.send(wire.OpDelete, &wire.VersionRequest{Path: "/lock", Version: -1})
		time.Sleep(syncTakes / 2)
		b.send(wire.OpSetData, &wire.SetDataRequest{Path: "/b", Version: -1})
		a.receiveAnswer()
		b.receiveAnswer()
		if took := time.Since(began); took != 2*syncTakes {
			t.Errorf("%v for two writes of which the second one came during the first one's sync, want %v", took, 2*syncTakes)
		}
		b.call(wire.OpSetData, &wire.SetDataRequest{Path: "/b", Version: -1}, nil) // at once
		a.create("/lock", zk.Persistent)

		if n, took := round(5 * time.Millisecond); n != 3 || took > reflexMax+syncTakes {
			t.Errorf("%d syncs, and %v to join, when he who was always quick takes his time; want 3, and at most %v", n, took, reflexMax+syncTakes)
		}
		for i := range reflexStreak + 2 {
			if n, took := round(syncTakes * 5); n != 3 || took > syncTakes {
				t.Errorf("round %d of one who takes his time: %d syncs, and %v to join; want 3, and at most %v", i, n, took, syncTakes)
			}
		}
	})
}
