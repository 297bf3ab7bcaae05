package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/lockkeeper/lockkeeper/bench/peers"
)

// besideLocks measures a client that sets a znode, one write at a time, while eight clients take turns at one lock on the same server,
// by turns with the servers of both revisions. It prints the medians of the rounds' ratios.
func besideLocks(both []*server, dial zk.Dialer, each time.Duration, rounds int) error {
	alone := loads[slices.IndexFunc(loads, func(l load) bool { return l.conns*l.inFlight == 1 })]
	handOver := peers.Workloads[slices.IndexFunc(peers.Workloads, func(w peers.Workload) bool { return w.Locks == 1 && w.Clients > 1 })]
	var sets, cycles []float64
	for round := range 1 + rounds { // the first to warm up
		var rates, beside [2]float64
		for i := range both {
			which := (i + round) % len(both) // neither is always the first
			turns := make(chan error)
			go func() {
				var err error
				rates[which], err = cyclesOf(both[which], handOver, 2*each)
				turns <- err
			}()
			time.Sleep(each / 2)
			r, err := alone.measure(both[which], dial, each)
			if turnsErr := <-turns; err == nil {
				err = turnsErr
			}
			if err != nil {
				return fmt.Errorf("sets beside a lock on %s: %w", both[which].name, err)
			}
			beside[which] = r.rate()
		}
		if round > 0 {
			sets, cycles = append(sets, beside[0]/beside[1]), append(cycles, rates[0]/rates[1])
		}
	}
	slices.Sort(sets)
	slices.Sort(cycles)
	said := "met"
	if sets[rounds/2] < slower {
		said = "not met"
	}
	fmt.Printf("\n%s, beside %s: %.3f of the rate (%.3f to %.3f; target >= %.2f: %s); the lock meanwhile: %.3f of the rate\n",
		alone.name, handOver.Name, sets[rounds/2], sets[0], sets[rounds-1], slower, said, cycles[rounds/2])
	return nil
}
