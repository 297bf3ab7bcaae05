package roles

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/counter"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/partition"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

var turmoil = flag.Duration("roles.turmoil", 20*time.Second, "how long servers and connections fail")

// A fleet is some clients of an ensemble, whose servers and connections fail.
type fleet struct {
	t       *testing.T
	ctx     context.Context
	end     time.Time // of the turmoil
	servers *apache.Ensemble
	keepers []*client.Keeper
	proxies []*faultproxy.Proxy
	work    sync.WaitGroup

	mu       sync.Mutex // guards what follows
	broken   []string
	did      map[string]int // what was done, by name
	shutdown []func()       // in the end, the last first
}

func (f *fleet) violated(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

func (f *fleet) done(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did[what]++
}

func (f *fleet) later(what func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shutdown = append(f.shutdown, what)
}

// running reports whether the turmoil goes on, after a pause.
func (f *fleet) running(pause time.Duration) bool {
	time.Sleep(pause)
	return time.Now().Before(f.end)
}

// Servers are killed and frozen, answers are lost, and every package keeps what it promises.
func TestWhileServersFail(t *testing.T) {
	const clients = 3
	e := apache.StartEnsemble(t, 3, apache.Options{Tick: 500 * time.Millisecond, Config: map[string]string{"syncLimit": "5"}})
	ctx, cancel := context.WithTimeout(t.Context(), *turmoil+5*patience)
	defer cancel()
	f := &fleet{t: t, ctx: ctx, servers: e, did: map[string]int{}, end: time.Now().Add(*turmoil)}
	for range clients {
		p := faultproxy.New(new(net.Dialer).DialContext)
		t.Cleanup(p.Close)
		k, err := client.Keep(ctx, e.Connect(), client.Options{Dial: p.Dial, SessionTimeout: 6 * time.Second})
		must(t, err)
		t.Cleanup(func() { k.Close(context.Background()) })
		f.proxies, f.keepers = append(f.proxies, p), append(f.keepers, k)
	}
	settled := []func(){f.count("/plain", counter.Options{}), f.count("/exact", counter.Options{Exact: true}), f.cache(), f.group(), f.partition()}
	f.barrier()
	f.fail()
	f.work.Wait()
	for _, look := range settled {
		look()
	}
	for _, end := range slices.Backward(f.shutdown) {
		end()
	}
	for _, v := range f.broken {
		t.Error(v)
	}
	fmt.Printf("roles: servers=3 turmoil=%v did=%v violations=%d\n", *turmoil, f.did, len(f.broken))
}

// fail breaks things until the turmoil is over, and mends them.
func (f *fleet) fail() {
	for f.running(time.Duration(100+rand.IntN(1500)) * time.Millisecond) {
		p := f.proxies[rand.IntN(len(f.proxies))]
		s := f.servers.Servers[rand.IntN(3)]
		switch rand.IntN(6) {
		case 0:
			p.CutAll()
		case 1, 2:
			p.CutAfter(faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpSetData, wire.OpDelete, wire.OpMulti}, Skip: rand.IntN(3)})
		case 3: // some sessions expire
			p.SetFlows(faultproxy.Stall)
			time.Sleep(time.Duration(rand.IntN(9)) * time.Second)
			p.SetFlows(faultproxy.Pass)
		case 4:
			s.Freeze()
			time.Sleep(time.Duration(rand.IntN(4)) * time.Second)
			s.Thaw()
		case 5:
			s.Restart()
		}
	}
}

// await waits until a look at what is settled is as wanted.
func (f *fleet) await(what string, look func() (string, string)) {
	for {
		got, want := look()
		if got == want {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-f.ctx.Done():
			f.violated("%s: got %s, want %s", what, got, want)
			return
		}
	}
}

// count increments a counter with all clients: each value is that of one increment.
func (f *fleet) count(path string, opt counter.Options) (settled func()) {
	made, unknown := map[int64]bool{}, int64(0)
	var mu sync.Mutex
	for _, k := range f.keepers {
		c, err := counter.New(k, path, opt)
		must(f.t, err)
		f.work.Go(func() {
			for f.running(20 * time.Millisecond) {
				v, err := c.Add(f.ctx, 1)
				mu.Lock()
				switch {
				case err == nil && made[v.Number]:
					f.violated("%s: %d is the value of two increments", path, v.Number)
				case err == nil:
					made[v.Number] = true
					f.done(path)
				case client.MaybeApplied(err):
					unknown++
					f.done(path + " unknown")
				}
				mu.Unlock()
			}
		})
	}
	return func() {
		c, err := counter.New(f.keepers[0], path, opt)
		must(f.t, err)
		s, err := f.keepers[0].Session(f.ctx)
		must(f.t, err)
		must(f.t, s.Sync(f.ctx, path))
		v, err := c.Get(f.ctx)
		must(f.t, err)
		if sure := int64(len(made)); v.Number < sure || v.Number > sure+unknown || sure == 0 {
			f.violated("%s is %d after %d increments and %d that are unknown", path, v.Number, sure, unknown)
		}
	}
}

