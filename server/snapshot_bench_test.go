package server

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
)

// BenchmarkSetDuringSnapshot is how long one client waits for a write, one after the other, to a
// tree of 200000 znodes: while nothing else happens (quiet-p50-us, quiet-p99-us), and while
// one snapshot after the other is written (p50-us, p99-us).
func BenchmarkSetDuringSnapshot(b *testing.B) {
	const znodes, sets = 200_000, 4000
	s, err := Open(Options{DataDir: b.TempDir(), SnapCount: 1 << 30, ConnectionsPerAddressMax: -1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	dial := benchDialer(b, s)
	fill(b, dial, znodes)
	p := dial()
	p.create("/n", zk.Persistent)
	measure := func(name string) {
		took := make([]time.Duration, sets)
		for i := range took {
			began := time.Now()
			p.exchange(setFrame, setAnswerBytes, 1, 1)
			took[i] = time.Since(began)
		}
		slices.Sort(took)
		for _, percent := range []int{50, 99} {
			b.ReportMetric(float64(took[len(took)*percent/100].Microseconds()), fmt.Sprintf("%sp%d-us", name, percent))
		}
	}
	for b.Loop() {
		measure("quiet-")
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan int)
		go func() {
			written := 0
			for ; ctx.Err() == nil; written++ {
				src := s.newSource()
				src.rests = true
				if err := s.store.WriteSnapshot(ctx, src); err != nil {
					break
				}
			}
			done <- written
		}()
		measure("")
		cancel()
		b.ReportMetric(float64(<-done), "snapshots")
	}
}
