package lock_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// BenchmarkAll3 takes and gives back three locks that no other contender wants: together, which takes one round trip
// each way, and one after the other.
func BenchmarkAll3(b *testing.B) {
	s := benchSession(b, benchServers(b), client.Options{})
	var mutexes []*lock.Mutex
	var members []lock.Member
	for i := range 3 {
		m := benchMutex(b, s, fmt.Sprintf("/bench/all-%d", i))
		mutexes, members = append(mutexes, m), append(members, m)
	}
	all, err := lock.NewAll(members...)
	if err != nil {
		b.Fatal(err)
	}
	together := func(ctx context.Context) error { return all.Do(ctx, func(context.Context) error { return nil }) }
	inSequence := func(ctx context.Context) error {
		var holds []*lock.Hold
		for _, m := range mutexes {
			h, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			holds = append(holds, h)
		}
		for _, h := range holds {
			if err := h.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for _, way := range []struct {
		name  string
		cycle func(context.Context) error
	}{{"together", together}, {"in sequence", inSequence}} {
		b.Run(way.name, func(b *testing.B) {
			if err := way.cycle(b.Context()); err != nil { // the directories are there
				b.Fatal(err)
			}
			before := s.Stats()
			b.ReportAllocs()
			for b.Loop() {
				if err := way.cycle(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			after := s.Stats()
			n := float64(b.N)
			b.ReportMetric(float64(after.Requests-before.Requests)/n, "requests/op")
			b.ReportMetric(float64(after.Writes-before.Writes)/n, "roundtrips/op")
		})
	}
}
