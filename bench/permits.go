package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// contendersEach is how many sessions there are for each permit of a semaphore.
const contendersEach = 4

// permits measures semaphores that four times as many sessions want as there are permits, on our server.
func permits(dir string, each time.Duration, rounds int) error {
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	ctx := context.Background()
	describe()
	for _, n := range []int{1, 2, 16} {
		w := &workload{name: fmt.Sprint("permits ", n)}
		var sessions []*client.Session
		for range contendersEach * n {
			c, err := client.Open(ctx, s.addr, client.Options{SessionTimeout: sessionTimeout})
			if err != nil {
				return err
			}
			sessions = append(sessions, c)
			m, err := lock.NewSemaphore(c, fmt.Sprintf("/bench/permits-%d", n), n, lock.Options{})
			if err != nil {
				return err
			}
			w.locks = append(w.locks, m.Acquire)
		}
		for round := range 1 + rounds { // the first to warm up
			r, err := w.measure(ctx, s, each)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if round > 0 {
				w.runs = append(w.runs, r)
			}
		}
		for _, c := range sessions {
			if err := c.Close(ctx); err != nil {
				return err
			}
		}
		rate := spreadOf(w.runs, run.rate)
		cpu := spreadOf(w.runs, func(r run) float64 { return r.perOp(r.server + r.client) })
		fmt.Printf("%2d permits, %2d sessions: %.0f permits a second (%.0f to %.0f), %.0f µs of the processors each\n",
			n, len(sessions), rate.middle, rate.low, rate.high, cpu.middle)
	}
	return nil
}
