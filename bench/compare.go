package main

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
)

// rounds is how often each workload is run on each server, after once to warm up; medians count.
const rounds = 3

// A connectionKind is a way in which the client is connected, the same for both servers.
type connectionKind struct {
	name string
	dial zk.Dialer
}

var connectionKinds = []connectionKind{
	{"as it is", net.DialTimeout},
	{"over connections that gather", dialGathering},
}

const legend = `Beside the rates: processor time of server and of client for one operation, and the share of all processors that they
and the other processes had meanwhile. Null is a server that keeps nothing: it answers reads at once, and writes when as many
bytes as they take in a log are written and synced. What this client reaches with it is what it can reach here: where ours
is within a tenth of that, the client is the limit.
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
	null, err := newNullServer(dir)
	if err != nil {
		return err
	}
	defer null.stop()
	describe()
	for _, s := range []*server{ours, apache, null} {
		begin := time.Now()
		if err := s.start(); err != nil {
			return err
		}
		fmt.Printf("%s: serves after %v with no data (target for ours <= 50 ms)\n", s.name, time.Since(begin).Round(time.Millisecond))
	}
	fmt.Printf("\n%s", legend)
	for _, way := range connectionKinds {
		fmt.Printf("\ngo-zookeeper %s, median of %d\n", way.name, rounds)
		for _, l := range loads {
			if err := l.compare(way.dial, ours, apache, null, each); err != nil {
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

// compare runs the load on all, by turns, and prints what came of it.
func (l load) compare(dial zk.Dialer, ours, apache, null *server, each time.Duration) error {
	all := []*server{ours, apache, null}
	runs := map[*server][]run{}
	for round := range 1 + rounds {
		for _, s := range all {
			r, err := l.measure(s, dial, each)
			if err != nil {
				return fmt.Errorf("%s on %s: %w", l.name, s.name, err)
			}
			if round > 0 {
				runs[s] = append(runs[s], r)
			}
		}
	}
	a, b, most := median(runs[ours]), median(runs[apache]), median(runs[null])
	fmt.Printf("  %s: %.2fx the rate, %.0f %% of what the client reaches, %.2fx less of the server's processors (target %.1fx the rate: %s)\n",
		l.name, a.rate/b.rate, 100*a.rate/most.rate, b.server/a.server, l.target, verdict(a.rate, b.rate, most.rate, l.target))
	for _, s := range all {
		fmt.Printf("    %-10s  %v\n", s.name, median(runs[s]))
	}
	return nil
}

// nearly is the part of the client's rate from which on the client is the limit.
const nearly = 0.9

// verdict compares rates: ours, Apache's and the most that the client reaches with any server.
func verdict(ours, apache, most, target float64) string {
	switch {
	case ours >= target*apache:
		return "met"
	case ours >= nearly*most:
		return fmt.Sprintf("the client is the limit, with a server that keeps nothing it has %.2fx", most/apache)
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

func (r result) String() string {
	return fmt.Sprintf("%7.0f/s  server %6.1f us %3.0f %%  client %6.1f us %3.0f %%  others %3.0f %%",
		r.rate, r.server, 100*r.serverShare, r.client, 100*r.clientShare, 100*r.othersShare)
}
