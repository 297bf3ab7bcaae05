package lockmetrics_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/lock"
	lockmetrics "github.com/lockkeeper/lockkeeper/metrics/prometheus"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// values returns the value of each gauge and counter by its name and labels, and of each histogram its count and sum.
func values(t testing.TB, m *lockmetrics.Metrics) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	must(t, reg.Register(m))
	families, err := reg.Gather()
	must(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, metric := range f.Metric {
			name := strings.TrimPrefix(f.GetName(), "lockkeeper_")
			for _, l := range metric.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case metric.Histogram != nil:
				got[name+" count"], got[name+" sum"] = float64(metric.Histogram.GetSampleCount()), metric.Histogram.GetSampleSum()
			case metric.Counter != nil:
				got[name] = metric.Counter.GetValue()
			default:
				got[name] = metric.Gauge.GetValue()
			}
		}
	}
	return got
}

// wants compares values with what there is; names that begin with one of the prefixes are all told.
func wants(t testing.TB, m *lockmetrics.Metrics, want map[string]float64, prefixes ...string) {
	t.Helper()
	got := values(t, m)
	maps.DeleteFunc(got, func(name string, value float64) bool {
		if _, named := want[name]; !named && value == 0 { // there from the beginning
			return true
		}
		return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
	})
	if !maps.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// The first event of each kind is an increase, which an alert sees.
func TestSeriesBeginWithZero(t *testing.T) {
	got := values(t, lockmetrics.New(lockmetrics.Options{}))
	for _, name := range []string{"lock_wait_seconds count", "lock_hold_seconds count", "lock_held", "lock_waiting", "lock_contended_total", "lock_lost_total reason=session-expired",
		"lock_lost_total reason=other", "lock_refused_total reason=timeout", "lock_refused_total reason=other"} {
		if value, there := got[name]; !there || value != 0 {
			t.Errorf("%s: %v, there: %v", name, value, there)
		}
	}
}

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ours, theirs := srv.Session(t, "ours"), srv.Session(t, "theirs")
		m := lockmetrics.New(lockmetrics.Options{})
		a, err := lock.NewMutex(ours, "/l", lock.Options{Hooks: m.Hooks()})
		must(t, err)
		b, err := lock.NewMutex(theirs, "/l", lock.Options{})
		must(t, err)
		ctx := t.Context()
		wants(t, m, map[string]float64{"lock_oldest_hold_seconds": 0}, "lock_")

		other, err := b.Lock(ctx)
		must(t, err)
		if _, err := a.TryLock(ctx); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := a.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		got := make(chan *lock.Hold)
		go func() {
			h, err := a.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		wants(t, m, map[string]float64{"lock_oldest_hold_seconds": 0, "lock_waiting": 1, "lock_contended_total": 2,
			"lock_refused_total reason=busy": 1, "lock_refused_total reason=timeout": 1}, "lock_")
		must(t, other.Release(ctx))
		h := <-got
		time.Sleep(3 * time.Second)
		wants(t, m, map[string]float64{"lock_oldest_hold_seconds": 3, "lock_held": 1, "lock_waiting": 0, "lock_wait_seconds count": 1,
			"lock_wait_seconds sum": 2}, "lock_oldest", "lock_held", "lock_waiting", "lock_wait_")
		must(t, h.Release(ctx))
		h, err = a.Lock(ctx)
		must(t, err)
		time.Sleep(time.Second)
		must(t, theirs.Delete(ctx, h.Node(), zk.AnyVersion))
		<-h.Done()
		synctest.Wait()
		wants(t, m, map[string]float64{"lock_oldest_hold_seconds": 0, "lock_held": 0, "lock_waiting": 0, "lock_hold_seconds count": 2,
			"lock_hold_seconds sum": 4, "lock_lost_total reason=node-deleted": 1}, "lock_oldest", "lock_held", "lock_waiting", "lock_hold_", "lock_lost")
	})
}

