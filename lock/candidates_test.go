package lock

import (
	"slices"
	"testing"
)

// Candidates are the children with the name of a latch's claim, Curator's included, by number; no other child is in their way.
func TestCandidates(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	names := []string{
		"_c_" + id + "-latch-0000000007",
		"_c_" + id + "-lock-0000000001",
		"_c_01234567-89ab-cdef-0123-456789abcdef-latch-0000000003",
		"_c_" + id + "-released",
		"latch-0000000002", // without a prefix it is no candidate
		"note",
	}
	if got, want := candidates(names), []string{names[2], names[0]}; !slices.Equal(got, want) {
		t.Errorf("Candidates = %q, want %q", got, want)
	}
	if got := candidates(names[3:]); len(got) > 0 {
		t.Errorf("Candidates of none = %q", got)
	}
}
