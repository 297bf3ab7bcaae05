package session

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestF46_DeadlineIsNeverEarlyAndLateByAtMostOneTick(t *testing.T) {
	for _, c := range []struct{ tick, now, timeout, want time.Duration }{
		{2000, 0, 4000, 6000},
		{2000, 1, 4000, 6000},
		{2000, 1999, 4000, 6000},
		{2000, 2000, 4000, 8000},
		{2000, 2000, 4001, 8000},
		{3000, 100, 5000, 6000},
		{1, 7, 10, 18},
	} {
		if got := NewTable(c.tick).Deadline(c.now, c.timeout); got != c.want {
			t.Errorf("tick %d: Deadline(%d, %d) = %d, want %d", c.tick, c.now, c.timeout, got, c.want)
		}
	}
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 10000 {
		tick := 1 + time.Duration(rnd.IntN(5000))
		now, timeout := time.Duration(rnd.Int64N(1e15)), time.Duration(rnd.IntN(100000))
		late := NewTable(tick).Deadline(now, timeout) - (now + timeout)
		if late <= 0 || late > tick {
			t.Fatalf("seed %d: tick %d: Deadline(%d, %d) is late by %d", seed, tick, now, timeout, late)
		}
	}
}

// twin is the table as one would write it without caring what it costs.
type twin map[int64]*twinSession

type twinSession struct {
	first, granted, timeout, heard time.Duration
	owner                          uint64
	closing                        bool
}

func (w twin) alive(id int64) *twinSession {
	if s := w[id]; s != nil && !s.closing {
		return s
	}
	return nil
}

func (w twin) due(tick time.Duration, s *twinSession) time.Duration {
	for at := time.Duration(0); ; at += tick {
		if at > s.heard+s.timeout {
			return at
		}
	}
}

func TestTableAgainstNaiveTwin(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	const tick = 20
	table, naive := NewTable(tick), twin{}
	now := time.Duration(0)
	for step := range 6000 {
		now += time.Duration(rnd.IntN(4))
		id, owner := int64(rnd.IntN(12)), uint64(rnd.IntN(3))
		timeout := time.Duration(40 + rnd.IntN(200))
		var op string
		var got, want any
		switch s := naive.alive(id); rnd.IntN(9) {
		case 0:
			op = "Add"
			if naive[id] == nil {
				table.Add(id, timeout, owner, now)
				naive[id] = &twinSession{first: timeout, granted: timeout, timeout: timeout, heard: now, owner: owner}
			}
		case 1:
			op = "Attach"
			previous, ok := table.Attach(id, timeout, owner, now)
			got, want = ok, s != nil
			if ok && s != nil {
				got, want = previous, s.owner
				s.owner, s.granted, s.timeout, s.heard = owner, timeout, max(s.timeout, timeout), now
			}
		case 2:
			op = "BeginClose"
			got, want = table.BeginClose(id), s != nil
			if s != nil {
				s.closing = true
			}
		case 3:
			op = "Remove"
			if w := naive[id]; w == nil || w.closing || rnd.IntN(4) == 0 {
				table.Remove(id)
				delete(naive, id)
			}
		case 4:
			op = "Expire"
			dead := table.Expire(now)
			slices.Sort(dead)
			var victims []int64
			for id, s := range naive {
				if !s.closing && naive.due(tick, s) <= now {
					s.closing = true
					victims = append(victims, id)
				}
			}
			slices.Sort(victims)
			if !slices.Equal(dead, victims) {
				t.Fatalf("seed %d step %d: Expire(%d) = %v, want %v", seed, step, now, dead, victims)
			}
		case 5:
			op = "Renew"
			table.Renew(id, now)
			if s != nil {
				s.heard = now
			}
		default:
			op = "Touch"
			mine := s != nil && s.owner == owner
			if table.Owns(id, owner) != mine {
				t.Fatalf("seed %d step %d: Owns(%d, %d) = %t, want %t", seed, step, id, owner, !mine, mine)
			}
			got, want = table.Touch(id, owner, now), mine
			if mine {
				s.timeout, s.heard = s.granted, now
			}
		}
		if got != want {
			t.Fatalf("seed %d step %d: %s(%d) at %d = %v, want %v", seed, step, op, id, now, got, want)
		}

		all := make(map[int64]time.Duration)
		var next time.Duration
		for id, s := range naive {
			all[id] = s.first
			due := naive.due(tick, s)
			if !s.closing && (next == 0 || due < next) {
				next = due
			}
			if at, ok := table.Expiry(id); ok != !s.closing || ok && at != due {
				t.Fatalf("seed %d step %d: Expiry(%d) = %d, %t; want %d, %t", seed, step, id, at, ok, due, !s.closing)
			}
			if table.Owner(id) != s.owner {
				t.Fatalf("seed %d step %d: Owner(%d) = %d, want %d", seed, step, id, table.Owner(id), s.owner)
			}
		}
		if got := maps.Collect(table.All()); !maps.Equal(got, all) || table.Len() != len(all) {
			t.Fatalf("seed %d step %d: sessions %v, want %v", seed, step, got, all)
		}
		if at, ok := table.NextExpiry(); at != next || ok != (next != 0) {
			t.Fatalf("seed %d step %d: NextExpiry() = %d, %t; want %d", seed, step, at, ok, next)
		}
	}
}

func TestF46_RestoredSessionsHaveTheirFullTimeoutAgain(t *testing.T) {
	table := NewTable(2 * time.Second)
	const restart = 7 * time.Second
	table.Add(1, 4*time.Second, NoOwner, restart)
	if dead := table.Expire(restart + 4*time.Second); len(dead) != 0 {
		t.Errorf("expired %v before the full timeout", dead)
	}
	if dead := table.Expire(restart + 6*time.Second); !slices.Equal(dead, []int64{1}) {
		t.Errorf("expired %v after timeout and tick, want session 1", dead)
	}
}

func TestWhatASessionHasShownIsMissedOnAnotherConnection(t *testing.T) {
	table := NewTable(time.Second)
	table.Add(1, time.Minute, 7, 0)
	alice, bob := Proof{1}, Proof{2}
	missing := func(want bool, proofs ...Proof) {
		t.Helper()
		if got := table.Missing(1, proofs); got != want {
			t.Errorf("Missing(%v) = %t, want %t", proofs, got, want)
		}
	}
	missing(false)
	table.Show(1, 8, []Proof{alice}) // does not own it
	missing(false)
	table.Show(1, 7, []Proof{alice})
	missing(true)
	missing(true, bob)
	missing(false, alice)
	table.Show(1, 7, []Proof{bob, alice})
	missing(true, bob)
	missing(true, alice)
	missing(false, bob, Proof{3}, alice)
	table.Attach(1, time.Minute, 8, 0)
	missing(true)
	if table.Missing(2, nil) {
		t.Error("a session that is not there misses a proof")
	}
	table.BeginClose(1)
	missing(false) // the client is to hear that it is gone
}

// A sweep must not look at sessions that live on.
func BenchmarkExpireAmongMany(b *testing.B) {
	table := NewTable(time.Second)
	for id := range int64(100000) {
		table.Add(id, time.Hour, 1, 0)
	}
	b.ReportAllocs()
	for b.Loop() {
		table.Expire(time.Minute)
	}
}

func BenchmarkTouch(b *testing.B) {
	table := NewTable(time.Second)
	for id := range int64(100000) {
		table.Add(id, 10*time.Second, 1, 0)
	}
	var now time.Duration
	for b.Loop() {
		now += time.Millisecond
		table.Touch(int64(now)%100000, 1, now)
	}
}
