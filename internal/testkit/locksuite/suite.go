package locksuite

import (
	"slices"
	"testing"
)

// A test is one scenario of the suite. When it returns, all its holds are released and all its waits over.
type test struct {
	name string
	run  func(w *World, t *testing.T)
}

// groups are the tests that any ensemble must pass.
var groups = [][]test{acquireTests, errorTests, waitTests, holdTests, releaseTests, cleanupTests, loadTests, ownershipTests, rwTests, semaphoreTests, electionTests, unfairTests, siblingTests, revokeTests, lookTests, allTests, deadlockTests, delayTests}

// ours are tests that need more of a server than to answer clients: to be asked how many watches it has,
// to be started with a state that takes too many requests to reach, to be stopped and started.
var ours = [][]test{serverTests, electionServerTests}

// Run runs the suite against a backend.
func Run(t *testing.T, b Backend) {
	all := slices.Concat(groups...)
	if b.Ours {
		all = append(all, slices.Concat(ours...)...)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			if b.SideBySide {
				t.Parallel()
			}
			b.Bubble(t, func(t *testing.T) {
				w := newWorld(t, b)
				s.run(w, t)
				w.Clean()
			})
		})
	}
}
