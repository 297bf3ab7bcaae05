package discovery_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
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
			done <- discovery.RegisterWhile(ctx, k, "/services", i, check, time.Second, discovery.RegisterOptions{})
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
		err := discovery.RegisterWhile(t.Context(), k, "/services", i, check, 0, discovery.RegisterOptions{})
		want(t, "no interval", err.Error()[:len("register /services/worker/")], "register /services/worker/")
		must(t, k.Close(t.Context()))
		if err := discovery.RegisterWhile(t.Context(), k, "/services", i, check, time.Second, discovery.RegisterOptions{}); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("after Close of the Keeper: %v", err)
		}
	})
}

// A check that does not return counts as an error, and keeps RegisterWhile from nothing.
func TestACheckThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		var hangs atomic.Bool
		var calls atomic.Int32
		returns := make(chan struct{})
		check := func(context.Context) error {
			calls.Add(1)
			if hangs.Load() {
				<-returns
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			i := discovery.Instance{Name: "worker", ID: "1", Address: "10.0.0.1", Port: 8080}
			done <- discovery.RegisterWhile(ctx, k, "/services", i, check, time.Second, discovery.RegisterOptions{})
		}()
		for range 3 {
			time.Sleep(5 * time.Second)
			if len(srv.Tree(workerPath)) == 0 {
				t.Error("a healthy instance is not registered")
			}
			hangs.Store(true)
			time.Sleep(1500 * time.Millisecond) // the check hangs
			before := calls.Load()
			time.Sleep(10 * time.Second)
			if n := calls.Load() - before; len(srv.Tree(workerPath)) > 0 || n > 0 {
				t.Errorf("%d more checks beside one that hangs; registered: %v", n, srv.Tree(workerPath))
			}
			hangs.Store(false)
			returns <- struct{}{}
		}
		hangs.Store(true)
		time.Sleep(1500 * time.Millisecond)
		stop()
		must(t, <-done)
		if len(srv.Tree(workerPath)) > 0 {
			t.Error("it is registered after the end")
		}
		close(returns)
	})
}

// The answer of a check that comes late says nothing of the instance as it is by then, and a panic is an answer.
func TestChecksThatAreLateOrPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k := keep(t, srv, "a")
		var calls atomic.Int32
		check := func(context.Context) error {
			if calls.Add(1) == 1 {
				time.Sleep(11 * time.Second) // healthy at that time
				return nil
			}
			panic("sick")
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			i := discovery.Instance{Name: "worker", ID: "1", Address: "10.0.0.1", Port: 8080}
			done <- discovery.RegisterWhile(ctx, k, "/services", i, check, 10*time.Second, discovery.RegisterOptions{})
		}()
		for range 30 {
			time.Sleep(time.Second)
			if len(srv.Tree(workerPath)) > 0 {
				t.Error("it is registered")
			}
		}
		if n := calls.Load(); n < 3 {
			t.Errorf("%d checks in 30 s", n)
		}
		stop()
		must(t, <-done)
	})
}

// A run is a RegisterWhile of the instance worker/1.
type run struct {
	sick atomic.Bool
	stop context.CancelFunc
	done chan error
}

const workerPath = "/services/worker/1"

func registerWhile(t *testing.T, k *client.Keeper) *run {
	return registerWhileWith(t, k, false, discovery.RegisterOptions{CloseTimeout: 2 * time.Second})
}

// registerWhileWith begins a run, of an instance that may be sick from the beginning.
func registerWhileWith(t *testing.T, k *client.Keeper, sick bool, opt discovery.RegisterOptions) *run {
	r := &run{done: make(chan error, 1)}
	r.sick.Store(sick)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	check := func(context.Context) error {
		if r.sick.Load() {
			return errors.New("sick")
		}
		return nil
	}
	go func() {
		i := discovery.Instance{Name: "worker", ID: "1", Address: "10.0.0.1", Port: 8080}
		r.done <- discovery.RegisterWhile(ctx, k, "/services", i, check, time.Second, opt)
	}()
	return r
}

// After a registration whose end is not known to have worked, the error is nil only if the instance is gone.
func TestRegisterWhileOfAnEndThatFailed(t *testing.T) {
	for _, healed := range []string{"never", "never, and healthy again", "never, and sick again", "later", "and healthy again"} {
		t.Run(healed, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				r := registerWhile(t, keep(t, srv, "a"))
				time.Sleep(1500 * time.Millisecond)
				srv.Link("a").Freeze()
				r.sick.Store(true)
				time.Sleep(4 * time.Second)
				if !strings.HasPrefix(healed, "never") {
					srv.Link("a").Heal()
				} else if healed != "never" {
					r.sick.Store(false)
					time.Sleep(2 * time.Second)
					r.sick.Store(healed == "never, and sick again")
					time.Sleep(2 * time.Second)
				}
				if healed == "and healthy again" {
					r.sick.Store(false)
					time.Sleep(5 * time.Second)
					synctest.Wait()
					if len(srv.Tree(workerPath)) != 1 {
						t.Error("the instance did not come back")
					}
				}
				r.stop()
				err := <-r.done
				there := len(srv.Tree(workerPath)) > 0
				if strings.HasPrefix(healed, "never") != there || (err != nil) != there {
					t.Errorf("there: %v; RegisterWhile: %v", there, err)
				}
				srv.Link("a").Heal()
			})
		})
	}
}

