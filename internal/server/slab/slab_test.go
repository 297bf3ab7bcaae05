package slab

import "testing"

// A slab grows without moving what it holds, and uses numbers again with a zero value.
func TestGrowthMovesNothing(t *testing.T) {
	var s Slab[[2]int]
	first := s.Take()
	at := s.At(first)
	at[0] = 7
	for range 10 * block {
		s.Take()
	}
	if s.At(first) != at || *at != [2]int{7, 0} {
		t.Error("the first value has moved")
	}
	s.Give(first)
	if got, want := s.Len(), 10*block; got != want {
		t.Errorf("%d numbers are in use, want %d", got, want)
	}
	if again := s.Take(); again != first || *at != [2]int{} || s.Last() != 10*block+1 {
		t.Errorf("number %d with %v, the last is %d; want %d again, zero, and %d", again, *at, s.Last(), first, 10*block+1)
	}
}