// With LockName, each metric of a lock has the label; several permits and several locks at once are counted one by one.
func TestNamesAndSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, ctx := srv.Session(t, "s"), t.Context()
		m := lockmetrics.New(lockmetrics.Options{LockName: func(path string) string {
			if strings.HasPrefix(path, "/customers/") {
				return "customer"
			}
			return path
		}})
		opt := lock.Options{Hooks: m.Hooks()}
		x, err := lock.NewMutex(s, "/customers/1", opt)
		must(t, err)
		y, err := lock.NewMutex(s, "/customers/2", opt)
		must(t, err)
		sem, err := lock.NewSemaphore(s, "/sem", 3, opt)
		must(t, err)
		all, err := lock.NewAll(x, y)
		must(t, err)
		both, err := all.Lock(ctx)
		must(t, err)
		permits, err := sem.AcquireN(ctx, 3)
		must(t, err)
		time.Sleep(time.Second)
		wants(t, m, map[string]float64{"lock_held lock=customer": 2, "lock_held lock=/sem": 3,
			"lock_oldest_hold_seconds lock=customer": 1, "lock_oldest_hold_seconds lock=/sem": 1}, "lock_held", "lock_oldest")
		must(t, both.Release(ctx))
		must(t, permits.Release(ctx))
		h, err := y.Lock(ctx)
		must(t, err)
		if _, err := all.TryLock(ctx); !errors.Is(err, lock.ErrBusy) {
			t.Fatal(err)
		}
		must(t, h.Release(ctx))
		wants(t, m, map[string]float64{"lock_held lock=customer": 0, "lock_held lock=/sem": 0, "lock_refused_total lock=customer reason=busy": 1,
			"lock_hold_seconds lock=customer count": 4, "lock_hold_seconds lock=customer sum": 2,
			"lock_hold_seconds lock=/sem count": 3, "lock_hold_seconds lock=/sem sum": 3}, "lock_held", "lock_refused", "lock_hold_")
		if problems, err := testutil.GatherAndLint(register(t, m)); err != nil || len(problems) > 0 {
			t.Errorf("lint: %v, %v", problems, err)
		}
	})
}

func register(t testing.TB, m *lockmetrics.Metrics) *prometheus.Registry {
	reg := prometheus.NewPedanticRegistry()
	must(t, reg.Register(m))
	return reg
}

func TestSessionsCachesGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		m := lockmetrics.New(lockmetrics.Options{})
		ctx := t.Context()
		k, err := client.Keep(ctx, zktest.Servers, client.Options{Dial: srv.Link("a").Dial, Trace: m.Trace()})
		must(t, err)
		c, err := cache.Open(ctx, k, "/c", cache.Options{})
		must(t, err)
		g, err := group.Open(ctx, k, "/g", group.Options{})
		must(t, err)
		member, err := group.Join(ctx, k, "/g", "one", nil, group.JoinOptions{})
		must(t, err)
		m.AddKeeper("main", k)
		m.AddCache("config", c)
		m.AddGroup("workers", g)
		s := srv.Session(t, "writer")
		_, err = s.Put(ctx, "/c/x", []byte("12345"), nil)
		must(t, err)
		time.Sleep(time.Second)
		synctest.Wait()
		want := map[string]float64{"cache_znodes cache=config": 2, "cache_bytes cache=config": 11, "cache_stale cache=config": 0,
			"cache_rereads_total cache=config": 0, "group_members group=workers": 1, "group_stale group=workers": 0,
			"session_connected session=main": 1, "session_timeout_seconds session=main": 10,
			"session_phases_total phase=connected": 1, "session_failures_total": 0}
		wants(t, m, want, "cache_", "group_", "session_")

		srv.Link("a").Refuse()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		got := values(t, m)
		if got["session_connected session=main"] != 0 || got["cache_stale cache=config"] != 1 || got["group_stale group=workers"] != 1 || got["session_failures_total"] < 2 {
			t.Errorf("without a connection: %v", got)
		}
		srv.Link("a").Heal()
		time.Sleep(5 * time.Second)
		srv.Link("a").Expire()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		got = values(t, m)
		if got["session_connected session=main"] != 1 || got["cache_stale cache=config"] != 0 || got["cache_rereads_total cache=config"] == 0 ||
			got["session_phases_total phase=expired"] != 1 || got["group_members group=workers"] != 1 {
			t.Errorf("after an expiry: %v", got)
		}
		must(t, member.Close(ctx))
		must(t, g.Close(ctx))
		must(t, c.Close(ctx))
		must(t, k.Close(ctx))
		synctest.Wait()
		wants(t, m, map[string]float64{}, "cache_", "group_", "session_connected", "session_timeout")
	})
}