// A registration that is cut short may have been carried out.
func TestRegisterWhileOfALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		must(t, srv.Session(t, "other").EnsurePath(t.Context(), "/services/worker", nil))
		proxy := faultproxy.New(srv.Link("a").Dial)
		defer proxy.Close()
		created := faultproxy.Match{Ops: faultproxy.Creates(), Path: workerPath}
		proxy.After(created, func(faultproxy.Request, faultproxy.Reply) { proxy.Refuse(true) })
		proxy.CutAfter(created)
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: proxy.Dial})
		must(t, err)
		defer k.Close(context.Background())
		r := registerWhile(t, k)
		time.Sleep(1500 * time.Millisecond)
		r.stop()
		err = <-r.done
		if there := len(srv.Tree(workerPath)) > 0; !there || err == nil {
			t.Errorf("there: %v; RegisterWhile: %v", there, err)
		}
		proxy.Refuse(false)
	})
}

// What has taken the id over while the instance was registered, or sick, keeps it: its process came later. So does what comes
// before the instance was ever healthy.
func TestRegisterWhileALaterOneTakesTheIDOver(t *testing.T) {
	for _, c := range []struct{ atFirst, then bool }{{false, false}, {false, true}, {true, true}} { // whether the earlier one is sick, when the later one comes
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			opt := discovery.RegisterOptions{TakeOver: true}
			earlier := registerWhileWith(t, keep(t, srv, "a"), c.atFirst, opt)
			time.Sleep(3 * time.Second)
			earlier.sick.Store(c.then)
			time.Sleep(3 * time.Second)
			later := registerWhileWith(t, keep(t, srv, "b"), true, opt)
			time.Sleep(3 * time.Second)
			later.sick.Store(false)
			time.Sleep(3 * time.Second)
			if got := srv.Tree(workerPath).String(); !strings.Contains(got, "of b") {
				t.Errorf("%+v: the later process has not taken the id over: %s", c, got)
			}
			earlier.sick.Store(true)
			time.Sleep(3 * time.Second)
			owner := srv.Tree(workerPath)[0].Stat.EphemeralOwner
			earlier.sick.Store(false)
			time.Sleep(time.Minute)
			if now := srv.Tree(workerPath)[0].Stat.EphemeralOwner; now != owner {
				t.Errorf("%+v: the earlier process has taken the id back", c)
			}
			later.stop()
			must(t, <-later.done)
			time.Sleep(time.Minute)
			if len(srv.Tree(workerPath)) != 1 {
				t.Errorf("%+v: the earlier process does not register again when the later one has gone", c)
			}
			earlier.stop()
			must(t, <-earlier.done)
		})
	}
}

// The session that has the id is replaced also if there is no server at first that could say which that is.
func TestRegisterWhileTakesOverWithoutAServerAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		other := registerWhile(t, keep(t, srv, "other"))
		k := keep(t, srv, "a")
		srv.Link("a").Freeze()
		r := registerWhileWith(t, k, false, discovery.RegisterOptions{TakeOver: true})
		time.Sleep(time.Minute)
		srv.Link("a").Heal()
		time.Sleep(time.Minute)
		if got := srv.Tree(workerPath).String(); !strings.Contains(got, "of a") {
			t.Errorf("the id is not taken over: %s", got)
		}
		other.stop()
		r.stop()
		must(t, errors.Join(<-other.done, <-r.done))
	})
}

// While the registration waits for another owner of the id, the check goes on, and a sick instance is not registered.
func TestRegisterWhileAnotherOwnsTheID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		other := srv.Session(t, "other")
		must(t, other.EnsurePath(t.Context(), "/services/worker", nil))
		_, err := other.Create(t.Context(), workerPath, nil, zk.Ephemeral, nil)
		must(t, err)
		r := registerWhile(t, keep(t, srv, "a"))
		time.Sleep(5 * time.Second)
		r.sick.Store(true)
		time.Sleep(5 * time.Second)
		events, err := srv.Session(t, "third").AddWatch(t.Context(), workerPath, false)
		must(t, err)
		must(t, other.Close(t.Context()))
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for ev, err := events.Next(ctx); err == nil; ev, err = events.Next(ctx) {
			if ev.Type == zk.NodeCreated {
				t.Error("a sick instance was registered")
			}
		}
		r.sick.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(srv.Tree(workerPath)) != 1 {
			t.Error("the healthy instance is not registered")
		}
		r.stop()
		must(t, <-r.done)
		if len(srv.Tree(workerPath)) != 0 {
			t.Error("the instance is still there after RegisterWhile has returned")
		}
	})
}
