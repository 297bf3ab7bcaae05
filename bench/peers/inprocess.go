package peers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// sessionTimeout is that of every session and lease.
const sessionTimeout = 30 * time.Second

// A contender is one client.
type contender interface {
	// cycle takes a lock and gives it back.
	cycle(ctx context.Context, lock string) error
	close()
}

// open makes a contender for the engine at addr. locks are those that it may be asked for.
type open func(ctx context.Context, addr string) (contender, error)

// lockName returns the name of the lock of client i.
func (w Workload) lockName(i int) string { return fmt.Sprintf("bench-%d-%d", w.Clients, i%w.Locks) }

// inProcess runs contenders as goroutines of this process.
func inProcess(o open) func(context.Context, string, Workload, time.Duration, time.Duration) (Result, error) {
	return func(ctx context.Context, addr string, w Workload, warm, each time.Duration) (Result, error) {
		var clients []contender
		defer func() {
			for _, c := range clients {
				c.close()
			}
		}()
		for range w.Clients {
			c, err := o(ctx, addr)
			if err != nil {
				return Result{}, err
			}
			clients = append(clients, c)
		}
		begin := time.Now().Add(warm)
		end := begin.Add(each)
		times := make([][]time.Duration, w.Clients)
		errs := make([]error, w.Clients)
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { times[i], errs[i] = cycles(ctx, c, w.lockName(i), begin, end) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return Result{}, err
		}
		return summary(slices.Concat(times...), each), nil
	}
}

// cycles takes and gives back a lock until end, and returns how long those cycles took that ended
// between begin and end.
func cycles(ctx context.Context, c contender, lock string, begin, end time.Time) (times []time.Duration, err error) {
	for at := time.Now(); ; {
		if err := c.cycle(ctx, lock); err != nil {
			return nil, err
		}
		now := time.Now()
		if now.After(end) {
			return times, nil
		}
		if now.After(begin) {
			times = append(times, now.Sub(at))
		}
		at = now
	}
}

// summary is the result of cycles that took so long each, all within that time.
func summary(times []time.Duration, within time.Duration) Result {
	r := Result{Cycles: int64(len(times)), Seconds: within.Seconds()}
	if len(times) > 0 {
		slices.Sort(times)
		at := func(q float64) float64 {
			return float64(times[int(q*float64(len(times)-1))]) / float64(time.Microsecond)
		}
		r.P50, r.P99 = at(0.5), at(0.99)
	}
	return r
}
