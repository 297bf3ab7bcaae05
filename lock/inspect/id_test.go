package inspect

import (
	"fmt"
	"math/rand/v2"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// newID returns a random id.
func newID() queue.ID { return queue.ID(fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())) }
