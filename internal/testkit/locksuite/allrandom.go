package locksuite

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A crowd is clients that take random sets of the same locks, named in random order.
type crowd struct {
	w     *World
	t     *testing.T
	seed  uint64
	paths []string
	regs  map[string]*witness
	*crew

	granted atomic.Int64
}

func newCrowd(w *World, t *testing.T, clients int) *crowd {
	c := &crowd{w: w, t: t, seed: rand.Uint64(), paths: w.beside(6), regs: map[string]*witness{}, crew: newCrew(w, clients)}
	for _, path := range c.paths {
		c.regs[path] = newWitness()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("this was the crowd of seed %d", c.seed)
		}
	})
	return c
}

// take has a client take a random set, work and give it back. It returns what went wrong.
func (c *crowd) take(ctx context.Context, i int, r *rand.Rand, work time.Duration) error {
	client := c.client(i)
	var paths []string
	for _, at := range r.Perm(len(c.paths))[:2+r.IntN(3)] {
		paths = append(paths, c.paths[at])
	}
	all := c.w.AllOf(client.Mutexes(paths, lock.Options{Requeue: r.IntN(2) == 0})...)
	h, err := all.Lock(ctx)
	if (h == nil) == (err == nil) {
		c.t.Errorf("F26: holds %v and error %v", h, err)
	}
	if err != nil {
		return err
	}
	c.granted.Add(1)
	for path, token := range h.Tokens() {
		c.regs[path].enter(token, client.ID())
	}
	select {
	case <-time.After(time.Duration(r.Int64N(int64(work)))):
	case <-h.Done():
	}
	for path, token := range h.Tokens() {
		c.regs[path].leave(token)
	}
	return h.Release(ctx)
}

// check checks that no two were inside together, and that nothing is left.
func (c *crowd) check() {
	for _, path := range c.paths {
		c.regs[path].check(c.t)
	}
	c.w.CleanAt(c.paths)
}

// Overlapping sets in any order: no contender waits for ever, because there is one order in which they are taken.
func f36AnyOrder(w *World, t *testing.T) {
	clients := w.reps(20, 5)
	c := newCrowd(w, t, clients)
	var wg sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(c.seed, uint64(i)))
		wg.Go(func() {
			for range w.reps(20, 5) {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				err := c.take(ctx, i, r, 20*time.Millisecond)
				cancel()
				if err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	c.check()
}

// The same while connections break, fall silent and sessions expire: every call ends, and a call that did not get
// all has nothing.
func f36AnyOrderWithFaults(w *World, t *testing.T) {
	clients := w.reps(20, 5)
	c := newCrowd(w, t, clients)
	turmoil := time.Minute
	if !w.Virtual {
		turmoil = 4 * time.Second
	}
	over, cancel := context.WithTimeout(context.Background(), turmoil)
	defer cancel()
	var wg sync.WaitGroup
	for i := range clients {
		r := rand.New(rand.NewPCG(c.seed, uint64(i)))
		wg.Go(func() {
			for over.Err() == nil {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.Int64N(int64(10*time.Second))))
				err := c.take(ctx, i, r, time.Second)
				cancel()
				switch {
				case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrLost),
					errors.Is(err, zk.ErrSessionExpired), errors.Is(err, lock.ErrPlaceLost):
				default:
					t.Errorf("client %d: %v", i, err)
				}
			}
		})
	}
	c.disturb(over, rand.New(rand.NewPCG(c.seed, 1<<32)))
	wg.Wait()
	time.Sleep(w.Timeout + 2*w.Tick) // sessions that lost touch are gone
	c.check()
	if c.granted.Load() == 0 {
		t.Error("no contender was ever granted: the faults are too many")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i := range clients {
		if err := c.take(ctx, i, rand.New(rand.NewPCG(c.seed, 0)), 1); err != nil {
			t.Errorf("client %d after all: %v", i, err)
		}
	}
	c.w.CleanAt(c.paths)
}

// disturb breaks things until ctx ends, and then heals them all.
func (c *crowd) disturb(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(r.Int64N(int64(500 * time.Millisecond))))
		client, n := c.any(r), r.IntN(6)
		if n < 5 {
			client.disturb(n)
		} else if client.Err() == nil && r.IntN(4) == 0 {
			for _, reg := range c.regs {
				reg.putOut(client.ID())
			}
			c.w.Expire(client.Session)
		}
	}
	c.heal()
}
