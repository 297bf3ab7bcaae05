//go:build race

package locksuite

// repsDivisor divides long repetitions: under the race detector they would take a minute.
const repsDivisor = 5
