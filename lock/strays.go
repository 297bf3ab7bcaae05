package lock

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An ensemble may lose a transaction that it has acknowledged: three servers of ZooKeeper 3.8.0 did so when leaders were killed
// (the family of ZOOKEEPER-4643, 4646, 4685, 4712 and 4785). If that transaction deleted a claim, the claim is there again. It
// blocks its queue for as long as the session that made it lives, and no attempt, hold or cleaner knows of it: it is a stray. A
// session removes strays of its own when an attempt of its waits behind them. It takes no others: the id says that this process
// made the claim, and the server that this session owns it.

// isStray reports whether the id was made by this process, which no longer knows it.
func isStray(id queue.ID) bool { return ofThisProcess(id) && !attemptIDs.has(id) }

// removeStrays has the cleaner remove the strays among claims.
func (f *fairLock) removeStrays(claims []queue.Claim) {
	for _, claim := range claims {
		if id, ok := queue.IDOf(claim.Name); ok && isStray(id) {
			id = queue.ID(strings.Clone(string(id))) // it would keep the whole listing
			f.cleaner.add(leftovers{id: id, nodes: []string{zk.Join(f.dir, claim.Name)}, stray: true})
		}
	}
}

// checkStray forgets the node of leftovers that are a stray unless the session owns it.
func (f *fairLock) checkStray(ctx context.Context, d *leftovers) error {
	if !d.stray {
		return nil
	}
	stat, ok, err := f.s.Exists(ctx, d.nodes[0])
	if err != nil {
		return err
	}
	d.stray = false
	if !ok || stat.EphemeralOwner != f.s.ID() {
		d.nodes = nil
		return nil
	}
	f.opt.Logger.Warn("removing a claim of ours that had been removed before: the ensemble has lost a transaction", "lock", f.dir, "node", d.nodes[0])
	return nil
}

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
