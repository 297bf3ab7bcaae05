package gcpace

import (
	"context"
	"runtime/debug"
	"testing"
	"testing/synctest"
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

func TestRunRestores(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx)
		}()
		time.Sleep(3 * every)
		if now := debug.SetGCPercent(123); now == 123 {
			t.Error("Run has set nothing")
		}
		cancel()
		<-done
	})
	if now := debug.SetGCPercent(123); now != 123 {
		t.Errorf("Run has left %d", now)
	}
}
