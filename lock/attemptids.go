package lock

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// attemptIDs are the ids of this process that something still stands for: an attempt, a hold, or leftovers to be removed.
var attemptIDs = idRegistry{uses: map[queue.ID]int{}}

type idRegistry struct {
	mu   sync.Mutex
	uses map[queue.ID]int
}

func (r *idRegistry) add(id queue.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses[id]++
}

// drop notes the end of a use.
func (r *idRegistry) drop(id queue.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uses[id]--
	if r.uses[id] == 0 {
		delete(r.uses, id)
	}
}

// has reports whether the id is in use.
func (r *idRegistry) has(id queue.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.uses[id] > 0
}

// newAttemptID returns an id whose second half is random, too.
func newAttemptID() queue.ID { return queue.ID(processDigits() + randomDigits(queue.IDDigits/2)) }

// ofThisProcess reports whether newAttemptID of this process has made the id.
func ofThisProcess(id queue.ID) bool { return strings.HasPrefix(string(id), processDigits()) }

// processDigits begin every attempt id of this process.
var processDigits = sync.OnceValue(func() string { return randomDigits(queue.IDDigits / 2) })

// randomDigits returns n random hexadecimal digits, an even number.
func randomDigits(n int) string {
	b := make([]byte, n/2)
	rand.Read(b) // never fails, by its documentation
	return hex.EncodeToString(b)
}
