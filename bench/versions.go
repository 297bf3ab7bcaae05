package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// slower is the part of the other revision's rate that ours has to reach.
const slower = 0.97

// versions runs every load on our server of the checkout and of another revision, by turns, then a lone writer beside a lock, then
// locks, and prints the median of the rounds' ratios: what the machine does meanwhile hits both of a round.
func versions(dir, base string, each time.Duration, rounds int) error {
	var both []*server
	for _, of := range []struct{ name, source string }{{"here", ".."}, {"base", base}} {
		where := filepath.Join(dir, of.name)
		if err := os.Mkdir(where, 0o755); err != nil {
			return err
		}
		s, err := newOursFrom(of.source, where)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		s.name = of.name
		defer s.stop()
		if err := s.start(); err != nil {
			return err
		}
		both = append(both, s)
	}
	describe()
	way := connectionKinds[0]
	fmt.Printf("\ngo-zookeeper %s, median of the ratios of %d rounds\n", way.name, rounds)
	for _, l := range loads {
		var ratios, processor []float64
		for round := range 1 + rounds {
			var pair [2]run
			for i := range both {
				which := (i + round) % len(both) // neither is always the first
				r, err := l.measure(both[which], way.dial, each)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", l.name, both[which].name, err)
				}
				pair[which] = r
			}
			if round > 0 {
				ratios = append(ratios, pair[0].rate()/pair[1].rate())
				processor = append(processor, pair[0].perOp(pair[0].server)/pair[1].perOp(pair[1].server))
			}
		}
		slices.Sort(ratios)
		slices.Sort(processor)
		middle := ratios[len(ratios)/2]
		said := "met"
		if middle < slower {
			said = "not met"
		}
		fmt.Printf("  %-28s %.3f of the rate (%.3f to %.3f), %.3f of the server's processor time (target >= %.2f of the rate: %s)\n",
			l.name+":", middle, ratios[0], ratios[len(ratios)-1], processor[len(processor)/2], slower, said)
	}
	if err := besideLocks(both, way.dial, each, rounds); err != nil {
		return err
	}
	return versionLocks(dir, both, each, rounds)
}
