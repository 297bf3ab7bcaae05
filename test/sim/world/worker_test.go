package world

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
)

var (
	first = flag.Uint64("sim.first", 1, "first seed")
	count = flag.Int("sim.count", 20, "how many seeds")
	lines = flag.Bool("sim.lines", false, "report everything that happened")
)

// TestSeeds runs the plans of some seeds and reports each on a line of its own.
func TestSeeds(t *testing.T) {
	out := json.NewEncoder(os.Stdout)
	for seed := *first; seed < *first+uint64(*count); seed++ {
		fmt.Printf("@begin %d\n", seed)
		synctest.Test(t, func(t *testing.T) {
			r := Run(NewPlan(seed), *lines)
			fmt.Print("@report ")
			out.Encode(r)
			if len(r.Violations) > 0 {
				t.Errorf("seed %d: %v", seed, r.Violations)
			}
		})
	}
}
