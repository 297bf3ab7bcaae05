package queue

import (
	"crypto/rand"
)

// newID returns a random id.
func newID() (id ID) {
	var b [IDBytes]byte
	rand.Read(b[:])
	return NewID(b)
}
