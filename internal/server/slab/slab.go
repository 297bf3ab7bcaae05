// Package slab keeps many small values of one kind.
package slab

// A Slab keeps values in blocks that never move and refers to them by number, which is half of a pointer and nothing for the
// garbage collector to follow. 0 is no value. A place given back is used again; blocks are never given back, so a slab
// stays as large as it has ever been. It grows by one block and copies no value: slabs grow while the server's state is locked,
// and to copy a million values would keep all clients waiting.
type Slab[T any] struct {
	blocks []*[block]T
	used   uint32 // places ever taken
	free   []uint32
}

const (
	bits  = 9
	block = 1 << bits
)

// At returns the place of a number that was taken.
func (s *Slab[T]) At(i uint32) *T { return &s.blocks[i>>bits][i&(block-1)] }

// Take returns the number of a zero value.
func (s *Slab[T]) Take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++ // so that the first is 1
	if int(s.used>>bits) == len(s.blocks) {
		s.blocks = append(s.blocks, new([block]T))
	}
	return s.used
}

// Give gives a number back.
func (s *Slab[T]) Give(i uint32) {
	var zero T
	*s.At(i) = zero
	s.free = append(s.free, i)
}

// Last returns the highest number that was ever taken; not all up to it need be in use.
func (s *Slab[T]) Last() uint32 { return s.used }

// Len returns how many numbers are in use.
func (s *Slab[T]) Len() int { return int(s.used) - len(s.free) }
