package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A client that sets many watches counts those that it has while others' watches fire and connections with watches end. The race
// detector judges.
func TestManyWatchesWhileOthersFire(t *testing.T) {
	r := start(t)
	many, waiter, writer := r.connect("many"), r.connect("waiter"), r.connect("writer")
	var q wire.SetWatchesRequest
	for i := range 100 {
		q.Exist = append(q.Exist, fmt.Sprintf("/%s-%d", strings.Repeat("x", 50), i))
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			many.raw(frameOf(wire.XidSetWatches, wire.OpSetWatches, &q))
			if a := many.receiveAnswer(); a.Err != zk.OK {
				t.Errorf("setWatches: %v", a.Err)
			}
		}
	})
	wg.Go(func() {
		for range 200 {
			waiter.send(wire.OpExists, &wire.WatchRequest{Path: "/n", Watch: true})
			waiter.receiveAnswer()
		}
	})
	wg.Go(func() {
		for range 200 {
			writer.create("/n", zk.Persistent)
			writer.call(wire.OpDelete, &wire.VersionRequest{Path: "/n", Version: -1}, nil)
		}
	})
	wg.Wait()
}
