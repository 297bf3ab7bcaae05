package barrier_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// A marcher is one member that goes through many rounds.
type marcher struct {
	label             string
	proxy             *faultproxy.Proxy
	fault             *faultproxy.Rule // the newest one
	entering, leaving int              // the newest round
	working           bool             // between Enter and Leave
	excused           int              // the newest round in which the session has ended, so that the others need not wait
}

// Members go through many rounds of one barrier, some faster than others, while connections break and answers come late
// or never: no member enters or leaves a round before the others do, and none is stuck.
func TestManyRounds(t *testing.T) {
	const rounds, seeds = 25, 6
	for seed := range uint64(seeds) {
		for _, members := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("seed %d, %d members", seed, members), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { march(t, rand.New(rand.NewPCG(seed, 0)), members, rounds) })
			})
		}
	}
}

func march(t *testing.T, rnd *rand.Rand, members, rounds int) {
	srv := zktest.New(t, zktest.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Hour)
	defer cancel()
	var mu sync.Mutex // guards all
	all := make([]*marcher, members)
	var walking sync.WaitGroup
	for i := range all {
		m := &marcher{label: fmt.Sprint("m", i)}
		all[i] = m
		var k *client.Keeper
		k, m.proxy = keep(t, srv, m.label)
		d, err := barrier.NewDouble(k, "/x/d", members, barrier.Options{})
		must(t, err)
		pace := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		pause := func() {
			if pace.IntN(2) == 0 {
				time.Sleep(time.Duration(pace.IntN(300)) * time.Millisecond)
			}
		}
		walking.Go(func() {
			for round := 1; round <= rounds; round++ {
				pause()
				mu.Lock()
				m.entering = round
				mu.Unlock()
				err := d.Enter(ctx)
				mu.Lock()
				m.working = true
				for _, other := range all {
					if other.entering < round {
						t.Errorf("%s has entered round %d before %s came", m.label, round, other.label)
					}
				}
				mu.Unlock()
				pause()
				mu.Lock()
				m.working, m.leaving = false, round
				mu.Unlock()
				if err = errors.Join(err, d.Leave(ctx)); err != nil {
					t.Errorf("%s in round %d: %v", m.label, round, err)
					cancel()
					return
				}
				mu.Lock()
				for _, other := range all {
					if other.leaving < round && other.excused < round {
						t.Errorf("%s has left round %d before %s wanted to", m.label, round, other.label)
					}
				}
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	var breaking sync.WaitGroup
	breaking.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rnd.IntN(1500/members)) * time.Millisecond):
			}
			m := all[rnd.IntN(members)]
			if m.fault != nil {
				m.fault.Remove()
			}
			at := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpDelete, wire.OpSetData, wire.OpExists, wire.OpGetChildren2, wire.OpSync}, Skip: rnd.IntN(4)}
			switch rnd.IntN(8) {
			case 0:
				m.proxy.CutAll()
			case 1:
				m.fault = m.proxy.CutBefore(at)
			case 2:
				m.fault = m.proxy.CutAfter(at)
			case 3:
				m.fault = m.proxy.Hold(at, time.Duration(rnd.IntN(300))*time.Millisecond)
			case 4, 5:
				m.proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
				time.AfterFunc(time.Duration(rnd.IntN(300))*time.Millisecond, func() { m.proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass) })
			case 6:
				// The session ends while its member works, or while another one has not come yet.
				mu.Lock()
				if m.working {
					m.excused = m.entering
				}
				if m.working || slices.ContainsFunc(all, func(other *marcher) bool { return other.entering < m.entering }) {
					srv.Link(m.label).Expire()
				}
				mu.Unlock()
			}
		}
	})
	walking.Wait()
	close(done)
	breaking.Wait()
	for _, m := range all {
		m.proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass)
	}
	if got := srv.Tree("/x/d").String(); !t.Failed() && got != "/x/d\n" {
		t.Errorf("left behind:\n%s", got)
	}
}

// A member that is slow to learn that a round is over is not kept by one that has entered the next round already.
func TestAFastMemberDoesNotKeepASlowOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		var doubles []*barrier.Double
		var proxies []*faultproxy.Proxy
		for i := range 3 {
			k, p := keep(t, srv, fmt.Sprint("m", i))
			d, err := barrier.NewDouble(k, "/x/d", 3, barrier.Options{})
			must(t, err)
			doubles, proxies = append(doubles, d), append(proxies, p)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		errs := make(chan error)
		for i, d := range doubles {
			go func() {
				var err error
				for range 5 {
					err = errors.Join(err, d.Enter(ctx))
					proxies[i].Hold(faultproxy.Match{Ops: faultproxy.Lists(), Skip: 1}, time.Duration(i)*time.Second)
					err = errors.Join(err, d.Leave(ctx))
				}
				errs <- err
			}()
		}
		for range doubles {
			must(t, <-errs)
		}
	})
}

