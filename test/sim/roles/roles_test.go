package roles

import (
	"flag"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var (
	seeds = flag.Uint64("roles.seeds", 10, "how many seeds each scenario is run with")
	from  = flag.Uint64("roles.from", 1, "the first seed")
	one   = flag.Uint64("roles.seed", 0, "one seed to be repeated; its events are printed")
	only  = flag.String("roles.only", "", "the name of the only scenario to be run")
)

// scenarios are what is tried, by name.
var scenarios = []struct {
	name string
	run  func(w *world)
}{
	{"group", groups},
	{"cache", caches},
	{"old-cache", func(w *world) { w.old = true; caches(w) }},
	{"counter", counters},
	{"barrier", barriers},
	{"partition", partitions},
}

// The invariants hold with each seed.
func TestSeeds(t *testing.T) {
	first, last := *from, *from+*seeds-1
	if *one != 0 {
		first, last = *one, *one
	}
	for _, s := range scenarios {
		if *only != "" && *only != s.name {
			continue
		}
		began, broken := time.Now(), new(atomic.Int64)
		t.Run(s.name, func(t *testing.T) {
			for seed := first; seed <= last; seed++ {
				t.Run(fmt.Sprint(seed), func(t *testing.T) {
					t.Parallel()
					violations, lines := run(t, seed, s.run)
					if len(violations) > 0 {
						broken.Add(1)
						t.Errorf("%s, seed %d: %s", s.name, seed, strings.Join(violations, "; "))
					}
					if *one != 0 || len(violations) > 0 && testing.Verbose() {
						t.Log(strings.Join(lines, "\n"))
					}
				})
			}
		})
		fmt.Printf("sim-roles: scenario=%s seeds=%d-%d seconds=%.1f violations=%d\n", s.name, first, last, time.Since(began).Seconds(), broken.Load())
	}
}
