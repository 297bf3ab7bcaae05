package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/discovery"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/zk"
)

// roles prints what the packages beside locks cost, on our server: a cache of many znodes, a change that many readers see,
// finding an instance of a service, many members that join at once, a rejoin after an expiry.
func roles(dir string, rounds int) error {
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("%s, %d CPUs, %s\n\n", processor(), runtime.NumCPU(), runtime.Version())
	ctx := context.Background()
	k, err := client.Keep(ctx, s.addr, client.Options{})
	if err != nil {
		return err
	}
	defer k.Close(ctx)
	return errors.Join(cacheCost(ctx, k, rounds), discoveryCost(ctx, k), joinCost(ctx, s.addr), rejoinCost(ctx, s.addr, rounds))
}

const (
	cachedZnodes  = 100_000
	cachedBytes   = 100
	changeReaders = 1000
)

// cacheCost measures how long a cache takes to load and how much memory it takes, and how a change reaches its readers.
func cacheCost(ctx context.Context, k *client.Keeper, rounds int) error {
	s, err := k.Session(ctx)
	if err != nil {
		return err
	}
	if err := s.EnsurePath(ctx, "/cached", nil); err != nil {
		return err
	}
	data := make([]byte, cachedBytes)
	for i := 0; i < cachedZnodes; i += 1000 {
		var ops []client.Op
		for j := i; j < i+1000; j++ {
			ops = append(ops, client.OpCreate(fmt.Sprintf("/cached/n%06d", j), data, zk.Persistent, nil))
		}
		if _, err := s.Multi(ctx, ops...); err != nil {
			return err
		}
	}
	var times []time.Duration
	var c *cache.Cache
	var before, after runtime.MemStats
	for range rounds {
		if c != nil {
			c.Close(ctx)
		}
		c = nil
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		if c, err = cache.Open(ctx, k, "/cached", cache.Options{}); err != nil {
			return err
		}
		times = append(times, time.Since(began))
		runtime.GC()
		runtime.ReadMemStats(&after)
	}
	defer c.Close(ctx)
	slices.Sort(times)
	fmt.Printf("cache: %d znodes of %d bytes load in %v (median of %d; target 1 s), %d bytes a znode beyond its data (target 300)\n", cachedZnodes, cachedBytes,
		times[len(times)/2].Round(time.Millisecond), len(times), (after.HeapAlloc-before.HeapAlloc)/cachedZnodes-cachedBytes)

	var readers, seen sync.WaitGroup
	reading, stop := context.WithCancel(ctx)
	defer readers.Wait()
	defer stop()
	small, err := cache.Open(ctx, k, "/cached/n000001", cache.Options{})
	if err != nil {
		return err
	}
	defer small.Close(ctx)
	seen.Add(changeReaders)
	for range changeReaders {
		readers.Go(func() {
			for _, err := range small.Changes(reading) {
				if err != nil {
					return
				}
				seen.Done()
			}
		})
	}
	seen.Wait() // what there is
	events := s.Stats().Events
	const changes = 200
	began := time.Now()
	for i := range changes {
		seen.Add(changeReaders)
		if _, err := s.Set(ctx, "/cached/n000001", fmt.Append(nil, i), zk.AnyVersion); err != nil {
			return err
		}
		seen.Wait()
	}
	fmt.Printf("a change reaches %d readers in %v, with its write, by %.2f events\n", changeReaders,
		(time.Since(began) / changes).Round(time.Microsecond), float64(s.Stats().Events-events)/changes)
	return nil
}

// discoveryCost measures how long it takes to find an instance.
func discoveryCost(ctx context.Context, k *client.Keeper) error {
	const instances, finds = 100, 1_000_000
	for i := range instances {
		in := discovery.Instance{Name: "s", ID: fmt.Sprint("i", i), Address: "10.0.0.1", Port: 1 + i}
		if err := discovery.Publish(ctx, k, "/services", in, discovery.RegisterOptions{}); err != nil {
			return err
		}
	}
	d, err := discovery.Open(ctx, k, "/services", discovery.Options{})
	if err != nil {
		return err
	}
	defer d.Close(ctx)
	fmt.Printf("discovery: one of %d instances is found in", instances)
	for _, way := range []struct {
		name string
		find func() (discovery.Instance, error)
	}{
		{"in turn", func() (discovery.Instance, error) { return d.RoundRobin("s") }},
		{"by chance", func() (discovery.Instance, error) { return d.Random("s") }},
		{"by a key", func() (discovery.Instance, error) { return d.Sticky("s", "customer 17") }},
	} {
		n := finds
		if way.name == "by a key" {
			n /= 10
		}
		began := time.Now()
		for range n {
			if _, err := way.find(); err != nil {
				return err
			}
		}
		fmt.Printf(" %v %s,", time.Since(began)/time.Duration(n), way.name)
	}
	fmt.Println(" (target 1µs)")
	return nil
}

