package fired

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Many watches take few goroutines, and each of them tells.
func TestAnyFiredOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		watches := make([]*client.Watch, 2*selectMax+1)
		for i := range watches {
			var err error
			if _, _, watches[i], err = s.WatchExists(t.Context(), fmt.Sprint("/n", i)); err != nil {
				t.Fatal(err)
			}
		}
		before := runtime.NumGoroutine()
		_, stop := Any(watches)
		synctest.Wait()
		if n := runtime.NumGoroutine() - before; n > 10 { // one for each thousand, and what else the process is at
			t.Errorf("%d goroutines for %d watches", n, len(watches))
		}
		stop()
		for _, i := range []int{0, selectMax, 2 * selectMax} {
			any, stop := Any(watches)
			if _, err := s.Create(t.Context(), fmt.Sprint("/n", i), nil, zk.Persistent, nil); err != nil {
				t.Fatal(err)
			}
			<-any
			stop()
			watches[i] = watches[(i+1)%len(watches)] // one that has not fired
		}
	})
}
