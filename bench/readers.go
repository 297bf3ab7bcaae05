package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

const readerSessions = 64

// roundsMin is how many rounds a confidence of 95 % takes at least.
const roundsMin = 6

// readers measures as many readers of one lock as there are sessions, and as many mutexes, by turns on the same
// sessions and our server.
func readers(dir string, each time.Duration, rounds int) error {
	if rounds < roundsMin {
		return fmt.Errorf("%d rounds say nothing: it takes %d", rounds, roundsMin)
	}
	s, err := startOurs(dir)
	if err != nil {
		return err
	}
	defer s.stop()
	ctx := context.Background()
	ways := []*workload{
		{name: fmt.Sprint(readerSessions, " readers of one lock")},
		{name: fmt.Sprint(readerSessions, " mutexes")},
	}
	for i := range readerSessions {
		c, err := client.Open(ctx, s.addr, client.Options{SessionTimeout: sessionTimeout})
		if err != nil {
			return err
		}
		defer c.Close(ctx)
		rw, err := lock.NewRWMutex(c, "/bench/readers", lock.Options{})
		if err != nil {
			return err
		}
		mutex, err := lock.NewMutex(c, fmt.Sprintf("/bench/mutexes/%d", i), lock.Options{})
		if err != nil {
			return err
		}
		ways[0].locks = append(ways[0].locks, rw.RLock)
		ways[1].locks = append(ways[1].locks, mutex.Lock)
	}
	describe()
	turns := slices.Clone(ways)
	for round := range 1 + rounds { // the first to warm up
		for _, w := range turns {
			r, err := w.measure(ctx, s, each)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if round > 0 {
				w.runs = append(w.runs, r)
			}
		}
		slices.Reverse(turns) // neither is always the first
	}
	for _, w := range ways {
		cycle := spreadOf(w.runs, func(r run) float64 { return 1e6 / r.rate() })
		cpu := spreadOf(w.runs, func(r run) float64 { return r.perOp(r.server + r.client) })
		fmt.Printf("%-24s a cycle every %.1f µs (%.1f to %.1f), %.1f µs of the processors\n", w.name, cycle.middle, cycle.low, cycle.high, cpu.middle)
	}
	var ratios []float64
	for i := range rounds {
		ratios = append(ratios, ways[0].runs[i].rate()/ways[1].runs[i].rate())
	}
	slices.Sort(ratios)
	skip := outside(rounds)
	fmt.Printf("in the same round readers were %.2f times as fast as mutexes (median of %d; %.2f to %.2f with a confidence of 95 %%)\n",
		ratios[rounds/2], rounds, ratios[skip], ratios[rounds-1-skip])
	return nil
}

// outside returns how many of n sorted samples can be left out at each end so that the others still span the
// median of what they are samples of, with a confidence of 95 %. Whatever their distribution, each is below that
// median in one case of two. n is roundsMin or more.
func outside(n int) int {
	chance := math.Pow(0.5, float64(n)) // that exactly skip samples are below it
	below := 0.0
	for skip := range n / 2 {
		below += chance
		if below > 0.025 {
			return skip - 1
		}
		chance *= float64(n-skip) / float64(skip+1)
	}
	return 0
}

// A workload is a way to use the sessions. Each session has one of the locks.
type workload struct {
	name  string
	locks []func(context.Context) (*lock.Hold, error)
	runs  []run
}

// measure has each session take its lock and give it back, again and again for a while.
func (w *workload) measure(ctx context.Context, s *server, each time.Duration) (run, error) {
	return s.measure(each, len(w.locks), func(worker, _ int) error {
		hold, err := w.locks[worker](ctx)
		if err != nil {
			return err
		}
		return hold.Release(ctx)
	})
}

// A spread is the middle and the ends of what was measured.
type spread struct{ low, middle, high float64 }

func spreadOf(runs []run, of func(run) float64) spread {
	var all []float64
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return spread{all[0], all[len(all)/2], all[len(all)-1]}
}
