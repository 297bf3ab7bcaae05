package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/bench/peers"
)

// A cell is a library under a workload.
type cell struct {
	library  peers.Library
	workload peers.Workload
	runs     []peers.Result
}

// A promise is the least ratio of one library's rate to another's, for each of the workloads.
type promise struct {
	of, to string
	floor  string // what bounds it
	least  []float64
}

var promises = []promise{
	{"lockkeeper on its own server", peers.FloorName, peers.OurRequestsName, []float64{0.8, 0.55, 0.65}},
	{"lockkeeper on Apache ZooKeeper", "go-zookeeper", peers.ApacheRequestsName, []float64{1.3, 1.3, 1.3}},
	{"lockkeeper on its own server", "redsync (unfair, one server)", peers.OurRequestsName, []float64{1, 1, 1}},
}

// processRounds is how many rounds there are to one in which libraries are measured that are processes of their own. They take
// seconds to start, so they run longer then.
const processRounds = 12

// warmUp is how long a library runs at least before it is measured. Its sessions are new, and the first cycles of 64 of them, of the
// server's code and of the processors say little about a service that runs for days.
const warmUp = 2 * time.Second / 3

// locks measures all libraries under all workloads, by turns, and writes what came of it. The speed of disk and processors
// changes within minutes on a machine that is shared. So turns are short, what is compared runs in turns that follow each other, and
// their order is another one in each round.
func locks(dir string, each time.Duration, rounds int, out io.Writer) ([]*cell, error) {
	if rounds < processRounds {
		return nil, fmt.Errorf("%d rounds are too few: processes are measured in one of %d", rounds, processRounds)
	}
	if err := requirePackages(); err != nil {
		return nil, err
	}
	var cells []*cell
	for _, w := range peers.Workloads {
		for _, l := range peers.Libraries {
			cells = append(cells, &cell{library: l, workload: w})
		}
	}
	servers := map[peers.Engine]*server{}
	for _, l := range peers.Libraries {
		if servers[l.Engine] != nil {
			continue
		}
		s, err := newEngine(l.Engine, dir)
		if err != nil {
			return nil, err
		}
		defer s.stop()
		if err := s.start(); err != nil {
			return nil, err
		}
		servers[l.Engine] = s
	}
	for round := range 1 + rounds { // the first to warm up
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round, rounds)
		for _, c := range turns(cells) {
			long := each
			if c.library.Process {
				if round%processRounds != 0 {
					continue
				}
				long *= processRounds
			}
			warm := max(long/3, warmUp)
			ctx, cancel := context.WithTimeout(context.Background(), warm+2*long+startLimit)
			r, err := c.library.Run(ctx, servers[c.library.Engine].addr, c.workload, warm, long)
			cancel()
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", c.library.Name, c.workload.Name, err)
			}
			if round > 0 {
				c.runs = append(c.runs, r)
			}
		}
	}
	writeCells(out, cells)
	return cells, nil
}

// turns returns the cells in the order of a round: the workloads one after the other, and the libraries under each, by chance.
func turns(cells []*cell) []*cell {
	var order []*cell
	for _, w := range rand.Perm(len(peers.Workloads)) {
		for _, l := range rand.Perm(len(peers.Libraries)) {
			order = append(order, find(cells, peers.Libraries[l].Name, peers.Workloads[w]))
		}
	}
	return order
}

// median returns the run whose rate is in the middle.
func (c *cell) median() peers.Result {
	sorted := slices.Clone(c.runs)
	slices.SortFunc(sorted, func(a, b peers.Result) int { return cmp.Compare(a.Rate(), b.Rate()) })
	return sorted[len(sorted)/2]
}

// spread returns the lowest and the highest rate.
func (c *cell) spread() (low, high float64) {
	low, high = c.runs[0].Rate(), c.runs[0].Rate()
	for _, r := range c.runs {
		low, high = min(low, r.Rate()), max(high, r.Rate())
	}
	return low, high
}

// ratio returns the median of the rounds' ratios of c's rate to that of another cell. Both are measured in every round.
func (c *cell) ratio(to *cell) float64 {
	ratios := make([]float64, len(c.runs))
	for round, r := range c.runs {
		ratios[round] = r.Rate() / to.runs[round].Rate()
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// find returns the cell of a library under a workload.
func find(cells []*cell, library string, w peers.Workload) *cell {
	i := slices.IndexFunc(cells, func(c *cell) bool { return c.library.Name == library && c.workload == w })
	return cells[i]
}

// writeCells writes tables of rates and times, and the ratios that are promised.
func writeCells(out io.Writer, cells []*cell) {
	for _, w := range peers.Workloads {
		fmt.Fprintf(out, "\n### %s\n\n| library | cycles/s | lowest to highest | half within | 99 %% within |\n|---|--:|--:|--:|--:|\n", w.Name)
		for _, l := range peers.Libraries {
			c := find(cells, l.Name, w)
			m := c.median()
			low, high := c.spread()
			fmt.Fprintf(out, "| %s | %.0f | %.0f to %.0f | %.0f µs | %.0f µs |\n", l.Name, m.Rate(), low, high, m.P50, m.P99)
		}
	}
	fmt.Fprintf(out, "\n### Ratios\n\nMedians of the rounds' ratios. The column \"at most\" is what the requests of a lock reach on the same server, without a\n"+
		"lock, and the last one how much of that the lock reaches: the median of the rounds, too.\n\n"+
		"| of | to | workload | ratio | wanted | | at most | of that |\n|---|---|---|--:|--:|---|--:|--:|\n")
	for _, p := range promises {
		for i, w := range peers.Workloads {
			if p.least[i] == 0 {
				continue
			}
			to := find(cells, p.to, w)
			of, most := find(cells, p.of, w), find(cells, p.floor, w)
			ratio := of.ratio(to)
			met := "met"
			if ratio < p.least[i] {
				met = "**missed**"
			}
			fmt.Fprintf(out, "| %s | %s | %s | %.2f | %.2f | %s | %.2f | %.0f %% |\n", p.of, p.to, w.Name, ratio, p.least[i], met, most.ratio(to), 100*of.ratio(most))
		}
	}
}
