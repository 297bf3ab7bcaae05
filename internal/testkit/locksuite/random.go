package locksuite

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Random runs schedules that chance makes up, on our server in virtual time: clients take and try and give
// up and give back, while their connections break, fall silent and lose single requests, sessions expire
// and nodes are deleted. Each seed is one schedule as far as virtual time determines it; goroutines that
// are ready in the same instant still run in any order.
func Random(t *testing.T, first uint64, seeds int) {
	memory := Memory()
	var sum tally
	for seed := first; seed < first+uint64(seeds) && !t.Failed(); seed++ {
		memory.Bubble(t, func(t *testing.T) {
			w := newWorld(t, memory)
			defer func() {
				if t.Failed() {
					t.Logf("this was the schedule of seed %d", seed)
				}
			}()
			s := &schedule{w: w, t: t, seed: seed, reg: newWitness()}
			s.run()
			sum.granted, sum.lost, sum.refused = sum.granted+s.granted, sum.lost+s.lost, sum.refused+s.refused
		})
	}
	t.Logf("%d schedules from seed %d: %d grants, %d losses, %d refusals", seeds, first, sum.granted, sum.lost, sum.refused)
	if seeds >= 100 && (sum.granted == 0 || sum.lost == 0 || sum.refused == 0) {
		t.Error("the schedules do not reach what they are to test")
	}
}

type tally struct{ granted, lost, refused int }

// turmoil is how long a schedule disturbs its clients.
const turmoil = 30 * time.Second

type schedule struct {
	w    *World
	t    *testing.T
	seed uint64
	reg  *witness

	*crew

	mu sync.Mutex // guards what follows
	tally
}

func (s *schedule) run() {
	r := rand.New(rand.NewPCG(s.seed, 0))
	s.w.server.net.Link("", memoryAddress).Latency(time.Duration(r.IntN(5)) * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), turmoil)
	defer cancel()
	contenders := 2 + r.IntN(4)
	s.crew = newCrew(s.w, contenders)
	var wg sync.WaitGroup
	for i := range contenders {
		wg.Go(func() { s.contend(ctx, i, rand.New(rand.NewPCG(s.seed, uint64(i)+1))) })
	}
	s.disturb(ctx, r)
	wg.Wait()

	// The network is healthy. Sessions that lost touch are gone in time; then the lock is free for all, one
	// after the other (I3), nothing is left (I2), and no two were inside together (I1).
	time.Sleep(s.w.Timeout + 2*s.w.Tick)
	s.w.Clean()
	for i := range contenders {
		h := must(s.w, s.client(i).Mutex(lock.Options{}).Lock)
		s.w.MustRelease(h)
	}
	s.reg.check(s.t)
}

// contend takes the lock in one way or another until ctx ends.
func (s *schedule) contend(ctx context.Context, i int, r *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	for ctx.Err() == nil {
		c := s.client(i)
		m := c.Mutex(lock.Options{Requeue: r.IntN(2) == 0})
		// Bounded by itself, not by the schedule: what is under way at the end has to come to its own.
		wait, cancel := context.WithTimeout(context.Background(), upTo([]time.Duration{5 * time.Millisecond, time.Second, 20 * time.Second}[r.IntN(3)])+1)
		take := m.Lock
		if r.IntN(4) == 0 {
			take = m.TryLock
		}
		h, err := take(wait)
		cancel()
		s.note(h, err)
		if h != nil {
			s.hold(c, h, r)
		}
		time.Sleep(upTo(100 * time.Millisecond))
	}
}

// note counts an outcome, and checks that it is one that may be.
func (s *schedule) note(h *lock.Hold, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case (h == nil) == (err == nil):
		s.t.Errorf("F26: hold %v and error %v", h, err)
	case h != nil:
		s.granted++
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, lock.ErrBusy), errors.Is(err, lock.ErrPlaceLost),
		errors.Is(err, zk.ErrSessionExpired):
		s.refused++
	default:
		s.t.Errorf("refused with %v", err)
	}
}

// hold works under the hold for a while, or until it is lost, and gives it back.
func (s *schedule) hold(c *Client, h *lock.Hold, r *rand.Rand) {
	s.reg.enter(h.Token(), c.ID())
	select {
	case <-time.After(time.Duration(r.Int64N(int64([]time.Duration{time.Millisecond, time.Second, 30 * time.Second}[r.IntN(3)])))):
	case <-h.Done():
	}
	s.reg.leave(h.Token())
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.Int64N(int64(2*time.Second))))
	defer cancel()
	err := h.Release(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, lock.ErrReleasePending):
	case errors.Is(err, lock.ErrLost):
		s.lost++
	default:
		s.t.Errorf("release: %v", err)
	}
}

// disturb breaks things until ctx ends, and then heals them all.
func (s *schedule) disturb(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
		c := s.any(r)
		switch n := r.IntN(8); n {
		case 5:
			m := faultproxy.Match{Prefix: s.w.dir, Skip: r.IntN(4), Times: 1 + r.IntN(3)}
			c.Cut(m, r.IntN(2) > 0)
		case 6:
			if c.Err() == nil && r.IntN(3) == 0 {
				s.reg.putOut(c.ID())
				s.w.Expire(c.Session)
			}
		case 7:
			if line := s.w.Queue(); len(line) > 0 && r.IntN(3) == 0 {
				s.delete(zk.Join(s.w.dir, line[r.IntN(len(line))]))
			}
		default:
			c.disturb(n)
		}
	}
	s.heal()
}

// delete removes a node as a careless administrator would.
func (s *schedule) delete(node string) {
	_, stat, err := s.w.fresh().Get(s.w.Context(), node)
	if err == nil {
		s.reg.putOut(stat.Czxid)
		err = s.w.admin.Delete(s.w.Context(), node, -1)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		s.t.Error(err)
	}
}
