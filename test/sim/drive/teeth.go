package drive

import (
	"fmt"
	"os"

	"github.com/lockkeeper/lockkeeper/test/sim/patch"
)

// A Bite is what the simulation said to a mutation.
type Bite struct {
	patch.Mutation
	Seed      uint64 // the first that showed a violation; 0 if none did
	Violation string
}

// Found reports whether the mutation was found in time.
func (b *Bite) Found() bool { return b.Seed != 0 && b.Seed <= uint64(b.Within) }

// Bites builds a worker of a mutated tree and runs seeds until one shows a violation.
func Bites(m patch.Mutation, procs int) (*Bite, error) {
	dir, err := os.MkdirTemp("", "lockkeeper-teeth-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	w, err := Build(dir, m.Patches)
	if err != nil {
		return nil, fmt.Errorf("mutation %q: %w", m.Name, err)
	}
	sum, err := w.Seeds(1, m.Within, procs, true)
	if err != nil {
		return nil, err
	}
	b := &Bite{Mutation: m}
	if len(sum.Failed) > 0 {
		b.Seed, b.Violation = sum.Failed[0].Seed, sum.Failed[0].Violations[0]
	}
	return b, nil
}
