package lock

import (
	"runtime"
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// Holds that are entered under a hold that lasts, and released, leave nothing with it.
func TestHoldsThatWereReleasedLeaveNothing(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	m, err := NewMutex(srv.Session(t, "s"), "/locks/a", Options{Reentrant: true})
	must(t, err)
	all, err := NewAll(m)
	must(t, err)
	outer, err := m.Lock(t.Context())
	must(t, err)
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	const cycles = 20_000
	var before int64
	for i := range 2 * cycles {
		if i == cycles {
			before = heap()
		}
		h, err := all.Lock(outer.Context())
		must(t, err)
		must(t, h.Release(t.Context()))
	}
	if grown := heap() - before; grown > 50*cycles {
		t.Errorf("%d cycles have left %d bytes", cycles, grown)
	}
	must(t, outer.Release(t.Context()))
}
