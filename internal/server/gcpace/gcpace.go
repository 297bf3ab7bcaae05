// Package gcpace sets the pace of the garbage collector for a process that is a server of znodes:
// what it keeps may be a few megabytes or many gigabytes, and what it throws away is the same small
// stuff either way. The runtime's own rule, a heap twice as large as what is alive, suits neither:
// with little alive it collects all the time, with much it takes twice the memory.
//
// The pace belongs to the whole process. So it is for a command to set it, not for a library.
package gcpace

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The heap may grow by headroomBytes beyond what is alive before it is collected, but by no less and
// no more than the percentages.
const (
	headroomBytes = 48 << 20
	percentMin    = 20
	percentMax    = 800
)

// Run adjusts the pace behind each collection until ctx ends: between two of them it would rest on what was alive long ago, and what
// is alive may grow by hundreds of megabytes in a tenth of a second. Then it restores what it found.
func Run(ctx context.Context) {
	set := percent(live())
	found := debug.SetGCPercent(set)
	defer func() { debug.SetGCPercent(found) }()
	collected := make(chan struct{}, 1)
	for {
		tellOfNext(collected)
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
		// Every setting stops the world for a moment, so what makes little difference is left alone.
		if want := percent(live()); math.Abs(float64(want-set)) > float64(set)/10 {
			set = want
			debug.SetGCPercent(set)
		}
	}
}

// tellOfNext sends to collected when the next collection is over, which finds a piece of memory that nothing refers to.
func tellOfNext(collected chan<- struct{}) {
	runtime.AddCleanup(new([64]byte), func(collected chan<- struct{}) {
		select {
		case collected <- struct{}{}:
		default:
		}
	}, collected)
}

// percent is the growth to allow with so much alive.
func percent(liveBytes uint64) int {
	return int(min(max(headroomBytes*100/max(liveBytes, 1), percentMin), percentMax))
}

// live is what the last collection found to be in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return headroomBytes
	}
	return s[0].Value.Uint64()
}