// joinCost measures how many events it takes until members that join at once, each in a session of its own, have settled.
func joinCost(ctx context.Context, addr string) error {
	for _, members := range []int{250, 500, 1000} {
		path := fmt.Sprint("/members", members)
		keepers := make([]*client.Keeper, members)
		joined := make([]*group.Member, members)
		if err := inParallel(members, func(i int) (err error) {
			keepers[i], err = client.Keep(ctx, addr, client.Options{SessionTimeout: 30 * time.Second})
			return err
		}); err != nil {
			return err
		}
		g, err := group.Open(ctx, keepers[0], path, group.Options{})
		if err != nil {
			return err
		}
		began := time.Now()
		if err := inParallel(members, func(i int) (err error) {
			joined[i], err = group.Join(ctx, keepers[i], path, fmt.Sprint("m", i), nil, group.JoinOptions{})
			return err
		}); err != nil {
			return err
		}
		if _, err := g.WaitFor(ctx, func(all []group.Info) bool { return len(all) == members }); err != nil {
			return err
		}
		settled := time.Since(began)
		var events atomic.Uint64
		if err := inParallel(members, func(i int) error {
			s, err := keepers[i].Session(ctx)
			if err != nil {
				return err
			}
			events.Add(s.Stats().Events)
			return errors.Join(joined[i].Close(ctx))
		}); err != nil {
			return err
		}
		fmt.Printf("group: %d members in %d sessions have joined after %v, and one that looks has been told of all: %d events\n", members, members,
			settled.Round(time.Millisecond), events.Load())
		g.Close(ctx)
		if err := inParallel(members, func(i int) error { return keepers[i].Close(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// rejoinCost measures how long a member is missing whose network is cut off until its session has expired: the time from
// the expiry, as others see it, to the rejoin, once the network is back.
func rejoinCost(ctx context.Context, addr string, rounds int) error {
	var off atomic.Bool
	var mu sync.Mutex
	var conns []net.Conn
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if off.Load() {
			return nil, errors.New("cut off")
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
		}
		return nc, err
	}
	k, err := client.Keep(ctx, addr, client.Options{Dial: dial, SessionTimeout: 4 * time.Second, BackoffMax: 50 * time.Millisecond})
	if err != nil {
		return err
	}
	defer k.Close(ctx)
	other, err := client.Keep(ctx, addr, client.Options{})
	if err != nil {
		return err
	}
	defer other.Close(ctx)
	m, err := group.Join(ctx, k, "/rejoin", "one", nil, group.JoinOptions{})
	if err != nil {
		return err
	}
	defer m.Close(ctx)
	g, err := group.Open(ctx, other, "/rejoin", group.Options{})
	if err != nil {
		return err
	}
	defer g.Close(ctx)
	var gone, back []time.Duration
	for range min(rounds, 3) {
		cut := time.Now()
		off.Store(true)
		mu.Lock()
		for _, nc := range conns {
			nc.Close()
		}
		conns = nil
		mu.Unlock()
		if _, err := g.WaitFor(ctx, func(all []group.Info) bool { return len(all) == 0 }); err != nil {
			return err
		}
		gone = append(gone, time.Since(cut))
		healed := time.Now()
		off.Store(false)
		if _, err := g.WaitFor(ctx, func(all []group.Info) bool { return len(all) == 1 }); err != nil {
			return err
		}
		back = append(back, time.Since(healed))
	}
	s, err := k.Session(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("rejoin: a member with a session timeout of %v is missed after %v, and is back %v after its network; the client's pauses of up to 50ms between attempts count\n",
		s.Timeout(), slices.Max(gone).Round(time.Millisecond), slices.Max(back).Round(time.Millisecond))
	return nil
}