// All members have died in their work, and ready is still there: the next ones wait for each other.
func TestReadyIsLeftBehind(t *testing.T) {
	for _, dead := range []bool{true, false} { // or their sessions have not ended yet
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			var old []*client.Session
			for i := range 2 {
				s, err := srv.Link(fmt.Sprint("old", i)).Open(t.Context(), client.Options{})
				must(t, err)
				defer s.Close(context.Background())
				old = append(old, s)
				must(t, s.EnsurePath(t.Context(), "/x/d", nil))
				_, err = s.Create(t.Context(), fmt.Sprint("/x/d/", i), nil, zk.Ephemeral, nil)
				must(t, err)
			}
			must(t, old[0].EnsurePath(t.Context(), "/x/d/ready", nil))
			for _, s := range old {
				if dead {
					must(t, s.Close(t.Context()))
				} else {
					time.AfterFunc(2*time.Minute, func() { s.Close(context.Background()) })
				}
			}
			var entered [2]time.Time
			errs := make(chan error)
			for i := range entered {
				k, _ := keep(t, srv, fmt.Sprint("m", i))
				d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
				must(t, err)
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					time.Sleep(time.Duration(i) * 10 * time.Minute)
					err := d.Enter(ctx)
					entered[i] = time.Now()
					errs <- errors.Join(err, d.Leave(ctx))
				}()
			}
			for range entered {
				must(t, <-errs)
			}
			if got := entered[0].Sub(start); got < 10*time.Minute {
				t.Errorf("old sessions over: %v: entered alone, after %v", dead, got)
			}
			if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
				t.Errorf("left behind:\n%s", got)
			}
		})
	}
}

// A client that comes while a round is on waits until it is over, and does not keep its members.
func TestAStrangerComesDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		var doubles []*barrier.Double
		for i := range 3 {
			k, _ := keep(t, srv, fmt.Sprint("m", i))
			d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
			must(t, err)
			doubles = append(doubles, d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		errs := make(chan error)
		together := func(f func(*barrier.Double, context.Context) error, members ...int) {
			t.Helper()
			for _, i := range members {
				go func() { errs <- f(doubles[i], ctx) }()
			}
			for range members {
				must(t, <-errs)
			}
		}
		together((*barrier.Double).Enter, 0, 1)
		stranger := make(chan error, 1)
		go func() { stranger <- doubles[2].Enter(ctx) }()
		time.Sleep(time.Minute)
		if len(stranger) > 0 {
			t.Error("the stranger has entered a round that was on")
		}
		together((*barrier.Double).Leave, 0, 1)
		together((*barrier.Double).Enter, 0)
		must(t, <-stranger)
		together((*barrier.Double).Leave, 0, 2)
	})
}

// A member whose session ends just when the barrier opens takes part in the round all the same, while others are in it.
func TestASessionEndsWhenTheBarrierOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, p := keep(t, srv, "a")
		kb, _ := keep(t, srv, "b")
		a, err := barrier.NewDouble(ka, "/x/d", 3, barrier.Options{})
		must(t, err)
		b, err := barrier.NewDouble(kb, "/x/d", 3, barrier.Options{})
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		entered, left := make(chan error, 1), make(chan error, 1)
		go func() { entered <- a.Enter(ctx) }()
		time.Sleep(time.Second)
		third := srv.Session(t, "third") // is slower than b
		_, err = third.Create(t.Context(), "/x/d/third", nil, zk.Ephemeral, nil)
		must(t, err)
		p.SetFlow(faultproxy.ToClient, faultproxy.Stall)
		must(t, b.Enter(ctx))
		go func() { left <- b.Leave(ctx) }()
		time.Sleep(time.Second)
		srv.Link("a").Expire()
		p.SetFlow(faultproxy.ToClient, faultproxy.Pass)
		must(t, <-entered)
		must(t, third.Delete(t.Context(), "/x/d/third", zk.AnyVersion))
		time.Sleep(time.Minute)
		if len(left) > 0 {
			t.Error("b has left before a wanted to")
		}
		must(t, a.Leave(ctx))
		must(t, <-left)
		if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
			t.Errorf("left behind:\n%s", got)
		}
	})
}

