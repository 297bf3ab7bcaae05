package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// An at is a moment of a clock that begins at 0.
type at time.Duration

func (a at) Sub(b at) time.Duration { return time.Duration(a - b) }

// A history is one of moments of that clock.
type history struct{ lease.History }

func (h *history) Restart(sent at) lease.Lease {
	return h.History.Restart(clock.At(time.Duration(sent)))
}

func (h *history) Add(timeout time.Duration, sent, answered at) {
	h.History.Add(timeout, clock.At(time.Duration(sent)), clock.At(time.Duration(answered)))
}

func (h *history) Lease(timeout time.Duration, newest at) lease.Lease {
	return h.History.Lease(timeout, clock.At(time.Duration(newest)))
}

func (h *history) ReadyIn(timeout time.Duration, now at) time.Duration {
	return h.History.ReadyIn(timeout, clock.At(time.Duration(now)))
}

const timeout = 12 * time.Second // a twelfth is a second

// after returns the lease of a session whose handshake was sent at 0 and whose further requests were sent at these seconds.
func after(seconds ...float64) lease.Lease {
	var h history
	l := h.Restart(0)
	for _, s := range seconds {
		h.Add(timeout, at(s*float64(time.Second)), at(s*float64(time.Second)))
		l = h.Lease(timeout, at(s*float64(time.Second)))
	}
	return l
}

// F17: answers to pings may overtake that to an older request. Where the history no longer says what the leader knew when that was
// sent, its answer makes no lease.
func TestF17_OvertakenAnswers(t *testing.T) {
	second := func(s float64) at { return at(s * float64(time.Second)) }
	var h history
	h.Restart(0)
	h.Add(timeout, second(4), second(4))
	h.Add(timeout, second(8), second(8))
	h.Add(timeout, second(12), second(12)) // the request of second 9 is still under way
	h.Add(timeout, second(9), second(12.5))
	if l := h.Lease(timeout, second(9)); l.Valid() && l.Remaining(timeout, 0) > 6*time.Second {
		t.Errorf("%v left behind the request of second 9, want at most 6s", l.Remaining(timeout, 0))
	}
	if l := h.Lease(timeout, second(12)); !l.Valid() || l.Remaining(timeout, 0) != 6*time.Second {
		t.Errorf("behind the ping of second 12: valid %v, %v left, want 6s", l.Valid(), l.Remaining(timeout, 0))
	}
	if (lease.Lease{}).Valid() {
		t.Error("the zero lease is valid")
	}
}

// F17: how long a lease lasts behind its newest proof, whatever came before it.
func TestF17_Deadline(t *testing.T) {
	for _, c := range []struct {
		name    string
		seconds []float64
		want    time.Duration
	}{
		{"a handshake", nil, 8 * time.Second},
		{"heartbeats", []float64{2, 4, 6, 8}, 8 * time.Second},
		{"the first request behind a handshake", []float64{0.1}, 8 * time.Second},
		{"a heartbeat of an idle session", []float64{4, 8}, 6 * time.Second},
		{"a silence of half the timeout", []float64{2, 8}, 4 * time.Second},
		{"a moment later", []float64{2, 8, 8.5}, 4 * time.Second},
		{"a second later", []float64{2, 8, 9}, 4 * time.Second}, // 7 s behind the silence's beginning: at most T - 7 s and 5/6 T - 6 s
		{"when the leader has heard of its end", []float64{2, 8, 11}, 7 * time.Second},
		{"heartbeats again", []float64{2, 8, 10, 12, 14}, 8 * time.Second},
		{"a silence of two thirds", []float64{2, 10}, 2 * time.Second},
		{"a silence of five sixths", []float64{2, 12}, 0},
		{"a silence of an hour", []float64{2, 3602}, -3590 * time.Second},
	} {
		if got := after(c.seconds...).Remaining(timeout, 0); got != c.want {
			t.Errorf("%s: proofs at %v: %v left, want %v", c.name, c.seconds, got, c.want)
		}
	}
	if got := after(2, 4).Remaining(timeout, 3*time.Second); got != 5*time.Second {
		t.Errorf("3 s after the last proof %v is left, want 5s", got)
	}
	if got := (lease.Lease{}).Remaining(timeout, 0); got > 0 {
		t.Errorf("without any proof %v is left", got)
	}
}

