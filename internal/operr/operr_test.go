package operr_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/operr"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var instance = discovery.Instance{Name: "s", ID: "1", Address: "h", Port: 1}

func healthy(context.Context) error { return nil }

func work(context.Context, string, *lock.Hold) error { return nil }

// second leaves out what a constructor returns besides its error.
func second[T any](_ T, err error) error { return err }

// Whatever takes a Keeper says in the same words that there is none.
func TestNoKeeper(t *testing.T) {
	ctx := t.Context()
	for what, err := range map[string]error{
		"cache /p":          second(cache.Open(ctx, nil, "/p", cache.Options{})),
		"config /p":         second(config.Open(ctx, nil, []string{"/p"}, config.Options[int]{})),
		"store /p":          config.Store(ctx, nil, "/p", nil, zk.AnyVersion, config.StoreOptions{}),
		"group /p":          second(group.Open(ctx, nil, "/p", group.Options{})),
		"join /p/a":         second(group.Join(ctx, nil, "/p", "a", nil, group.JoinOptions{})),
		"counter /p":        second(counter.New(nil, "/p", counter.Options{})),
		"barrier /p":        second(barrier.New(nil, "/p", barrier.Options{})),
		"barrier /p/double": second(barrier.NewDouble(nil, "/p/double", 2, barrier.Options{})),
		"discovery /p":      second(discovery.Open(ctx, nil, "/p", discovery.Options{})),
		"register /p/s/1":   second(discovery.Register(ctx, nil, "/p", instance, discovery.RegisterOptions{})),
		"register /q/s/1":   discovery.RegisterWhile(ctx, nil, "/q", instance, healthy, time.Second, discovery.RegisterOptions{}),
		"publish /p/s/1":    discovery.Publish(ctx, nil, "/p", instance, discovery.RegisterOptions{}),
		"unpublish /p/s/1":  discovery.Unpublish(ctx, nil, "/p", "s", "1"),
		"partition /p":      second(partition.Join(ctx, nil, "/p", "a", nil, work, partition.Options{})),
	} {
		var op *client.OpError
		if want := what + ": there is no keeper (make one with client.Keep)"; !errors.As(err, &op) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// So it is with functions that must be there.
func TestNoFunction(t *testing.T) {
	ctx := t.Context()
	k, err := client.Keep(ctx, zktest.New(t, zktest.Options{}).Addr(), client.Options{})
	must(t, err)
	defer k.Close(context.Background())
	c, err := cache.Open(ctx, k, "/p", cache.Options{})
	must(t, err)
	defer c.Close(context.Background())
	g, err := group.Open(ctx, k, "/p", group.Options{})
	must(t, err)
	defer g.Close(context.Background())
	d, err := discovery.Open(ctx, k, "/p", discovery.Options{})
	must(t, err)
	defer d.Close(context.Background())
	n, err := counter.New(k, "/n", counter.Options{})
	must(t, err)
	for what, err := range map[string]error{
		"cache /p: there is no function wanted":        second(c.WaitFor(ctx, nil)),
		"group /p: there is no function wanted":        second(g.WaitFor(ctx, nil)),
		"discovery /p: there is no function wanted":    second(d.WaitFor(ctx, "s", nil)),
		"update /n: there is no function change":       second(n.Update(ctx, nil)),
		"register /p/s/1: there is no function check":  discovery.RegisterWhile(ctx, k, "/p", instance, nil, time.Second, discovery.RegisterOptions{}),
		"partition /shards: there is no function work": second(partition.Join(ctx, k, "/shards", "a", nil, nil, partition.Options{})),
	} {
		if err == nil || err.Error() != what {
			t.Errorf("%v, want %s", err, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What is around the error of a request stays.
func TestWrapKeepsWhatIsAround(t *testing.T) {
	own := errors.New("the quota is used up")
	request := &client.OpError{Op: "get", Path: "/p", Err: zk.ErrConnectionLoss}
	for want, err := range map[string]error{
		"add /p: connection lost":                               request,
		"add /p: the quota is used up: get /p: connection lost": fmt.Errorf("%w: %w", own, request),
		"add /p: get /other: connection lost":                   &client.OpError{Op: "get", Path: "/other", Err: zk.ErrConnectionLoss},
		"add /p: connection lost (no server is there)":          &client.OpError{Op: "session", Err: fmt.Errorf("%w (no server is there)", zk.ErrConnectionLoss)},
	} {
		if got := operr.Wrap("add", "/p", err, false); got.Error() != want || !errors.Is(got, zk.ErrConnectionLoss) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := operr.Wrap("add", "/p", fmt.Errorf("%w: %w", own, request), false); !errors.Is(err, own) {
		t.Errorf("%v is not the caller's own error any more", err)
	}
}
