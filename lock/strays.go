package lock

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An ensemble may lose a transaction that it has acknowledged: three servers of ZooKeeper 3.8.0 did so when leaders were killed
// (the family of ZOOKEEPER-4643, 4646, 4685, 4712 and 4785). If that transaction deleted a claim, the claim is there again. It
// blocks its queue for as long as the session that made it lives, and no attempt, hold or cleaner knows of it: it is a stray.
// A session removes strays of its own when it lists their queue. It takes no others: the id says that this process made
// the claim, and the server that this session owns it.

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

// add notes a use of the id.
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

// isStray reports whether the id was made by this process, which no longer knows it.
func isStray(id queue.ID) bool { return ofThisProcess(id) && !attemptIDs.has(id) }

// removeStrays has the cleaner remove the strays in a queue.
func (c *core) removeStrays(q *queue.Queue) {
	for _, claim := range q.Claims {
		if id, ok := queue.IDOf(claim.Name); ok && isStray(id) {
			c.cleaner.add(leftovers{id: id, nodes: []string{zk.Join(c.dir, claim.Name)}, stray: true})
		}
	}
}

// checkStray forgets the node of leftovers that are a stray unless the session owns it.
func (c *core) checkStray(ctx context.Context, d *leftovers) error {
	if !d.stray {
		return nil
	}
	stat, ok, err := c.s.Exists(ctx, d.nodes[0])
	if err != nil {
		return err
	}
	d.stray = false
	if !ok || stat.EphemeralOwner != c.s.ID() {
		d.nodes = nil
		return nil
	}
	c.opt.Logger.Warn("removing a claim of ours that had been removed before: the ensemble has lost a transaction", "lock", c.dir, "node", d.nodes[0])
	return nil
}