// The next round begins as soon as ready is removed, while other members of the last one have not left yet, or while the answer to
// that request is lost: the ready of the next round stays, so a member of it that is slow does not miss it.
func TestTheReadyOfTheNextRoundStays(t *testing.T) {
	type member struct {
		d             *barrier.Double
		p             *faultproxy.Proxy
		entered, left chan error
	}
	for i := range 40 { // the order of names is by chance
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			newMember := func(label string) *member {
				k, p := keep(t, srv, label)
				d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
				must(t, err)
				return &member{d, p, make(chan error, 1), make(chan error, 1)}
			}
			enter := func(m *member) { m.entered <- m.d.Enter(ctx) }
			leave := func(m *member) { m.left <- m.d.Leave(ctx) }
			a, b, slow, fast := newMember("a"), newMember("b"), newMember("c"), newMember("d")
			go enter(a)
			go enter(b)
			must(t, <-a.entered)
			must(t, <-b.entered)
			go enter(slow)
			go enter(fast)
			time.Sleep(time.Second)
			if tree := srv.Tree("/x/d").String(); strings.Index(tree, "of c") > strings.Index(tree, "of d") {
				slow, fast = fast, slow // the member whose name comes first is the last one to remove its znode
			}
			slow.p.SetFlow(faultproxy.ToClient, faultproxy.Stall)
			for _, m := range []*member{a, b} {
				if i%2 > 0 {
					removal := faultproxy.Match{Ops: []wire.Op{wire.OpDelete, wire.OpMulti}, Path: "/x/d/ready"}
					m.p.After(removal, func(faultproxy.Request, faultproxy.Reply) { m.p.Refuse(true) })
					m.p.CutAfter(removal)
				}
				go leave(m)
			}
			must(t, <-fast.entered)
			go leave(fast)
			time.Sleep(100 * time.Millisecond)
			a.p.Refuse(false)
			b.p.Refuse(false)
			must(t, <-a.left)
			must(t, <-b.left)
			slow.p.SetFlow(faultproxy.ToClient, faultproxy.Pass)
			must(t, <-slow.entered)
			must(t, slow.d.Leave(ctx))
			must(t, <-fast.left)
			if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
				t.Errorf("left behind:\n%s", got)
			}
		})
	}
}

// Members have died, and two that have waited for that want to remove the ready that is left behind: the slow one does not remove
// the ready of the round that they both enter by then, and that the other one wants to leave.
func TestASlowMemberRemovesWhatWasLeftBehind(t *testing.T) {
	type member struct {
		d       *barrier.Double
		p       *faultproxy.Proxy
		entered chan error
	}
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		dead := srv.Session(t, "dead")
		must(t, dead.EnsurePath(ctx, "/x/d", nil))
		_, err := dead.Create(ctx, "/x/d/0", nil, zk.Ephemeral, nil)
		must(t, err)
		must(t, dead.EnsurePath(ctx, "/x/d/ready", nil))
		newMember := func(label string) *member {
			k, p := keep(t, srv, label)
			d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
			must(t, err)
			m := &member{d, p, make(chan error, 1)}
			go func() { m.entered <- m.d.Enter(ctx) }()
			return m
		}
		slow, fast := newMember("a"), newMember("b")
		time.Sleep(time.Second)
		if tree := srv.Tree("/x/d").String(); strings.Index(tree, "of a") > strings.Index(tree, "of b") {
			slow, fast = fast, slow // the member whose name comes first is the last one to remove its znode
		}
		removal := faultproxy.Match{Ops: []wire.Op{wire.OpDelete, wire.OpMulti}, Path: "/x/d/ready"}
		slow.p.Before(removal, func(faultproxy.Request) { time.Sleep(2 * time.Second) })
		fast.p.SetFlow(faultproxy.ToClient, faultproxy.Stall)
		must(t, dead.Delete(ctx, "/x/d/0", zk.AnyVersion))
		time.Sleep(100 * time.Millisecond)
		fast.p.SetFlow(faultproxy.ToClient, faultproxy.Pass)
		must(t, <-fast.entered)
		left := make(chan error, 1)
		go func() { left <- fast.d.Leave(ctx) }()
		must(t, <-slow.entered)
		must(t, slow.d.Leave(ctx))
		must(t, <-left)
		if got := srv.Tree("/x/d").String(); got != "/x/d\n" {
			t.Errorf("left behind:\n%s", got)
		}
	})
}

