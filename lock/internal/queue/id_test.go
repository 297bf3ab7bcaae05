package queue

import (
	"fmt"
	"math/rand/v2"
)

// newID returns a random id.
func newID() ID { return ID(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())) }
