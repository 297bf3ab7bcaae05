package world

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
)

var (
	first = flag.Uint64("sim.first", 1, "first seed")
	count = flag.Int("sim.count", 20, "how many seeds")
	stop  = flag.Bool("sim.stop", false, "end with the first seed that violates something")
	lines = flag.Bool("sim.lines", false, "report everything that happened in the last seed")
	given = flag.Bool("sim.plan", false, "run the plan that is read from standard input")
)

// seeded is where ids come from: chance that follows the seed, with a patched runtime.
type seeded struct{}

func (seeded) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], rand.Uint64())
		copy(b[i:], word[:])
	}
	return len(b), nil
}

// collect frees memory between two runs, for during them nothing is collected: that would have the runtime's
// own goroutines run in between. It does so often: memory that has been used just now is faster than new one.
func collect() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 32<<20 {
		runtime.GC()
	}
}

// TestSeeds runs the plans of some seeds and reports each on a line of its own.
func TestSeeds(t *testing.T) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	runtime.MemProfileRate = 0
	crand.Reader = seeded{}
	// The first run fills what the standard library caches; none that is reported shall.
	synctest.Test(t, func(*testing.T) { Run(Everything(), false) })
	out := json.NewEncoder(os.Stdout)
	last := *first + uint64(*count) - 1
	for seed := *first; seed <= last; seed++ {
		fmt.Printf("@begin %d\n", seed)
		collect()
		var r *Report
		synctest.Test(t, func(t *testing.T) {
			p := NewPlan(seed)
			if *given {
				p = new(Plan)
				if err := json.NewDecoder(os.Stdin).Decode(p); err != nil {
					t.Fatal(err)
				}
			}
			r = Run(p, *lines && seed == last)
		})
		r.From = *first
		r.Judge()
		fmt.Print("@report ")
		out.Encode(r)
		if len(r.Violations) > 0 {
			t.Errorf("seed %d: %v", seed, r.Violations)
			if *stop {
				return
			}
		}
	}
}