// A label that is no text is made one: client_golang panics at it, in a hook on the goroutine of the lock, or while it collects.
func TestLabelsThatAreNoText(t *testing.T) {
	srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
	m := lockmetrics.New(lockmetrics.Options{LockName: func(path string) string { return path[:4] }})
	l, err := lock.NewMutex(srv.Session(t, "s"), "/größe", lock.Options{Hooks: m.Hooks()})
	must(t, err)
	must(t, l.Do(ctx, func(context.Context) error { return nil }))
	k := srv.Keeper(t, "k")
	c, err := cache.Open(ctx, k, "/c", cache.Options{})
	must(t, err)
	defer c.Close(ctx)
	g, err := group.Open(ctx, k, "/g", group.Options{})
	must(t, err)
	defer g.Close(ctx)
	m.AddKeeper("k\xff", k)
	m.AddCache("c\xff", c)
	m.AddGroup("g\xff", g)
	wants(t, m, map[string]float64{"lock_held lock=/gr\uFFFD": 0, "session_connected session=k\uFFFD": 1, "cache_stale cache=c\uFFFD": 0,
		"group_members group=g\uFFFD": 0}, "lock_held", "session_connected", "cache_stale", "group_members")
}

// A request keeps the label that it began with, also if LockName says something else by the time the hold ends.
func TestARequestKeepsItsLabel(t *testing.T) {
	label := "before"
	m := lockmetrics.New(lockmetrics.Options{LockName: func(string) string { return label }})
	l, err := lock.NewMutex(zktest.New(t, zktest.Options{}).Session(t, "s"), "/l", lock.Options{Hooks: m.Hooks()})
	must(t, err)
	must(t, l.Do(t.Context(), func(context.Context) error { label = "after"; return nil }))
	wants(t, m, map[string]float64{"lock_held lock=before": 0, "lock_oldest_hold_seconds lock=before": 0}, "lock_held", "lock_oldest")
}

// What could not be opened is left out; it made the whole collection fail.
func TestNilIsLeftOut(t *testing.T) {
	m := lockmetrics.New(lockmetrics.Options{})
	m.AddKeeper("main", nil)
	m.AddCache("config", nil)
	m.AddGroup("workers", nil)
	wants(t, m, map[string]float64{"lock_oldest_hold_seconds": 0, "session_failures_total": 0}, "")
}

// Locks are granted while a collection goes on: a hook waits for none of what takes the metrics.
func TestNoHookWaitsForACollection(t *testing.T) {
	m := lockmetrics.New(lockmetrics.Options{LockName: func(path string) string { return path }})
	hooks := m.Hooks()
	for _, path := range []string{"/a", "/b"} {
		hooks.Granted(hooks.Asked(t.Context(), path), path, nil)
	}
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		m.Collect(metrics)
	}()
	for metric := range metrics {
		if !strings.Contains(metric.Desc().String(), "oldest_hold_seconds") {
			continue
		}
		granted := make(chan struct{})
		go func() {
			defer close(granted)
			hooks.Granted(hooks.Asked(t.Context(), "/c"), "/c", nil)
		}()
		select {
		case <-granted:
		case <-time.After(5 * time.Second):
			t.Error("Granted waits for the rest of the metrics to be taken")
		}
	}
}

// What client_golang does not take for buckets is seen when the program begins, and not at the first lock that is granted.
func TestBucketsAreChecked(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("New took buckets that do not increase")
		}
	}()
	lockmetrics.New(lockmetrics.Options{Buckets: []float64{2, 1}})
}
