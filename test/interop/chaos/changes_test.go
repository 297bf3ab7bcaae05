package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var changing = flag.Duration("chaos.changing", 8*time.Second, "how long the servers' configuration changes")

// The servers are restarted one by one with another tick and another longest session timeout, under living sessions whose
// timeouts shrink and grow with it, and clients pause for half their timeout just before their followers are killed. No
// two hold a lock. It prints one line that begins with "chaos-changes:".
func TestF17_ChaosWhileConfigurationsChange(t *testing.T) {
	sideBySide(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("seed %d\n", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	r := newRun(t, network, fmt.Sprintf("changes-%s-%d", *rigFlag, seed), seed, timeoutAsked, settings(tick, timeouts[0]))
	shown := 0
	for began := time.Now(); shown == 0 || time.Since(began) < *changing; {
		for range 1 + rng.IntN(3) {
			if r.pauseAndKill(rng) {
				shown++
			}
			if time.Since(began) > *changing {
				break
			}
		}
		r.change(rng)
		r.awaitProgress()
	}
	r.conclude("chaos-changes", seed)
}
