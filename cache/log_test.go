package cache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A large znode changes often: what is kept for readers that are not up to date has a limit, and one that is up to date learns of
// each change.
func TestTheLogOfLargeChangesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, k := srv.Session(t, "s"), srv.Keeper(t, "k")
		_, err := s.Put(t.Context(), "/x", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Open(t.Context(), k, "/x", Options{Single: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := map[Kind]int{}
		go func() {
			for change, err := range c.Changes(ctx) {
				if err == nil {
					told[change.Kind]++
				}
			}
		}()
		synctest.Wait() // or it could begin behind the first change
		const changes = 30
		for i := range changes {
			if _, err := s.Set(t.Context(), "/x", make([]byte, 900<<10), zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			c.mu.Lock()
			log := c.mu.log
			c.mu.Unlock()
			if kept := size(log[:cap(log)]); kept > 40<<20 {
				t.Fatalf("after %d changes the log has %d MiB", i, kept>>20)
			}
		}
		if got, want := fmt.Sprint(told), fmt.Sprintf("map[created:1 changed:%d]", changes); got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	})
}
