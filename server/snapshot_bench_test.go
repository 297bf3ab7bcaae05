package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/server/gcpace"
	"github.com/lockkeeper/lockkeeper/zk"
)

// BenchmarkSetDuringSnapshot is how long one client waits for a write, one after the other, to a
// tree of a million znodes: while nothing else happens (quiet-p50-us, quiet-p99-us), while one
// snapshot after the other is written (p50-us, p99-us), by turns, and how many times longer the slowest of a
// hundred takes then (p99-ratio, which shall not exceed 3). Each is the median of the turns. The garbage
// collector is set as the command sets it.
func BenchmarkSetDuringSnapshot(b *testing.B) {
	const znodes, sets, turns = 1_000_000, 4000, 5
	ctx, cancel := context.WithCancel(context.Background())
	var pace sync.WaitGroup
	pace.Go(func() { gcpace.Run(ctx) })
	defer pace.Wait()
	defer cancel()
	s, err := Open(Options{DataDir: b.TempDir(), SnapCount: 1 << 30, ConnectionsPerAddressMax: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	dial := benchDialer(b, s)
	fill(b, dial, znodes)
	p := dial()
	p.create("/n", zk.Persistent)
	measure := func() (p50, p99 time.Duration) {
		took := make([]time.Duration, sets)
		for i := range took {
			began := time.Now()
			p.exchange(setFrame, setAnswerBytes, 1, 1)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		return took[sets/2], took[sets*99/100]
	}
	for b.Loop() {
		var quiet50, quiet99, busy50, busy99 []time.Duration
		written := 0
		for range turns {
			p50, p99 := measure()
			quiet50, quiet99 = append(quiet50, p50), append(quiet99, p99)
			stop := s.snapshotOnAndOn(b)
			p50, p99 = measure()
			busy50, busy99 = append(busy50, p50), append(busy99, p99)
			written += stop()
		}
		for name, times := range map[string][]time.Duration{"quiet-p50-us": quiet50, "quiet-p99-us": quiet99, "p50-us": busy50, "p99-us": busy99} {
			b.ReportMetric(float64(medianOf(times).Microseconds()), name)
		}
		b.ReportMetric(float64(medianOf(busy99))/float64(medianOf(quiet99)), "p99-ratio")
		b.ReportMetric(float64(written), "snapshots")
	}
}

func medianOf(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

// snapshotOnAndOn writes snapshots until stop is called, which returns how many were begun.
func (s *Server) snapshotOnAndOn(b *testing.B) (stop func() (begun int)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int)
	go func() {
		begun := 0
		for ctx.Err() == nil {
			src := s.newSource()
			src.rests = true
			begun++
			if err := s.store.WriteSnapshot(ctx, src); err != nil && ctx.Err() == nil {
				b.Error(err)
				break
			}
		}
		done <- begun
	}()
	return func() int {
		cancel()
		return <-done
	}
}