// A leader with a naive memory: it hears of each request half a tick after it was sent, and of a handshake at once. Whatever the
// schedule, it frees the session no earlier than the lease ends; with heartbeats a sixth of the timeout apart, T/6 less
// half a tick remain.
func TestF17_NoLeaseOutlivesTheSession(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		halfTick := time.Duration(r.Int64N(int64(timeout/4))) + 1
		regular := r.IntN(2) == 0
		var h history
		sent := []at{0}
		l := h.Restart(0)
		for range 1 + r.IntN(40) {
			gap := timeout / 6
			if !regular {
				gap = time.Duration(r.Int64N(int64(timeout) / int64(1+r.IntN(100))))
			}
			n := sent[len(sent)-1] + at(gap) + 1
			sent = append(sent, n)
			h.Add(timeout, n, n)
			l = h.Lease(timeout, n)
		}
		n := sent[len(sent)-1]
		heard := at(0)
		for _, s := range sent {
			if n.Sub(s) >= halfTick {
				heard = s
			}
		}
		frees, ends := heard+at(timeout), n+at(l.Remaining(timeout, 0))
		margin := frees.Sub(ends)
		least := time.Duration(0)
		if regular {
			least = timeout/6 - halfTick
		}
		if margin < 0 || margin < least-time.Microsecond {
			t.Fatalf("seed %d: proofs %v, half a tick %v: the lease ends at %v and the leader frees the session at %v, want %v in between",
				seed, sent, halfTick, time.Duration(ends), time.Duration(frees), least)
		}
		if regular && l.Remaining(timeout, 0) < lease.Term(timeout)-time.Microsecond {
			t.Fatalf("heartbeats a sixth of the timeout apart make a lease of %v, want %v", l.Remaining(timeout, 0), lease.Term(timeout))
		}
	}
}

// A history stays short however many requests there are, and forgets nothing that counts.
func TestHistoryOfManyRequests(t *testing.T) {
	var h history
	h.Restart(0)
	for n := at(0); n < at(2*timeout); n += at(time.Millisecond) {
		h.Add(timeout, n, n)
	}
	if got := h.Lease(timeout, at(2*timeout)-at(time.Millisecond)).Remaining(timeout, 0); got != lease.Term(timeout) {
		t.Errorf("%v left, want %v", got, lease.Term(timeout))
	}
	if n := lease.Kept(&h.History); n > 32 {
		t.Errorf("%d requests are kept", n)
	}
}

// F18: after a long silence the next proof does not make a lease that is worth beginning on, and one that is sent a quarter of
// the timeout later does.
func TestF18_ReadyAfterASilence(t *testing.T) {
	var h history
	h.Restart(0)
	add := func(s float64) lease.Lease {
		n := at(s * float64(time.Second))
		h.Add(timeout, n, n)
		return h.Lease(timeout, n)
	}
	if l := add(4); h.ReadyIn(timeout, at(4*time.Second)) != 0 || !lease.Enough(timeout, l.Remaining(timeout, 0)) {
		t.Errorf("a heartbeat of an idle session is not enough: %v left", l.Remaining(timeout, 0))
	}
	l := add(11)
	if got := h.ReadyIn(timeout, at(12*time.Second)); got != 2*time.Second {
		t.Errorf("a second after the end of a silence of 7 s it is ready in %v, want 2s", got)
	}
	if lease.Enough(timeout, l.Remaining(timeout, time.Second/2)) {
		t.Errorf("half a second after a silence of 7 s a lease of %v is enough", l.Remaining(timeout, time.Second/2))
	}
	if got := h.ReadyIn(timeout, at(14*time.Second)); got != 0 {
		t.Errorf("a quarter of the timeout after the silence it is ready in %v, want 0", got)
	}
	if l := add(14); !lease.Enough(timeout, l.Remaining(timeout, 0)) {
		t.Errorf("a proof after that leaves %v, which is not enough", l.Remaining(timeout, 0))
	}
}

