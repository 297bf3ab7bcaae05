package discovery_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An instance is registered while its check succeeds, under one id, and is gone when RegisterWhile returns.
func TestRegisterWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		var sick atomic.Bool
		sick.Store(true)
		check := func(ctx context.Context) error {
			if sick.Load() {
				<-ctx.Done() // a check that hangs
				return ctx.Err()
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		i := discovery.Instance{Name: "worker", Address: "10.0.0.1", Port: 8080}
		go func() {
			done <- discovery.RegisterWhile(ctx, k, "/services", i, check, time.Second, discovery.Options{})
		}()
		var path string
		for round := range 3 {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if tree := srv.Tree("/services/worker"); len(tree) > 1 {
				t.Errorf("round %d: a sick instance is registered: %v", round, tree)
			}
			sick.Store(false)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			tree := srv.Tree("/services/worker")
			if len(tree) != 2 || path != "" && tree[1].Path != path {
				t.Fatalf("round %d: got %v, want one instance with one id", round, tree)
			}
			path = tree[1].Path
			sick.Store(true)
		}
		sick.Store(false)
		srv.Link("a").Expire()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(srv.Tree(path)) != 1 {
			t.Error("the instance did not come back after the expiry")
		}
		stop()
		must(t, <-done)
		if len(srv.Tree(path)) != 0 {
			t.Error("the instance is still there after RegisterWhile has returned")
		}
		err := discovery.RegisterWhile(t.Context(), k, "/services", i, check, 0, discovery.Options{})
		want(t, "no interval", err.Error()[:len("register /services/worker/")], "register /services/worker/")
		must(t, k.Close(t.Context()))
		if err := discovery.RegisterWhile(t.Context(), k, "/services", i, check, time.Second, discovery.Options{}); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("after Close of the Keeper: %v", err)
		}
	})
}
