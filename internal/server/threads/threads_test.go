package threads

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestMoreWhileNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		needed := make(chan struct{}, 1)
		type change struct {
			at   time.Duration
			more bool
		}
		var got []change
		began := time.Now()
		done := make(chan struct{})
		go func() {
			defer close(done)
			run(ctx, needed, func(more bool) { got = append(got, change{time.Since(began), more}) })
		}()
		time.Sleep(10 * calm)
		for range 4 {
			need(needed)
			time.Sleep(calm / 2)
		}
		time.Sleep(10 * calm)
		need(needed)
		time.Sleep(calm / 2)
		cancel()
		<-done
		from := 10 * calm
		want := []change{{from, true}, {from + 3*calm, false}, {from + 12*calm, true}, {from + 12*calm + calm/2, false}}
		if !slices.Equal(got, want) {
			t.Errorf("changes %v, want %v", got, want)
		}
	})
}

func TestRunRestores(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Run(ctx)
	}()
	doubled := false
	for deadline := time.Now().Add(time.Minute); !doubled && time.Now().Before(deadline); runtime.Gosched() {
		Need() // again and again: a moment in which it is doubled may be missed
		doubled = runtime.GOMAXPROCS(0) == factor*before
	}
	cancel()
	<-done
	if !doubled {
		t.Error("the number does not change")
	}
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d left, want %d", now, before)
	}
}
