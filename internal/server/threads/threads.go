// Package threads lets Go use more threads than the machine has processors while a server carries out requests that take
// long.
//
// With as many threads as processors, a few goroutines that compute keep all others waiting: Go looks at the network every
// 10 ms only, and a goroutine that has become ready waits for the end of another's 10 ms, at each step of a request. With
// more threads the kernel shares the processors, and a thread that has waited for the network goes first. It costs other
// requests 3 to 6 % of their rates; therefore the number goes back when no long request has come for a while.
//
// The number belongs to the whole process. So it is for a command to let it change, by Run, not for a library.
package threads

import (
	"context"
	"os"
	"runtime"
	"time"
)

const (
	factor = 2           // so many times the processors
	calm   = time.Second // without a long request, until the number goes back
)

// needed holds a value if a long request has come since Run looked.
var needed = make(chan struct{}, 1)

// Need says that a request is carried out that takes long. Without Run it does nothing.
func Need() { need(needed) }

func need(needed chan<- struct{}) {
	select {
	case needed <- struct{}{}:
	default:
	}
}

// Run changes the number of threads when Need is called, until ctx ends. Then it restores what it found.
func Run(ctx context.Context) {
	found := runtime.GOMAXPROCS(0)
	run(ctx, needed, func(more bool) {
		switch {
		case more:
			runtime.GOMAXPROCS(factor * found)
		case os.Getenv("GOMAXPROCS") == "":
			runtime.SetDefaultGOMAXPROCS() // which goes on to follow the limits of a container
		default:
			runtime.GOMAXPROCS(found)
		}
	})
}

// run calls set when the number has to change.
func run(ctx context.Context, needed <-chan struct{}, set func(more bool)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-needed:
		}
		set(true)
		awaitCalm(ctx, needed)
		set(false)
	}
}

// awaitCalm returns when no long request has come for a while, or ctx ends.
func awaitCalm(ctx context.Context, needed <-chan struct{}) {
	tick := time.NewTicker(calm)
	defer tick.Stop()
	for again := true; again; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-needed:
		default:
			again = false
		}
	}
}
