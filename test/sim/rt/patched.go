//go:build simruntime

package rt

import "runtime"

// Patched says that the runtime does what this package asks of it.
const Patched = true

// Seed makes all of the runtime's choices within bubbles follow from seed: the order of ready goroutines,
// of select's cases, of timers of the same instant and of maps, and package math/rand's global functions.
func Seed(seed uint64) { runtime.SimSeed(seed) }

// Enter makes the calling goroutine, and those that it starts from now on, part of a group.
func Enter(g Group) { runtime.SimEnter(uint32(g)) }

// Pause keeps the goroutines of a group from running until Resume. They need not be at any particular
// point; mutexes that they hold stay held.
func Pause(g Group) { runtime.SimPause(uint32(g)) }

// Resume ends Pause.
func Resume(g Group) { runtime.SimResume(uint32(g)) }