// F18: whatever was answered how late, a session that proves itself again gets a lease that is enough, after two waits and a few
// proofs.
func TestF18_SettlingEnds(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		var h history
		h.Restart(0)
		now, sent := at(0), at(0)
		for range r.IntN(10) {
			sent += at(r.Int64N(int64(timeout)/int64(1+r.IntN(20)))) + 1
			now = max(now, sent+at(r.Int64N(int64(timeout))))
			h.Add(timeout, sent, now)
		}
		now += at(r.Int64N(int64(timeout)))
		waits, proofs := 0, 0
		for l := h.Lease(timeout, sent); !lease.Enough(timeout, l.Remaining(timeout, now.Sub(sent))); l = h.Lease(timeout, sent) {
			if wait := h.ReadyIn(timeout, now); wait > 0 {
				waits++
				now += at(wait)
			}
			sent = now
			now += at(r.Int64N(int64(timeout / 20)))
			h.Add(timeout, sent, now)
			proofs++
			if proofs > 4 || waits > 2 {
				t.Fatalf("seed %d: %d proofs and %d waits are not enough", seed, proofs, waits)
			}
		}
	}
}

// F17: the network holds up what a client sends, and delivers it at once. The follower answers all of it and has relayed none
// of it, so the leader counts from before.
func TestF17_HeldUpByTheNetwork(t *testing.T) {
	var h history
	h.Restart(0)
	second := func(s float64) at { return at(s * float64(time.Second)) }
	h.Add(timeout, second(2), second(2))
	var l lease.Lease
	for _, s := range []float64{4, 6, 8, 10} {
		h.Add(timeout, second(s), second(10.1))
		l = h.Lease(timeout, second(s))
	}
	if got, want := l.Remaining(timeout, 0), 4*time.Second; got != want { // the leader may free the session 14 s after the handshake
		t.Errorf("requests of 8 s are answered at once: %v left, want %v", got, want)
	}
	if got, want := h.ReadyIn(timeout, second(10.1)), 3*time.Second; got != want {
		t.Errorf("it is ready in %v, want %v", got, want)
	}
	if got, want := h.ReadyIn(timeout, second(11.5)), second(13.1)-second(11.5); got != time.Duration(want) {
		t.Errorf("it is ready in %v, want %v", got, time.Duration(want))
	}
	h.Add(timeout, second(13.2), second(13.2))
	if got, want := h.Lease(timeout, second(13.2)).Remaining(timeout, 0), 6800*time.Millisecond; got != want {
		t.Errorf("when the leader has heard of it %v is left, want %v", got, want)
	}
}

// However answers are delayed, no lease outlives the session in the table of a leader that hears of each request half a tick
// after the follower has, at the latest. The follower hears of requests in order.
func TestF17_DelayedRequests(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		halfTick := time.Duration(r.Int64N(int64(timeout/4))) + 1
		var h history
		h.Restart(0)
		var sent, heard at
		type request struct{ sent, heard at }
		all := []request{{}}
		for range 1 + r.IntN(40) {
			sent += at(r.Int64N(int64(timeout)/int64(4+r.IntN(50)))) + 1
			heard = max(heard, sent)
			if r.IntN(4) == 0 {
				heard += at(r.Int64N(int64(timeout)))
			}
			h.Add(timeout, sent, heard)
			all = append(all, request{sent, heard})
			newest, left := sent, h.Lease(timeout, sent).Remaining(timeout, 0)
			knows := at(0) // when the follower and the client are cut off at this moment
			for _, q := range all {
				if heard.Sub(q.heard) >= halfTick {
					knows = max(knows, q.heard)
				}
			}
			if frees, ends := knows+at(timeout), newest+at(left); frees < ends {
				t.Fatalf("seed %d: requests %v, half a tick %v: the lease ends at %v and the leader frees the session at %v",
					seed, all, halfTick, time.Duration(ends), time.Duration(frees))
			}
		}
	}
}
