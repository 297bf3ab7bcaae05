// Package fired waits for any of many watches.
package fired

import (
	"reflect"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
)

// Any returns a channel that is closed when one of the watches has fired. stop waits for what watches
// them: one goroutine for many, since a semaphore's waiters may have hundreds each.
func Any(watches []*client.Watch) (fired <-chan struct{}, stop func()) {
	if len(watches) == 1 {
		return watches[0].Done(), func() {}
	}
	any, over := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for some := range slices.Chunk(watches, selectMax) {
		cases := make([]reflect.SelectCase, len(some)+1)
		for i, w := range some {
			cases[i] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.Done())}
		}
		cases[len(some)] = reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(over)}
		wg.Go(func() {
			if chosen, _, _ := reflect.Select(cases); chosen < len(some) {
				once.Do(func() { close(any) })
			}
		})
	}
	return any, func() { close(over); wg.Wait() }
}

// selectMax is how many watches one goroutine watches.
const selectMax = 1000
