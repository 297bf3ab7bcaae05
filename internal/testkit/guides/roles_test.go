package guides

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func withLock(ctx context.Context, k *client.Keeper, work func(context.Context) error) error {
	return k.Run(ctx, func(ctx context.Context, s *client.Session) error { // again, if the session expires
		m, err := lock.NewMutex(s, "/locks/nightly", lock.Options{})
		if err != nil {
			return err
		}
		return m.Do(ctx, work)
	})
}

func limits(ctx context.Context, k *client.Keeper) (*config.Value[Limits], error) {
	return config.Open(ctx, k, []string{"/config/orders"}, config.Options[Limits]{
		Default:  Limits{Rate: 10},
		Optional: true, // as long as nothing is stored, Default alone is in force
		Validate: func(l Limits) error {
			if l.Rate < 1 {
				return fmt.Errorf("a rate of %d would stop the service", l.Rate)
			}
			return nil
		},
	})
}

func setRate(ctx context.Context, k *client.Keeper, rate int) error {
	data := fmt.Appendf(nil, `{"rate": %d}`, rate)
	return config.Store(ctx, k, "/config/orders", data, zk.AnyVersion, config.StoreOptions{Label: "ops"})
}

func announce(ctx context.Context, k *client.Keeper, address string, port int) (*discovery.Registration, error) {
	i := discovery.Instance{Name: "orders", Address: address, Port: port}
	return discovery.Register(ctx, k, "/services", i, discovery.RegisterOptions{}) // Close takes it away again
}

func caller(ctx context.Context, k *client.Keeper) (*http.Client, *discovery.Directory, error) {
	d, err := discovery.Open(ctx, k, "/services", discovery.Options{})
	if err != nil {
		return nil, nil, err
	}
	return &http.Client{Transport: d.Transport(nil)}, d, nil // GET http://orders/list
}

func workers(ctx context.Context, k *client.Keeper, me string) (*group.Member, *group.Group, error) {
	m, err := group.Join(ctx, k, "/workers", me, nil, group.JoinOptions{})
	if err != nil {
		return nil, nil, err
	}
	g, err := group.Open(ctx, k, "/workers", group.Options{})
	return m, g, err // g.Members(), g.Changes(ctx)
}

func nextNumber(ctx context.Context, k *client.Keeper) (int64, error) {
	c, err := counter.New(k, "/invoices/last", counter.Options{Exact: true})
	if err != nil {
		return 0, err
	}
	v, err := c.Add(ctx, 1) // client.MaybeApplied(err): the session or ctx has ended, and a number may be missing
	return v.Number, err
}

func together(ctx context.Context, k *client.Keeper, processes int, work func(context.Context) error) error {
	b, err := barrier.NewDouble(k, "/batch/nightly", processes, barrier.Options{})
	if err != nil {
		return err
	}
	if err := b.Enter(ctx); err != nil { // returns when all are here
		return err
	}
	return errors.Join(work(ctx), b.Leave(ctx)) // and when all are done
}

func shares(ctx context.Context, k *client.Keeper, me string, shards []string, index func(ctx context.Context, shard string, token int64) error) error {
	work := func(ctx context.Context, shard string, hold *lock.Hold) error { return index(ctx, shard, hold.Token()) }
	p, err := partition.Join(ctx, k, "/shards", me, shards, work, partition.Options{})
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-p.Done(): // p.Err says why
	}
	return errors.Join(p.Err(), p.Close(context.Background())) // the others have the shards then
}

// Limits is the configuration that the guide shows.
type Limits struct {
	Rate int `json:"rate"`
}

func keeper(t *testing.T) *client.Keeper {
	t.Helper()
	k, err := client.Keep(t.Context(), zktest.New(t, zktest.Options{}).Addr(), client.Options{})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k
}

func TestWithLock(t *testing.T) {
	k := keeper(t)
	worked := false
	must(t, withLock(t.Context(), k, func(ctx context.Context) error {
		worked = true
		return ctx.Err()
	}))
	if !worked {
		t.Error("the work was not done")
	}
}

func TestLimits(t *testing.T) {
	k := keeper(t)
	v, err := limits(t.Context(), k)
	must(t, err)
	defer v.Close(t.Context())
	if rate := v.Get().Rate; rate != 10 {
		t.Errorf("nothing is stored: rate %d, want the default", rate)
	}
	must(t, setRate(t.Context(), k, 20))
	must(t, setRate(t.Context(), k, 0))
	must(t, setRate(t.Context(), k, 30))
	for state, err := range v.Changes(t.Context()) {
		must(t, err)
		if state.Value.Rate < 10 {
			t.Fatalf("rate %d is in force", state.Value.Rate)
		}
		if state.Value.Rate == 30 {
			if by := state.Sources[0].Writer; by == nil || by.Label != "ops" {
				t.Errorf("written by %+v, want ops", by)
			}
			break
		}
	}
}

func TestCaller(t *testing.T) {
	k := keeper(t)
	c, d, err := caller(t.Context(), k)
	must(t, err)
	defer d.Close(t.Context())
	if _, err := c.Get("http://orders/list"); err == nil || !strings.Contains(err.Error(), "no instance is registered") {
		t.Errorf("without an instance: %v", err)
	}
	r, err := announce(t.Context(), k, "127.0.0.1", 1)
	must(t, err)
	_, err = d.WaitFor(t.Context(), "orders", func(all []discovery.Instance) bool { return len(all) == 1 })
	must(t, err)
	must(t, r.Close(t.Context()))
}

func TestWorkers(t *testing.T) {
	k := keeper(t)
	m, g, err := workers(t.Context(), k, "w1")
	must(t, err)
	defer g.Close(t.Context())
	if all := g.Members(); len(all) != 1 || all[0].ID != "w1" {
		t.Errorf("members: %v", all)
	}
	must(t, m.Close(t.Context()))
}

func TestNextNumber(t *testing.T) {
	k := keeper(t)
	for want := range int64(3) {
		if n, err := nextNumber(t.Context(), k); err != nil || n != want+1 {
			t.Errorf("got %d, %v, want %d", n, err, want+1)
		}
	}
}

func TestTogether(t *testing.T) {
	k := keeper(t)
	errs := make(chan error)
	for range 2 {
		go func() { errs <- together(t.Context(), k, 2, func(ctx context.Context) error { return ctx.Err() }) }()
	}
	must(t, <-errs)
	must(t, <-errs)
}

func TestShares(t *testing.T) {
	k := keeper(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	began := make(chan string, 2)
	done := make(chan error, 1)
	go func() {
		done <- shares(ctx, k, "w1", []string{"a", "b"}, func(ctx context.Context, shard string, token int64) error {
			began <- shard
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	if got := map[string]bool{<-began: true, <-began: true}; !got["a"] || !got["b"] {
		t.Errorf("got %v, want a and b", got)
	}
	cancel()
	must(t, <-done)
}
