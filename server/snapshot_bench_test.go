package server

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/gcpace"
	"github.com/lockkeeper/lockkeeper/zk"
)

// BenchmarkSetDuringSnapshot is how long one client waits for a write, one after the other, to a
// tree of a million znodes: while nothing else happens (quiet-p50-us, quiet-p99-us), while a snapshot
// is written from its begin to its end (p50-us, p99-us), by turns, and how many times longer the slowest
// of a hundred takes then (p99-ratio, which shall not exceed 3). Each is the median of the turns. The
// garbage collector is set as the command sets it.
func BenchmarkSetDuringSnapshot(b *testing.B) {
	const znodes, sets, turns = 1_000_000, 4000, 3
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
	measure := func(done <-chan error) (p50, p99 time.Duration) {
		var took []time.Duration
		for over := false; !over || len(took) < sets; {
			began := time.Now()
			p.exchange(setFrame, setAnswerBytes, 1, 1)
			took = append(took, time.Since(began))
			select {
			case err := <-done:
				over = true
				if err != nil {
					b.Fatal(err)
				}
			default:
			}
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	for b.Loop() {
		var quiet50, quiet99, busy50, busy99, snapshots []time.Duration
		for range turns {
			nothing := make(chan error)
			close(nothing)
			p50, p99 := measure(nothing)
			quiet50, quiet99 = append(quiet50, p50), append(quiet99, p99)
			written := make(chan error, 1)
			began := time.Now()
			go func() {
				src := s.newSource()
				src.rests = true
				written <- s.store.WriteSnapshot(context.Background(), src)
			}()
			p50, p99 = measure(written)
			busy50, busy99, snapshots = append(busy50, p50), append(busy99, p99), append(snapshots, time.Since(began))
		}
		for name, times := range map[string][]time.Duration{"quiet-p50-us": quiet50, "quiet-p99-us": quiet99, "p50-us": busy50, "p99-us": busy99} {
			b.ReportMetric(float64(medianOf(times).Microseconds()), name)
		}
		b.ReportMetric(float64(medianOf(busy99))/float64(medianOf(quiet99)), "p99-ratio")
		b.ReportMetric(medianOf(snapshots).Seconds(), "snapshot-s")
	}
}

func medianOf(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
