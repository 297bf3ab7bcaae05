package crash

import (
	"fmt"
	"maps"
	"slices"
)

// A node is what a client knows of a znode.
type node struct {
	data    string
	version int32
	owner   int64 // the session of an ephemeral, otherwise 0
}

// A change is what a request makes of znodes, by path: nil where it deletes one.
type change map[string]*node

// A memory is what one writer, which makes one request after the other and shares its znodes with no other,
// knows about them.
type memory struct {
	nodes      map[string]node // acknowledged
	unanswered change          // of the one request, if any, whose outcome is unknown
}

// learn takes note of a request that was acknowledged.
func (m *memory) learn(c change) { m.nodes = apply(m.nodes, c) }

// judge compares the memory with the znodes that were found, and has them for its memory from then on.
// It returns what is wrong, and whether the request without an answer has happened. Znodes of owners
// for which mayBeGone holds may be missing.
func (m *memory) judge(found map[string]node, mayBeGone func(owner int64) bool) (faults []string, happened bool) {
	faults = differences(m.nodes, found, mayBeGone)
	if m.unanswered != nil && len(faults) > 0 {
		after := differences(apply(m.nodes, m.unanswered), found, mayBeGone)
		happened = len(after) == 0
		for i := range faults {
			faults[i] += ", and a request without an answer does not explain it"
		}
		if happened {
			faults = nil
		}
	}
	m.nodes, m.unanswered = found, nil
	return faults, happened
}

func apply(nodes map[string]node, c change) map[string]node {
	after := maps.Clone(nodes)
	for path, n := range c {
		if n == nil {
			delete(after, path)
		} else {
			after[path] = *n
		}
	}
	return after
}

// differences returns a line for each path where want and found differ, in the order of the paths.
func differences(want, found map[string]node, mayBeGone func(owner int64) bool) (lines []string) {
	for _, path := range slices.Sorted(maps.Keys(want)) {
		w := want[path]
		f, ok := found[path]
		switch {
		case !ok && w.owner != 0 && mayBeGone(w.owner):
		case !ok:
			lines = append(lines, fmt.Sprintf("%s is missing, was %+v", path, w))
		case f != w:
			lines = append(lines, fmt.Sprintf("%s is %+v, was %+v", path, f, w))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if _, ok := want[path]; !ok {
			lines = append(lines, fmt.Sprintf("%s is %+v, was not there", path, found[path]))
		}
	}
	return lines
}
