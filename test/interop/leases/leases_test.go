package leases

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

var howLong = flag.Duration("soak.time", 10*time.Second, "how long to hold locks")

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

const (
	tick = 2 * time.Second // so that a session of 4 s has two ticks, for which the rule is tightest
	// longest is how long a lock is held at most, as a part of the session timeout.
	longest = 3
)

// timeouts are those of the sessions.
var timeouts = []time.Duration{4 * time.Second, 30 * time.Second}

// A tally is what happened to all sessions of one timeout.
type tally struct {
	holds, losses, extra atomic.Int64
	records              []*record
}

// The lease's rule never ends a hold that the rule before it would have kept, as long as the ensemble is well. Each session has
// a lock that it holds for the whole time and one that it takes again and again, after pauses in which its lease is
// not wanted.
func TestNoHoldIsShortened(t *testing.T) {
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: tick})
	ctx, cancel := context.WithTimeout(context.Background(), *howLong)
	defer cancel()
	tallies := make([]tally, len(timeouts))
	var wg sync.WaitGroup
	for i, timeout := range timeouts {
		for _, level := range []client.Vouch{client.VouchSync, client.VouchWrite} {
			for server := range e.Servers {
				s, err := client.Open(ctx, e.Servers[server].Addr(), client.Options{SessionTimeout: timeout})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close(context.Background()) })
				if got := s.Timeout(); got != timeout {
					t.Fatalf("granted %v, want %v", got, timeout)
				}
				r := newRecord(s, level)
				tallies[i].records = append(tallies[i].records, r)
				base := fmt.Sprintf("/soak/%v/%v/%d", timeout, level, server)
				wg.Go(func() { sampleUntil(ctx, r) })
				wg.Go(func() { holdOn(ctx, t, r, &tallies[i], base+"/long") })
				wg.Go(func() { takeAgain(ctx, t, r, &tallies[i], base+"/often") })
			}
		}
	}
	for range runtime.NumCPU() {
		wg.Go(func() { busy(ctx) })
	}
	loads := loadUntil(ctx)
	wg.Wait()
	for i, timeout := range timeouts {
		ta := &tallies[i]
		proofs, shortened, least := 0, 0, timeout
		for _, r := range ta.records {
			proofs += r.mu.all
			shortened += r.mu.shortened
			least = min(least, r.mu.least)
		}
		fmt.Printf("lease-soak: duration=%v T=%v sessions=%d holds=%d proofs=%d shortened-by-the-new-rule=%d least-left=%v losses=%d losses-old-rule-would-not-have-had=%d load=%.1f violations=%d\n",
			howLong.Round(time.Second), timeout, len(ta.records), ta.holds.Load(), proofs, shortened, least.Round(time.Millisecond), ta.losses.Load(), ta.extra.Load(), loads(), ta.extra.Load())
		if ta.extra.Load() > 0 {
			t.Errorf("T=%v: %d holds were lost that the old rule would have kept", timeout, ta.extra.Load())
		}
		if ta.holds.Load() < int64(len(ta.records)) || proofs < len(ta.records) {
			t.Errorf("T=%v: %d holds and %d proofs: nothing was shown", timeout, ta.holds.Load(), proofs)
		}
	}
}

// busy keeps a processor busy for two thirds of the time, until ctx is over.
func busy(ctx context.Context) {
	for ctx.Err() == nil {
		for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// sampleUntil looks at a session for as long as ctx lasts.
func sampleUntil(ctx context.Context, r *record) {
	ticks := time.NewTicker(sampleInterval)
	defer ticks.Stop()
	for ctx.Err() == nil {
		<-ticks.C
		r.sample()
	}
}

// holdOn holds a lock for as long as ctx lasts, and takes it again whenever it is lost.
func holdOn(ctx context.Context, t *testing.T, r *record, ta *tally, path string) {
	for ctx.Err() == nil && r.s.Err() == nil {
		take(ctx, t, r, ta, path, *howLong)
	}
}

// takeAgain takes a lock again and again, with pauses.
func takeAgain(ctx context.Context, t *testing.T, r *record, ta *tally, path string) {
	for ctx.Err() == nil && r.s.Err() == nil {
		take(ctx, t, r, ta, path, time.Duration(rand.Int64N(int64(longest*r.timeout))))
		pause(ctx, time.Duration(rand.Int64N(int64(r.timeout))))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// take holds a lock once and judges how the hold ends.
func take(ctx context.Context, t *testing.T, r *record, ta *tally, path string, d time.Duration) {
	m, err := lock.NewMutex(r.s, path, lock.Options{Vouch: r.level})
	if err != nil {
		t.Error(err)
		return
	}
	h, err := m.Lock(ctx)
	if err != nil {
		switch {
		case errors.Is(err, zk.ErrSessionExpired):
			ta.losses.Add(1)
		case ctx.Err() == nil:
			t.Errorf("lock %s: %v", path, err)
			pause(ctx, time.Second)
		}
		return
	}
	ta.holds.Add(1)
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil && h.Cause() == nil; {
		select {
		case <-ctx.Done():
		case <-h.Done():
		case <-time.After(min(time.Until(end), time.Second)):
		}
	}
	lost := r.now()
	var loss *lock.LostError
	if !errors.As(h.Cause(), &loss) {
		if err := h.Release(context.Background()); err != nil {
			t.Errorf("release %s: %v", path, err)
		}
		return
	}
	ta.losses.Add(1)
	pause(ctx, r.timeout) // until the old rule would have ended the hold, or kept it
	r.mu.Lock()
	old := loss.Reason() != lock.LossDeadline || oldRuleLost(r.timeout, r.mu.proofs, lost)
	t.Logf("T=%v: %v; the old rule too: %v; proofs around %v: %v", r.timeout, loss, old, lost, r.mu.proofs[max(0, len(r.mu.proofs)-20):])
	r.mu.Unlock()
	if !old {
		ta.extra.Add(1)
	}
	h.Release(context.Background()) // the hold is over; this only cleans up
}

// loadUntil reads the machine's load average until ctx is over; what it returns waits for that, and gives the mean.
func loadUntil(ctx context.Context) func() float64 {
	sum, n := 0.0, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			b, err := os.ReadFile("/proc/loadavg")
			var load float64
			if first, _, _ := strings.Cut(string(b), " "); err == nil {
				fmt.Sscan(first, &load)
			}
			sum, n = sum+load, n+1
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
		}
	}()
	return func() float64 { <-done; return sum / float64(n) }
}

// The judgement on a loss: the old rule loses a hold when two thirds of the timeout pass without another proof.
func TestOldRule(t *testing.T) {
	const timeout = 6 * time.Second
	seconds := func(pairs ...float64) (all []sighting) {
		for i := 0; i < len(pairs); i += 2 {
			all = append(all, sighting{time.Duration(pairs[i] * float64(time.Second)), time.Duration(pairs[i+1] * float64(time.Second))})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		proofs []sighting
		lost   time.Duration
		want   bool
	}{
		{"no further proof", seconds(1, 1), 5 * time.Second, true},
		{"the next proof was in time", seconds(1, 1, 4, 4.5), 4 * time.Second, false},
		{"the next proof was late", seconds(1, 1, 4, 5.5), 4 * time.Second, true},
		{"a proof that was late long ago", seconds(1, 1, 6, 6, 7, 7, 8, 8), 7900 * time.Millisecond, false},
		{"the answer came just behind the end", seconds(1, 1, 4.9, 5.1, 6, 6), 5050 * time.Millisecond, true},
	} {
		if got := oldRuleLost(timeout, c.proofs, c.lost); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
