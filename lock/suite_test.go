package lock_test

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/testkit/locksuite"
)

// The suite on the server of this project, in virtual time. Package test/interop/locks runs it on Apache
// ZooKeeper.
func TestSuite(t *testing.T) { locksuite.Run(t, locksuite.Memory()) }

var (
	seeds = flag.Int("locksuite.seeds", 100, "how many random schedules to run")
	seed  = flag.Uint64("locksuite.seed", 0, "seed of the first random schedule; 0 is a random one")
)

func TestRandomSchedules(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 48)
	}
	locksuite.Random(t, first, *seeds)
}
