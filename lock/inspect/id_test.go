package inspect

import (
	"crypto/rand"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// newID returns a random id.
func newID() (id queue.ID) {
	var b [queue.IDBytes]byte
	rand.Read(b[:])
	return queue.NewID(b)
}
