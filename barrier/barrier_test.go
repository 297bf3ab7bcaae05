package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func keep(t *testing.T, srv *zktest.Server, label string) (*client.Keeper, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(srv.Link(label).Dial)
	t.Cleanup(p.Close)
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k, p
}

// faults are requests that are lost, and sessions that expire.
var faults = []struct {
	name string
	add  func(srv *zktest.Server, p *faultproxy.Proxy, m faultproxy.Match)
}{
	{"lost before", func(_ *zktest.Server, p *faultproxy.Proxy, m faultproxy.Match) { p.CutBefore(m) }},
	{"lost after", func(_ *zktest.Server, p *faultproxy.Proxy, m faultproxy.Match) { p.CutAfter(m) }},
	{"expired before", func(srv *zktest.Server, p *faultproxy.Proxy, m faultproxy.Match) {
		p.Before(m, func(faultproxy.Request) { srv.Link("a").Expire() })
	}},
	{"expired after", func(srv *zktest.Server, p *faultproxy.Proxy, m faultproxy.Match) {
		p.After(m, func(faultproxy.Request, faultproxy.Reply) { srv.Link("a").Expire() })
	}},
}

// ops are the requests of barriers.
var ops = []wire.Op{wire.OpCreate2, wire.OpDelete, wire.OpExists, wire.OpGetChildren2, wire.OpGetData, wire.OpSync}

// eachFault runs f with each of the first requests of the link "a" broken in every way.
func eachFault(t *testing.T, requests int, f func(t *testing.T, srv *zktest.Server, a, b *client.Keeper)) {
	for i := range requests {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("request %d %s", i, fault.name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					a, p := keep(t, srv, "a")
					b, _ := keep(t, srv, "b")
					fault.add(srv, p, faultproxy.Match{Ops: ops, Skip: i})
					f(t, srv, a, b)
				})
			})
		}
	}
}

func TestBarrier(t *testing.T) {
	eachFault(t, 8, func(t *testing.T, srv *zktest.Server, ka, kb *client.Keeper) {
		a, err := barrier.New(ka, "/x/b", barrier.Options{})
		must(t, err)
		b, err := barrier.New(kb, "/x/b", barrier.Options{})
		must(t, err)
		must(t, b.Wait(t.Context())) // it is open
		must(t, a.Set(t.Context()))
		must(t, a.Set(t.Context()))
		if len(srv.Tree("/x/b")) != 1 {
			t.Fatal("Set has not closed it")
		}
		open := make(chan error)
		var passed atomic.Bool
		for _, x := range []*barrier.Barrier{a, b} {
			go func() {
				err := x.Wait(context.Background())
				passed.Store(true)
				open <- err
			}()
		}
		time.Sleep(time.Minute)
		// A change of the znode wakes those that wait, and does not let them pass.
		s := srv.Session(t, "s")
		_, err = s.Set(t.Context(), "/x/b", []byte("x"), zk.AnyVersion)
		must(t, err)
		time.Sleep(time.Minute)
		if passed.Load() {
			t.Error("one has passed a closed barrier")
		}
		must(t, a.Remove(t.Context()))
		must(t, a.Remove(t.Context()))
		must(t, <-open)
		must(t, <-open)
	})
}

// The answer to a request is lost, and before that is resolved, another client does the opposite: this stays.
func TestAnotherClientIsFasterThanALostAnswer(t *testing.T) {
	for _, set := range []bool{false, true} {
		for _, expires := range []bool{false, true} {
			t.Run(fmt.Sprintf("set %v, expires %v", set, expires), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					ka, p := keep(t, srv, "a")
					kb, _ := keep(t, srv, "b")
					a, err := barrier.New(ka, "/x/b", barrier.Options{})
					must(t, err)
					b, err := barrier.New(kb, "/x/b", barrier.Options{})
					must(t, err)
					must(t, b.Set(t.Context()))
					op, request, opposite := wire.OpDelete, a.Remove, b.Set
					if set {
						must(t, b.Remove(t.Context()))
						op, request, opposite = wire.OpCreate2, a.Set, b.Remove
					}
					m := faultproxy.Match{Ops: []wire.Op{op}, Path: "/x/b"}
					p.After(m, func(faultproxy.Request, faultproxy.Reply) {
						if err := opposite(context.Background()); err != nil {
							t.Error(err)
						}
						if expires {
							srv.Link("a").Expire()
						}
					})
					p.CutAfter(m)
					err = request(t.Context())
					if closed := len(srv.Tree("/x/b")) > 0; closed == set {
						t.Errorf("closed: %v", closed)
					}
					// Whether the barrier was closed in between cannot be told for certain.
					if set != client.MaybeApplied(err) || !set && err != nil {
						t.Errorf("error: %v", err)
					}
				})
			})
		}
	}
}

