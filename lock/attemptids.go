package lock

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// attemptIDs are the ids of this process that something still stands for: an attempt, a hold, or leftovers to be removed.
var attemptIDs = idRegistry{uses: map[queue.ID]int{}}

type idRegistry struct {
	mu    sync.Mutex
	uses  map[queue.ID]int
	ended [idsEndedKept]endedID // the ids whose last use has ended, the next one at place next
	next  int
}

type endedID struct {
	id queue.ID
	at time.Time
}

// An id counts as used for idGrace after its last use, because a listing that was on its way may still show its claim. If more than
// idsEndedKept end in that time, a claim that is gone may be taken for a stray, which costs a request.
const (
	idGrace      = time.Second
	idsEndedKept = 256
)

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
	if r.uses[id] > 0 {
		return
	}
	delete(r.uses, id)
	r.ended[r.next] = endedID{id, time.Now()}
	r.next = (r.next + 1) % idsEndedKept
}

// has reports whether the id is in use, or was a moment ago.
func (r *idRegistry) has(id queue.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.uses[id] > 0 {
		return true
	}
	for _, e := range r.ended {
		if e.id == id && time.Since(e.at) < idGrace {
			return true
		}
	}
	return false
}

// newAttemptID returns an id whose second half is random, too.
func newAttemptID() queue.ID {
	return queue.ID(processDigits() + randomDigits(queue.IDDigits/2))
}

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
