// Package rt is what the simulation asks of Go's runtime: that chance comes from the seed, and that a
// process can stand still while time goes on.
//
// A worker that is built with the runtime patches of package patch (build tag simruntime) can do both. With
// an unpatched runtime, goroutines that are ready in the same instant run in an order that differs from run
// to run, and a pause only stops the network of a process.
package rt

// A Group is the goroutines of one process: those that were started by a goroutine of the group. 0 is the
// world outside.
type Group uint32