// A request to close the barrier that is lost is repeated, although others create znodes beside it. The look before that comes behind
// a transaction: the leader answers a sync at once, also while that request waits for a quorum.
func TestALostSetIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		s := srv.Session(t, "s")
		b, err := barrier.New(k, "/x/b", barrier.Options{})
		must(t, err)
		must(t, s.EnsurePath(t.Context(), "/x/1", nil))
		m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2}, Path: "/x/b"}
		p.Before(m, func(faultproxy.Request) {
			if err := s.EnsurePath(context.Background(), "/x/2", nil); err != nil {
				t.Error(err)
			}
		})
		p.CutBefore(m)
		mark := p.Mark()
		must(t, b.Set(t.Context()))
		if len(srv.Tree("/x/b")) != 1 {
			t.Error("Set has not closed it")
		}
		if ops := p.Since(mark).Asked().But(wire.OpPing).Ops(); !strings.Contains(ops, "createSession, multi, exists") {
			t.Errorf("requests %s", ops)
		}
	})
}

// A barrier that looks open, or closed, is so only once what was asked before is decided, on connections that are gone as well: the
// create of a Set that was given up may still come, and so may the delete of a Remove.
func TestWhatWasAskedBeforeIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		b, err := barrier.New(k, "/b", barrier.Options{})
		must(t, err)
		mark := p.Mark()
		must(t, b.Remove(t.Context()))
		if ops := p.Since(mark).Asked().But(wire.OpPing).Ops(); ops != "sync, exists, multi, exists" {
			t.Errorf("requests: %s", ops)
		}
		must(t, b.Set(t.Context()))
		mark = p.Mark()
		must(t, b.Set(t.Context()))
		if ops := p.Since(mark).Asked().But(wire.OpPing).Ops(); ops != "sync, exists, multi, exists" {
			t.Errorf("requests of Set, of one that is closed: %s", ops)
		}
		mark = p.Mark()
		must(t, b.Remove(t.Context()))
		if ops := p.Since(mark).Asked().But(wire.OpPing).Ops(); ops != "sync, exists, delete" {
			t.Errorf("requests of one that is closed: %s", ops)
		}
	})
}

// A new session may come to a server that is behind, so it catches up before it looks.
func TestASessionCatchesUpFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		b, err := barrier.New(k, "/x/b", barrier.Options{})
		must(t, err)
		d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
		must(t, err)
		other := srv.Session(t, "other")
		_, err = other.Create(t.Context(), "/x", nil, zk.Persistent, nil)
		must(t, err)
		_, err = other.Create(t.Context(), "/x/d", nil, zk.Persistent, nil)
		must(t, err)
		_, err = other.Create(t.Context(), "/x/d/other", nil, zk.Ephemeral, nil)
		must(t, err)
		must(t, b.Set(t.Context()))
		for _, test := range []struct {
			name  string
			f     func(context.Context) error
			after func() error // lets f return
		}{
			{"Wait", b.Wait, func() error { return other.Delete(t.Context(), "/x/b", zk.AnyVersion) }},
			{"Set", b.Set, nil},
			{"Remove", b.Remove, nil},
			{"Enter", d.Enter, nil},
			{"Leave", d.Leave, func() error { return other.Delete(t.Context(), "/x/d/other", zk.AnyVersion) }},
		} {
			mark := p.Mark()
			done := make(chan error, 1)
			go func() { done <- test.f(t.Context()) }()
			if test.after != nil {
				time.Sleep(time.Minute)
				srv.Link("a").Expire()
				time.Sleep(time.Minute)
				must(t, test.after())
			}
			must(t, <-done)
			ops := p.Since(mark).Asked().But(wire.OpPing, wire.OpRemoveWatches).Ops()
			for _, ops := range strings.Split(ops, "createSession, ") {
				if ops != "" && !strings.HasPrefix(ops, "sync, ") {
					t.Errorf("%s: requests %s", test.name, ops)
				}
			}
		}
	})
}

func TestDouble(t *testing.T) {
	eachFault(t, 16, func(t *testing.T, srv *zktest.Server, ka, kb *client.Keeper) {
		const members = 4
		var entered, left atomic.Int32
		errs := make(chan error)
		for i := range members {
			k := ka
			if i >= 2 {
				k = kb
			}
			d, err := barrier.NewDouble(k, "/x/d", members, barrier.Options{})
			must(t, err)
			go func() {
				ctx := context.Background()
				time.Sleep(time.Duration(i) * time.Minute)
				err := d.Enter(ctx)
				entered.Add(1)
				if time.Since(start) < (members-1)*time.Minute {
					err = errors.Join(err, errors.New("entered before all were there"))
				}
				time.Sleep(time.Duration(members+i) * time.Minute)
				err = errors.Join(err, d.Leave(ctx))
				left.Add(1)
				errs <- err
			}()
		}
		time.Sleep((members-1)*time.Minute - time.Second)
		if entered.Load() > 0 {
			t.Error("one has entered before all were there")
		}
		time.Sleep(40 * time.Second)
		if entered.Load() != members {
			t.Errorf("%d have entered, want all", entered.Load())
		}
		time.Sleep((members + members - 2) * time.Minute)
		if left.Load() > 0 {
			t.Error("one has left before all wanted to")
		}
		for range members {
			must(t, <-errs)
		}
		if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
			t.Errorf("left behind:\n%s", got)
		}
	})
}

