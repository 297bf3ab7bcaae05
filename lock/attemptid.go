package lock

import (
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// processPrefix begins every attempt id of this process.
var processPrefix = sync.OnceValue(func() (prefix [queue.IDBytes / 2]byte) {
	rand.Read(prefix[:]) // never fails, by its documentation
	return prefix
})

// newAttemptID returns an id whose second half is random.
func newAttemptID() queue.ID {
	var b [queue.IDBytes]byte
	prefix := processPrefix()
	rand.Read(b[copy(b[:], prefix[:]):])
	return queue.NewID(b)
}

// ofThisProcess reports whether newAttemptID of this process has made the id.
func ofThisProcess(id queue.ID) bool {
	var b [queue.IDBytes]byte
	prefix := processPrefix()
	copy(b[:], prefix[:])
	return len(id) == 2*queue.IDBytes && strings.HasPrefix(string(id), string(queue.NewID(b))[:2*len(prefix)])
}

// attemptIDs are the ids of this process that something still stands for: an attempt, a hold, or leftovers to be removed.
var attemptIDs = usedIDs{of: map[queue.ID]int{}}

type usedIDs struct {
	mu sync.Mutex
	of map[queue.ID]int // how many uses each has
}

func (u *usedIDs) add(id queue.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.of[id]++
}

// idGrace is how long a use counts after its end: a listing that was on its way may still show the id's claims.
const idGrace = time.Second

// drop notes the end of a use.
func (u *usedIDs) drop(id queue.ID) {
	time.AfterFunc(idGrace, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.of[id]--
		if u.of[id] == 0 {
			delete(u.of, id)
		}
	})
}

// has reports whether the id is in use, or was a moment ago.
func (u *usedIDs) has(id queue.ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.of[id] > 0
}
