//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

func TestBench(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, c := range []struct {
		args   []string
		locks  int
		shared bool
	}{
		{nil, 3, false},
		{[]string{"--shared"}, 1, true},
		{[]string{"--locks", "2"}, 2, false},
	} {
		out := h.run(append([]string{"bench", "--json", "--clients", "3", "--duration", "200ms"}, c.args...)...).want(0).stdout.String()
		var r benchResult
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if r.Clients != 3 || r.Locks != c.locks || r.Shared != c.shared || r.Cycles < 3 || r.Seconds < 0.2 ||
			math.Abs(r.CyclesPerSecond*r.Seconds-float64(r.Cycles)) > 1 || r.P50 <= 0 || r.P99 < r.P50 || r.P999 < r.P99 || r.Max < r.P999 ||
			r.RequestsPerCycle < 2 || r.RequestsPerCycle > 10 {
			t.Errorf("bench %v: %+v", c.args, r)
		}
	}
	h.run("bench", "--duration", "10ms").want(0)
	h.run("bench", "--clients", "0").want(64, "--clients")
	h.run("bench", "--clients", "2", "--locks", "3").want(64, "--locks")
	h.run("bench", "--shared", "--locks", "1").want(64, "--shared and --locks")
	h.run("bench", "--duration", "0s").want(64, "--duration")
	j := h.start("bench", "--duration", "1h")
	h.benchBegun()
	j.signal(syscall.SIGINT)
	j.wantInterrupted()
	if left := h.children(benchPath); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Whose server has gone ends when it is told to, and does not wait for an answer for each of its sessions.
func TestBenchWithoutServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	srv, addr := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	j := h.start("bench", "--servers", addr, "--clients", "5", "--duration", "1h")
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+addr)
	h.benchBegun()
	srv.signal(syscall.SIGKILL)
	srv.status()
	told := time.Now()
	j.signal(syscall.SIGINT)
	j.wantInterrupted()
	if took, limit := time.Since(told), 3*benchCleanupLimit; took > limit {
		t.Errorf("it ends %v after it was told to, want at most %v", took, limit)
	}
}

func TestFailIfStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, fail := context.WithCancelCause(t.Context())
		var cycles atomic.Int64
		go failIfStuck(ctx, fail, &cycles)
		for range 5 {
			time.Sleep(benchStuckLimit - time.Second)
			cycles.Add(1)
		}
		if err := context.Cause(ctx); err != nil {
			t.Errorf("with a cycle now and then: %v", err)
		}
		time.Sleep(2 * benchStuckLimit)
		if err := context.Cause(ctx); err == nil {
			t.Errorf("goes on although no lock was granted for %v", 2*benchStuckLimit)
		}
	})
}

// benchBegun waits until a bench has made its locks.
func (h *home) benchBegun() {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if len(h.children(benchPath)) > 0 {
			return
		}
	}
	h.t.Fatal("bench has made no znode")
}

// children lists the children of a znode of the local keeper.
func (h *home) children(path string) []string {
	h.t.Helper()
	var rows []serverStatus
	out := h.run("status", "--json").want(0).stdout.String()
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		h.t.Fatalf("%v: %s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := client.Open(ctx, rows[0].Server, client.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	defer s.Close(ctx)
	names, _, err := s.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		h.t.Fatal(err)
	}
	return names
}

// The histogram against sorting.
func TestHistogram(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	rng := rand.New(rand.NewPCG(seed, 0))
	var whole histogram
	var times []time.Duration
	for range 4 {
		var part histogram
		for range 1 + rng.IntN(300) {
			d := time.Duration(rng.Int64() >> rng.IntN(63))
			part.add(d)
			times = append(times, d)
		}
		whole.merge(&part)
	}
	slices.Sort(times)
	for _, q := range []float64{0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		want := times[int(math.Ceil(q*float64(len(times))))-1]
		if got := whole.quantile(q); got < want || float64(got-want) > float64(want)/100 {
			t.Errorf("seed %d: quantile(%v) = %d, want %d", seed, q, got, want)
		}
	}
	if whole.count != int64(len(times)) || whole.max != times[len(times)-1] {
		t.Errorf("seed %d: %d times up to %v", seed, whole.count, whole.max)
	}
	var none histogram
	if got := none.quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing: %v", got)
	}
}

func TestTimesAreRounded(t *testing.T) {
	t.Parallel()
	for us, want := range map[float64]string{0: "0s", 0.4: "400ns", 431.2: "431µs", 5669: "5.67ms", 15729: "15.7ms", 1234567: "1.23s", 75432100: "1m15.4s"} {
		if got := rounded(us); got != want {
			t.Errorf("%v µs are shown as %s, want %s", us, got, want)
		}
	}
}
