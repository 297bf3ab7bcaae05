package tree

// A slab keeps values in blocks that never move and refers to them by number, which is half of a
// pointer and nothing for the garbage collector to follow. 0 is no value. A place given back is
// used again; blocks are never given back, so a slab stays as large as it has ever been.
type slab[T any] struct {
	blocks []*[slabBlock]T
	used   uint32 // places ever taken
	free   []uint32
}

const (
	slabBits  = 9
	slabBlock = 1 << slabBits
)

func (s *slab[T]) at(i uint32) *T { return &s.blocks[i>>slabBits][i&(slabBlock-1)] }

// take returns the number of a zero value.
func (s *slab[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	s.used++ // so that the first is 1
	if int(s.used>>slabBits) == len(s.blocks) {
		s.blocks = append(s.blocks, new([slabBlock]T))
	}
	return s.used
}

func (s *slab[T]) give(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