// A member enters, then leaves, and so on: what comes out of turn is an error, and changes nothing.
func TestOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ctx := t.Context()
		newDouble := func(label string) (*barrier.Double, *faultproxy.Proxy) {
			k, p := keep(t, srv, label)
			d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{CleanupTimeout: time.Second})
			must(t, err)
			return d, p
		}
		refused := func(what string, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || client.MaybeApplied(err) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		within := func(f func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return f(ctx)
		}
		a, requests := newDouble("a")
		b, _ := newDouble("b")
		refused("Leave at first", a.Leave(ctx), barrier.ErrNotEntered)
		refused("Enter alone", within(a.Enter), context.DeadlineExceeded)
		refused("Leave after an Enter that has failed", a.Leave(ctx), barrier.ErrNotEntered)
		errs := make(chan error)
		for range 2 {
			go func() { errs <- b.Enter(ctx) }()
			must(t, a.Enter(ctx))
			must(t, <-errs)
			refused("a second Enter", a.Enter(ctx), barrier.ErrEntered)
			refused("Leave alone", within(a.Leave), context.DeadlineExceeded)
			refused("Enter after a Leave that has failed", a.Enter(ctx), barrier.ErrEntered)
			go func() { errs <- b.Leave(ctx) }()
			must(t, a.Leave(ctx))
			must(t, <-errs)
			refused("a second Leave", a.Leave(ctx), barrier.ErrNotEntered)
		}
		// An Enter that has left its znode behind: Leave removes it.
		go func() { errs <- within(a.Enter) }()
		time.Sleep(500 * time.Millisecond)
		srv.Link("a").Freeze()
		refused("Enter without a connection", <-errs, context.DeadlineExceeded)
		srv.Link("a").Heal()
		if len(srv.Tree("/x/d")) != 2 {
			t.Fatalf("the znode is not there:\n%s", srv.Tree("/x/d"))
		}
		mark := requests.Mark()
		must(t, a.Leave(ctx))
		if ops := requests.Since(mark).Asked().But(wire.OpPing).Ops(); !strings.HasPrefix(ops, "multi, exists") {
			t.Errorf("the look is not behind a create that may be on its way: %s", ops)
		}
		if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
			t.Errorf("left behind:\n%s", got)
		}
		refused("Leave after that", a.Leave(ctx), barrier.ErrNotEntered)
	})
}

// start is when every bubble begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// One that gives up takes its znode away, and another one completes the number.
func TestOneGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		newDouble := func() *barrier.Double {
			d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
			must(t, err)
			return d
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := newDouble().Enter(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "enter /x/d: ") {
			t.Errorf("Enter: %v", err)
		}
		if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
			t.Errorf("left behind:\n%s", got)
		}
		entered := make(chan error)
		go func() { entered <- newDouble().Enter(context.Background()) }()
		time.Sleep(time.Minute)
		// A deleted member comes back.
		must(t, srv.Session(t, "s").Delete(t.Context(), srv.Tree("/x/d")[1].Path, zk.AnyVersion))
		time.Sleep(time.Minute)
		if len(srv.Tree("/x/d")) != 2 {
			t.Errorf("tree:\n%s", srv.Tree("/x/d"))
		}
		must(t, newDouble().Enter(t.Context()))
		must(t, <-entered)
	})
}

func TestWhatIsNoBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		for _, path := range []string{"/", "x", "/x/"} {
			if _, err := barrier.New(k, path, barrier.Options{}); !errors.Is(err, zk.ErrBadArguments) {
				t.Errorf("path %q: %v", path, err)
			}
		}
		if _, err := barrier.NewDouble(k, "/x", 0, barrier.Options{}); err == nil {
			t.Error("no members")
		}
		if _, err := barrier.New(k, "/x", barrier.Options{CleanupTimeout: -1}); err == nil || !strings.Contains(err.Error(), "CleanupTimeout: -1ns is negative") {
			t.Errorf("CleanupTimeout below 0: %v", err)
		}
	})
}

// A wait that ends with its context says so, and what the cause says of another request is not the answer to one of the barrier's.
func TestAWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := zktest.New(t, zktest.Options{}).Keeper(t, "a")
		b, err := barrier.New(k, "/b", barrier.Options{})
		must(t, err)
		must(t, b.Set(t.Context()))
		d, err := barrier.NewDouble(k, "/d", 2, barrier.Options{})
		must(t, err)
		for name, wait := range map[string]func(context.Context) error{"wait": b.Wait, "enter": d.Enter} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(&client.OpError{Op: "set", Path: "/other", Err: zk.ErrNoNode, Maybe: true}) })
			err := wait(ctx)
			if !errors.Is(err, context.Canceled) || errors.Is(err, zk.ErrNoNode) || client.MaybeApplied(err) {
				t.Errorf("%s: %v: canceled %v, no such znode %v, unknown %v; want true, false, false", name, err,
					errors.Is(err, context.Canceled), errors.Is(err, zk.ErrNoNode), client.MaybeApplied(err))
			}
		}
	})
}
