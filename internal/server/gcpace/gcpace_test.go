package gcpace

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: percentMax, 1 << 20: percentMax, headroomBytes: 100, 2 * headroomBytes: 50, 5 * headroomBytes: 20, 1 << 40: percentMin,
	} {
		if got := percent(live); got != want {
			t.Errorf("percent(%d) = %d, want %d", live, got, want)
		}
	}
}

// Run sets the pace at once, again behind each collection, and restores in the end what it found.
func TestRun(t *testing.T) {
	const foreign = 123
	before := debug.SetGCPercent(foreign)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx)
	}()
	limit := time.Now().Add(time.Minute)
	collectUntil := func(what string, is func(percent uint64) bool) {
		t.Helper()
		for !is(now()) {
			if time.Now().After(limit) {
				t.Fatalf("the pace is still %d %%, want %s", now(), what)
			}
			runtime.GC()
		}
	}
	collectUntil("that of little", func(p uint64) bool { return p > 200 })
	alive := make([]byte, 4*headroomBytes)
	collectUntil("that of much", func(p uint64) bool { return p < 30 })
	runtime.KeepAlive(alive)
	collectUntil("that of little again", func(p uint64) bool { return p > 200 })
	cancel()
	<-done
	if p := now(); p != foreign {
		t.Errorf("Run has left %d %%", p)
	}
}

// now is the pace that is set.
func now() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