// cache reads what one client writes: no znode goes back, nothing is told twice, and in the end nothing is missing.
func (f *fleet) cache() (settled func()) {
	c, err := cache.Open(f.ctx, f.keepers[1], "/cached", cache.Options{})
	must(f.t, err)
	told := map[string]cache.Node{}
	ctx, stop := context.WithCancel(f.ctx)
	var reader sync.WaitGroup
	reader.Go(func() {
		for ch, err := range c.Changes(ctx) {
			if err != nil {
				return
			}
			old, there := told[ch.Node.Path]
			switch {
			case ch.Kind == cache.Created && !there, ch.Kind == cache.Changed && there && ch.Node.Stat.Mzxid > old.Stat.Mzxid:
				told[ch.Node.Path] = ch.Node
			case ch.Kind == cache.Deleted && there:
				delete(told, ch.Node.Path)
			case ch.Kind == cache.Reread:
			default:
				f.violated("the cache tells that %s is %v, and it was there before: %v", ch.Node.Path, ch.Kind, there)
			}
			f.done("changes told")
		}
	})
	write := func(path string, n int) {
		f.keepers[2].Run(f.ctx, func(ctx context.Context, s *client.Session) error {
			if n%4 == 0 {
				s.Delete(ctx, path, zk.AnyVersion)
				return nil
			}
			_, err := s.Put(ctx, path, fmt.Append(nil, n), nil)
			return err
		})
	}
	f.work.Go(func() {
		n := 1
		for ; f.running(10 * time.Millisecond); n++ {
			write(fmt.Sprint("/cached/", rand.IntN(5)), n)
		}
		for i := range 5 {
			write(fmt.Sprint("/cached/", i), 4*n+1)
		}
	})
	return func() {
		s, err := f.keepers[0].Session(f.ctx)
		must(f.t, err)
		must(f.t, s.Sync(f.ctx, "/cached"))
		want := ""
		must(f.t, s.Walk(f.ctx, "/cached", func(path string, stat zk.Stat) error {
			want += fmt.Sprintf("%s:%x ", path, stat.Mzxid)
			return nil
		}))
		f.await("the cache", func() (string, string) {
			got := ""
			for n := range c.View().All() {
				got += fmt.Sprintf("%s:%x ", n.Path, n.Stat.Mzxid)
			}
			return got, want
		})
		stop()
		reader.Wait()
		c.Close(f.ctx)
	}
}

// group has a member for each client, which leaves and joins.
func (f *fleet) group() (settled func()) {
	g, err := group.Open(f.ctx, f.keepers[0], "/group", group.Options{})
	must(f.t, err)
	for i, k := range f.keepers {
		f.work.Go(func() {
			id := fmt.Sprint("m", i)
			for {
				m, err := group.Join(f.ctx, k, "/group", id, nil, group.JoinOptions{})
				if err != nil {
					f.violated("%s cannot join: %v", id, err)
					return
				}
				f.done("joined")
				if !f.running(time.Duration(rand.IntN(5000)) * time.Millisecond) {
					f.later(func() { m.Close(f.ctx) })
					return
				}
				for m.Close(f.ctx) != nil && f.ctx.Err() == nil { // leaving again looks again
				}
				k.Run(f.ctx, func(ctx context.Context, s *client.Session) error {
					err := s.Sync(ctx, m.Path())
					if err != nil {
						return err
					}
					_, there, err := s.Exists(ctx, m.Path())
					if there {
						f.violated("%s is there although its member has left", m.Path())
					}
					return err
				})
			}
		})
	}
	return func() {
		f.await("the group", func() (string, string) {
			got := ""
			for _, m := range g.Members() {
				got += m.ID
			}
			return got, "m0m1m2"
		})
		g.Close(f.ctx)
	}
}

// partition shares items out: no item is worked on by two members whose holds are good.
func (f *fleet) partition() (settled func()) {
	items := []string{"a", "b", "c", "d"}
	working := map[string]*lock.Hold{}
	var mu sync.Mutex
	for i, k := range f.keepers {
		p, err := partition.Join(f.ctx, k, "/partition", fmt.Sprint("m", i), items, func(ctx context.Context, item string, h *lock.Hold) error {
			mu.Lock()
			if other := working[item]; other != nil && other.Cause() == nil && h.Cause() == nil {
				f.violated("%s is worked on twice", item)
			}
			working[item] = h
			mu.Unlock()
			f.done("items begun")
			<-ctx.Done()
			mu.Lock()
			if working[item] == h {
				delete(working, item)
			}
			mu.Unlock()
			return ctx.Err()
		}, partition.Options{Settle: 500 * time.Millisecond})
		must(f.t, err)
		f.later(func() { p.Close(f.ctx) })
	}
	return func() {
		f.await("items that are worked on", func() (string, string) {
			mu.Lock()
			defer mu.Unlock()
			return fmt.Sprint(slices.Sorted(maps.Keys(working))), fmt.Sprint(items)
		})
	}
}

// barrier has all clients enter and leave together, round after round.
func (f *fleet) barrier() {
	var mu sync.Mutex
	var entering [3]int
	for i, k := range f.keepers {
		f.work.Go(func() {
			for round := 1; round <= 3; round++ {
				d, err := barrier.NewDouble(k, fmt.Sprint("/barrier", round), 3, barrier.Options{})
				must(f.t, err)
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Millisecond)
				mu.Lock()
				entering[i] = round
				mu.Unlock()
				limit, cancel := context.WithTimeout(f.ctx, 20*time.Second)
				err = d.Enter(limit)
				cancel()
				if err != nil { // the others may have begun without us: our session had ended
					f.done("rounds missed")
					continue
				}
				mu.Lock()
				if slices.Min(entering[:]) < round {
					f.violated("client %d entered round %d when the rounds were %v", i, round, entering)
				}
				mu.Unlock()
				f.done("rounds")
				limit, cancel = context.WithTimeout(f.ctx, 20*time.Second)
				d.Leave(limit)
				cancel()
			}
		})
	}
}
