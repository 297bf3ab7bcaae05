//go:build !race

package locksuite

// repsDivisor divides long repetitions.
const repsDivisor = 1