// A member whose Enter has failed and that has left what was left behind is a stranger to the round that the others do after
// that, also when only one of them is still there.
func TestAMemberLeavesAfterAFailedEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, ctx := zktest.New(t, zktest.Options{}), t.Context()
		newDouble := func(label string) (*client.Keeper, *barrier.Double) {
			k, _ := keep(t, srv, label)
			d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{CleanupTimeout: time.Second})
			must(t, err)
			return k, d
		}
		_, d := newDouble("d")
		ka, a := newDouble("a")
		_, b := newDouble("b")
		entered := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			entered <- d.Enter(ctx)
		}()
		time.Sleep(500 * time.Millisecond)
		srv.Link("d").Freeze()
		if err := <-entered; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter without a connection: %v", err)
		}
		srv.Link("d").Heal()
		must(t, d.Leave(ctx))

		other := make(chan error, 1)
		go func() { other <- a.Enter(ctx) }()
		must(t, b.Enter(ctx))
		must(t, <-other)
		must(t, ka.Close(ctx)) // it dies
		go func() { entered <- d.Enter(ctx) }()
		time.Sleep(time.Minute)
		if len(entered) > 0 {
			t.Fatalf("it has entered a round that was on: %v", <-entered)
		}
		must(t, b.Leave(ctx))
		must(t, b.Enter(ctx)) // the next round
		must(t, <-entered)
	})
}

// The others do a round without a member that waited before: its Enter has failed, or its session has ended. It enters neither
// beside them, for they are complete, nor after they have died, which leaves ready behind.
func TestARoundWithoutAMemberThatWaitedBefore(t *testing.T) {
	for _, expires := range []bool{false, true} {
		for _, dead := range []bool{false, true} {
			t.Run(fmt.Sprintf("expires %v, others dead %v", expires, dead), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					var keepers []*client.Keeper
					var doubles []*barrier.Double
					for i := range 4 {
						k, _ := keep(t, srv, fmt.Sprint("m", i))
						d, err := barrier.NewDouble(k, "/x/d", 2, barrier.Options{})
						must(t, err)
						keepers, doubles = append(keepers, k), append(doubles, d)
					}
					entered := make(chan error, 1)
					enter := func() {
						ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
						defer cancel()
						entered <- doubles[0].Enter(ctx)
					}
					if expires {
						go enter()
						time.Sleep(time.Second)
						srv.Link("m0").Refuse()
						time.Sleep(5 * time.Minute)
					} else {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						if err := doubles[0].Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Enter: %v", err)
						}
					}
					other := make(chan error, 1)
					go func() { other <- doubles[1].Enter(context.Background()) }()
					must(t, doubles[2].Enter(t.Context()))
					must(t, <-other)
					if dead {
						must(t, keepers[1].Close(t.Context()))
						must(t, keepers[2].Close(t.Context()))
					}
					if expires {
						srv.Link("m0").Heal()
					} else {
						go enter()
					}
					time.Sleep(5 * time.Minute)
					if len(entered) > 0 {
						t.Fatalf("the member has entered: %v", <-entered)
					}
					if !dead { // the next round
						go func() { other <- doubles[1].Leave(context.Background()) }()
						must(t, doubles[2].Leave(t.Context()))
						must(t, <-other)
					}
					must(t, doubles[3].Enter(t.Context()))
					must(t, <-entered)
				})
			})
		}
	}
}

// A member of kazoo's deletes ready when it begins to leave, which may be before we have seen it: that it came is enough.
func TestAMemberOfKazooLeavesAtOnce(t *testing.T) {
	for _, name := range []string{"0", "~"} { // ahead of ours and behind
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, _ := keep(t, srv, "a")
			d, err := barrier.NewDouble(k, "/d", 2, barrier.Options{})
			must(t, err)
			for range 2 {
				errs := make(chan error)
				go func() { errs <- d.Enter(t.Context()) }()
				synctest.Wait()
				p := srv.Session(t, "kazoo").Pipeline()
				p.Create("/d/"+name, nil, zk.Ephemeral, nil)
				p.Create("/d/ready", nil, zk.Persistent, nil)
				p.Delete("/d/ready", zk.AnyVersion)
				left := p.Sync("/d")
				if name == "~" {
					left = p.Delete("/d/"+name, zk.AnyVersion)
				}
				p.Send(t.Context())
				_, err := left.Wait(t.Context())
				must(t, err)
				must(t, <-errs)
				go func() { errs <- d.Leave(t.Context()) }()
				synctest.Wait()
				if name == "0" { // it waits for us, the first by name, and goes last
					srv.Link("kazoo").Expire()
				}
				must(t, <-errs)
			}
		})
	}
}
