// Package guides keeps the code that the migration guides in docs show as ours: it compiles, its tests
// run it, and what the guides quote is what stands here. It exports nothing.
package guides
