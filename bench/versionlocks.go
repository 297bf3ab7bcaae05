package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/bench/peers"
)

// versionLocks takes locks with the command of each revision on the revision's own server, and on the floor, by turns. It prints the
// medians of the rounds' ratios.
func versionLocks(dir string, both []*server, each time.Duration, rounds int) error {
	floor, err := newBare(dir)
	if err != nil {
		return err
	}
	defer floor.stop()
	if err := floor.start(); err != nil {
		return err
	}
	onFloor := peers.Libraries[slices.IndexFunc(peers.Libraries, func(l peers.Library) bool { return l.Name == peers.FloorName })]
	fmt.Printf("\nlocks: the command and the server of each revision, median of the ratios of %d rounds\n", rounds)
	for _, w := range peers.Workloads {
		var ratios, here, base []float64
		for round := range 1 + rounds { // the first to warm up
			var rates [2]float64
			for i := range both {
				which := (i + round) % len(both) // neither is always the first
				if rates[which], err = cyclesOf(both[which], w, each); err != nil {
					return fmt.Errorf("%s with %s: %w", w.Name, both[which].name, err)
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*each+startLimit)
			r, err := onFloor.Run(ctx, floor.addr, w, each/2, each)
			cancel()
			if err != nil {
				return fmt.Errorf("%s on the floor: %w", w.Name, err)
			}
			if round > 0 {
				ratios = append(ratios, rates[0]/rates[1])
				here, base = append(here, rates[0]/r.Rate()), append(base, rates[1]/r.Rate())
			}
		}
		slices.Sort(ratios)
		slices.Sort(here)
		slices.Sort(base)
		fmt.Printf("  %-28s %.3f of the rate (%.3f to %.3f); of the floor: %.2f, the other revision %.2f\n",
			w.Name+":", ratios[rounds/2], ratios[0], ratios[rounds-1], here[rounds/2], base[rounds/2])
	}
	return nil
}

// cyclesOf returns how many cycles a second the command of a server reaches on it.
func cyclesOf(s *server, w peers.Workload, each time.Duration) (float64, error) {
	bench := exec.Command(s.command[0], "bench", "--servers", s.addr, "--duration", each.String(), "--json", "--clients", strconv.Itoa(w.Clients))
	if w.Locks == 1 && w.Clients > 1 {
		bench.Args = append(bench.Args, "--shared")
	}
	out, err := bench.Output()
	if err != nil {
		return 0, fmt.Errorf("%v: %w", bench.Args[1:], err)
	}
	var said struct {
		Rate float64 `json:"cycles_per_second"`
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return 0, fmt.Errorf("%v printed %q: %w", bench.Args[1:], out, err)
	}
	return said.Rate, nil
}
