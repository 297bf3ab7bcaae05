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
var attemptIDs = usedIDs{of: map[queue.ID]usedID{}}

type usedIDs struct {
	mu   sync.Mutex
	of   map[queue.ID]usedID
	done []queue.ID // ids that had no use left, the oldest first
}

type usedID struct {
	uses int
	done time.Time // when there was no use left
}

// idGrace is how long an id counts as used after its last use: a listing that was on its way may still show its claims.
const idGrace = time.Second

func (u *usedIDs) add(id queue.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	k := u.of[id]
	k.uses++
	u.of[id] = k
}

// drop notes the end of a use, and forgets ids that have had none for a while.
func (u *usedIDs) drop(id queue.ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	k := u.of[id]
	k.uses--
	if k.uses == 0 {
		k.done = now
		u.done = append(u.done, id)
	}
	u.of[id] = k
	for len(u.done) > 0 && !u.usedLocked(u.done[0], now) {
		delete(u.of, u.done[0])
		u.done = u.done[1:]
	}
}

func (u *usedIDs) usedLocked(id queue.ID, now time.Time) bool {
	k, ok := u.of[id]
	return ok && (k.uses > 0 || now.Sub(k.done) < idGrace)
}

// has reports whether the id is in use, or was a moment ago.
func (u *usedIDs) has(id queue.ID) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.usedLocked(id, time.Now())
}
