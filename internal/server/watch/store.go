package watch

// A store keeps values by number; 0 is none. A number given back is used again. Pointers from at
// are good until the next take.
type store[T any] struct {
	values []T
	free   []uint32
}

func (s *store[T]) at(i uint32) *T { return &s.values[i-1] }

func (s *store[T]) take() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	var zero T
	s.values = append(s.values, zero)
	return uint32(len(s.values))
}

func (s *store[T]) give(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
}
