// Package world runs one schedule of the simulation: a server, or an ensemble of one leader and two
// followers, its disk and network, and the processes that lock, all in one bubble of virtual time.
//
// A Plan is made from a seed before anything runs: a list of steps, each with its moment. A step is either
// work, such as taking a lock and giving it back, or a fault, such as a cut or a crash. Steps know nothing
// of each other, so any of them can be left out, and a plan that shows a violation can be shrunk.
//
// What must hold is checked while the plan runs (exclusion, bounded calls) and when all faults are healed
// (nothing left behind, progress, nothing lost); see Report.
package world
