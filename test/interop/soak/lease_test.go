package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

// A tally counts what the holds of one session timeout went through.
type tally struct {
	holds     atomic.Int64 // granted
	samples   atomic.Int64 // looks at the time that a hold had left
	shortened atomic.Int64 // by how many nanoseconds a hold had less left than 2/3 of the timeout after the newest proof, at most
	least     atomic.Int64 // the least time that a hold had left, in nanoseconds
	lost      atomic.Int64 // by their deadline, or in any other way
	needless  atomic.Int64 // of these, how many had time left by the plain rule of 2/3
}

// With a healthy ensemble of three servers and a busy machine, no hold is lost that would have lasted if the deadline were
// two thirds of the timeout after the newest proof: the two other conditions of the lease cost nothing as long as
// heartbeats are answered. For each timeout it prints one line that begins with "lease-soak:".
func TestF17_TheLeaseCostsNoHold(t *testing.T) {
	ensemble := apache.StartEnsemble(t, 3, apache.Options{Tick: 2 * time.Second}) // as ZooKeeper's own default
	ctx, cancel := context.WithTimeout(t.Context(), *howLong)
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { busy(ctx) })
	}
	timeouts := []time.Duration{4 * time.Second, 30 * time.Second}
	tallies := make([]tally, len(timeouts))
	for i, timeout := range timeouts {
		tallies[i].least.Store(int64(timeout))
		for j, level := range []client.Vouch{client.VouchPing, client.VouchSync, client.VouchWrite} {
			path := fmt.Sprintf("/soak/%v/%v", timeout, level)
			all.Go(func() { holdOn(ctx, t, ensemble.Servers[j].Addr(), path, timeout, level, &tallies[i]) })
		}
	}
	all.Wait()
	for i, timeout := range timeouts {
		n := &tallies[i]
		fmt.Printf("lease-soak: seconds=%.0f timeout=%v holds=%d samples=%d shortened_by=%v least_left=%v lost=%d lost_needlessly=%d violations=%d\n",
			howLong.Seconds(), timeout, n.holds.Load(), n.samples.Load(), time.Duration(n.shortened.Load()).Round(time.Millisecond),
			time.Duration(n.least.Load()).Round(time.Millisecond), n.lost.Load(), n.needless.Load(), n.needless.Load())
		if n.holds.Load() < 3 {
			t.Errorf("timeout %v: %d holds, want one of each level or more", timeout, n.holds.Load())
		}
		if n.needless.Load() > 0 {
			t.Errorf("timeout %v: %d holds were lost that had time left by the plain rule", timeout, n.needless.Load())
		}
	}
}

// busy keeps a processor busy most of the time.
func busy(ctx context.Context) {
	for ctx.Err() == nil {
		for until := time.Now().Add(70 * time.Millisecond); time.Now().Before(until); {
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// holdOn holds one lock for as long as it lasts, by turns with short holds of another one, until ctx ends.
func holdOn(ctx context.Context, t *testing.T, server, path string, timeout time.Duration, level client.Vouch, n *tally) {
	s, err := client.Open(ctx, server, client.Options{SessionTimeout: timeout})
	if err != nil {
		t.Error(err)
		return
	}
	defer s.Close(context.Background())
	if s.Timeout() != timeout {
		t.Errorf("the session timeout is %v, want %v", s.Timeout(), timeout)
	}
	long, err := lock.NewMutex(s, path+"/long", lock.Options{Vouch: level})
	if err != nil {
		t.Error(err)
		return
	}
	short, err := lock.NewMutex(s, path+"/short", lock.Options{Vouch: level})
	if err != nil {
		t.Error(err)
		return
	}
	for ctx.Err() == nil {
		h, err := long.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				t.Errorf("%s: %v", path, err)
			}
			return
		}
		n.holds.Add(1)
		for turn := 0; ctx.Err() == nil && h.Cause() == nil; turn++ {
			plain := timeout*2/3 - s.Age(level)
			left := h.Left()
			n.samples.Add(1)
			n.shortened.Store(max(n.shortened.Load(), int64(plain-left)))
			n.least.Store(min(n.least.Load(), int64(left)))
			if turn%100 == 99 { // every few seconds there is other work
				err := short.Do(ctx, func(context.Context) error { return nil })
				if err != nil && ctx.Err() == nil && h.Cause() == nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
		if cause := h.Cause(); cause != nil {
			plain := timeout*2/3 - s.Age(level)
			n.lost.Add(1)
			if errors.Is(cause, lock.ErrDeadline) && plain > 0 {
				n.needless.Add(1)
			}
			t.Logf("%s: %v; %v left by the plain rule", path, cause, plain)
		}
		if err := h.Release(context.Background()); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
