package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashClone returns the file system as a power failure at this moment would leave it: with what
// was synced. If rnd is not nil, some of the rest has reached the disk too: for each file its size
// or not, sector by sector its content or not, and of the changes of names in each directory some,
// in their order. The clone has no locks, faults or limits; m goes on undisturbed.
func (m *Mem) CrashClone(rnd *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewMem()
	for _, path := range slices.Sorted(maps.Keys(m.mu.dirs)) {
		d := m.mu.dirs[path]
		names := maps.Clone(d.durable)
		if rnd != nil {
			for _, changes := range d.pending[:rnd.IntN(len(d.pending)+1)] {
				applyNames(names, changes)
			}
		}
		left := newMemDir()
		for _, name := range slices.Sorted(maps.Keys(names)) {
			left.names[name] = names[name].afterCrash(rnd)
		}
		left.durable = maps.Clone(left.names)
		clone.mu.dirs[path] = left
	}
	return clone
}

// afterCrash returns what a power failure leaves of a file.
func (n *memNode) afterCrash(rnd *rand.Rand) *memNode {
	left := &memNode{now: slices.Clone(n.durable), dirty: map[int]bool{}}
	if rnd != nil {
		if rnd.IntN(2) == 0 {
			left.now = fit(left.now, len(n.now))
		}
		share := rnd.Float64() // of the sectors that made it
		for _, sector := range slices.Sorted(maps.Keys(n.dirty)) {
			if rnd.Float64() < share {
				copySector(left.now, n.now, sector)
			}
		}
	}
	left.durable = slices.Clone(left.now)
	return left
}

// KillClone returns the file system as the end of the process at this moment would leave it: all
// that was written is there, and what was not synced can still be lost. The clone has no locks,
// faults or limits; m goes on undisturbed.
func (m *Mem) KillClone() *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	clone := NewMem()
	nodes := map[*memNode]*memNode{} // a file keeps its identity under all its names, old and new
	copyNames := func(names map[string]*memNode) map[string]*memNode {
		out := make(map[string]*memNode, len(names))
		for name, n := range names {
			out[name] = n.copyOnce(nodes)
		}
		return out
	}
	for path, d := range m.mu.dirs {
		left := &memDir{names: copyNames(d.names), durable: copyNames(d.durable)}
		for _, changes := range d.pending {
			changes = slices.Clone(changes)
			for i := range changes {
				changes[i].node = changes[i].node.copyOnce(nodes)
			}
			left.pending = append(left.pending, changes)
		}
		clone.mu.dirs[path] = left
	}
	return clone
}

// copyOnce returns the copy of n in seen, made if need be.
func (n *memNode) copyOnce(seen map[*memNode]*memNode) *memNode {
	if n == nil {
		return nil
	}
	if seen[n] == nil {
		seen[n] = &memNode{now: slices.Clone(n.now), durable: slices.Clone(n.durable), dirty: maps.Clone(n.dirty)}
	}
	return seen[n]
}
