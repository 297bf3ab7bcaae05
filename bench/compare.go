package main

import (
	"fmt"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// rounds is how often each workload is run on each server, after once to warm up; medians count.
const rounds = 3

// A connecting is a way in which the client is connected, the same for both servers.
type connecting struct {
	name string
	dial zk.Dialer
}

var connectings = []connecting{
	{"as it is", net.DialTimeout},
	{"over connections that gather", dialGathering},
}

const legend = `Beside the rates: processor time of server and of client for one operation, and the share of all processors that they
and everybody else had meanwhile. "At most": the rate at which this client alone fills the processors, which no server
can exceed. The limit is whoever had most when the processors were full; when they were not, it is waiting.
Ratios: of the rates, and of the servers' processor time for one operation, which is what is left of it when the client is
not the limit.
`

// compare measures everything side by side and prints it.
func compare(dir string, each time.Duration, znodes int, apacheToo bool) error {
	ours, err := newOurs(dir)
	if err != nil {
		return err
	}
	defer ours.stop()
	apache, err := newApache(dir)
	if err != nil {
		return err
	}
	defer apache.stop()
	describe()
	for _, s := range []*server{ours, apache} {
		begin := time.Now()
		if err := s.start(); err != nil {
			return err
		}
		fmt.Printf("%s: serves after %v with no data (target for ours <= 50 ms)\n", s.name, time.Since(begin).Round(time.Millisecond))
	}
	fmt.Printf("\n%s", legend)
	for _, way := range connectings {
		fmt.Printf("\ngo-zookeeper %s, median of %d\n", way.name, rounds)
		for _, l := range loads {
			if err := l.compare(way.dial, ours, apache, each); err != nil {
				return err
			}
		}
	}
	ours.stop()
	apache.stop()
	if znodes == 0 {
		return nil
	}
	fmt.Println()
	if err := measureMemory(ours, znodes, "<= 300 MB added, <= 3 s to open"); err != nil || !apacheToo {
		return err
	}
	return measureMemory(apache, znodes, "none")
}

// compare runs the load on both, by turns, and prints what came of it.
func (l load) compare(dial zk.Dialer, ours, apache *server, each time.Duration) error {
	both := []*server{ours, apache}
	runs := map[*server][]run{}
	for round := range 1 + rounds {
		for _, s := range both {
			r, err := l.measure(s, dial, each)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", l.name, s.name, err)
			}
			if round > 0 {
				runs[s] = append(runs[s], r)
			}
		}
	}
	a, b := median(runs[ours]), median(runs[apache])
	ratio := a.rate / b.rate
	fmt.Printf("  %s: %.2fx the rate, %.2fx less of the server's processors (target %.1fx the rate: %s)\n",
		l.name, ratio, b.server/a.server, l.target, verdict(ratio, l.target, a.limit()))
	for _, s := range both {
		fmt.Printf("    %-10s  %v\n", s.name, median(runs[s]))
	}
	return nil
}

func verdict(ratio, target float64, limit string) string {
	switch {
	case ratio >= target:
		return "met"
	case limit == "client" || limit == "others":
		return "not shown, the limit is the " + limit
	}
	return "not met"
}

// A result is what several runs had in common: medians.
type result struct {
	rate                                  float64 // operations a second
	server, client                        float64 // processor time for one, in microseconds
	serverShare, clientShare, othersShare float64 // of all processors
}

func median(runs []run) result {
	of := func(look func(run) float64) float64 {
		var v []float64
		for _, r := range runs {
			v = append(v, look(r))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return result{
		rate:        of(run.rate),
		server:      of(func(r run) float64 { return r.perOp(r.server) }),
		client:      of(func(r run) float64 { return r.perOp(r.client) }),
		serverShare: of(func(r run) float64 { return r.share(r.server) }),
		clientShare: of(func(r run) float64 { return r.share(r.client) }),
		othersShare: of(func(r run) float64 { return r.share(r.others) }),
	}
}

// clientAlone is the rate at which the client would fill the processors by itself: no server, however fast,
// could be seen to be faster.
func (r result) clientAlone() float64 { return float64(runtime.NumCPU()) * 1e6 / r.client }

// full is the share of the processors that is busy when there is as good as nothing left.
const full = 0.9

// limit says what kept the rate from being higher.
func (r result) limit() string {
	switch {
	case r.serverShare+r.clientShare+r.othersShare < full:
		return "waiting"
	case r.othersShare > max(r.serverShare, r.clientShare):
		return "others"
	case r.clientShare > r.serverShare:
		return "client"
	}
	return "server"
}

func (r result) String() string {
	return fmt.Sprintf("%7.0f/s  server %6.1f us %3.0f %%  client %6.1f us %3.0f %%  others %3.0f %%  at most %7.0f/s  limit: %s",
		r.rate, r.server, 100*r.serverShare, r.client, 100*r.clientShare, 100*r.othersShare, r.clientAlone(), r.limit())
}
