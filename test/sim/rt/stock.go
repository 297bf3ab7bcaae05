//go:build !simruntime

package rt

// Patched says that the runtime does what this package asks of it.
const Patched = false

// Seed does nothing.
func Seed(uint64) {}

// Enter does nothing.
func Enter(Group) {}

// Pause does nothing.
func Pause(Group) {}

// Resume does nothing.
func Resume(Group) {}
