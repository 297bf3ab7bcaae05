package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A Latch is the lock under an election: a mutex whose claims have the names of Curator's LeaderLatch, so
// that candidates of both exclude each other on one path. Package election makes leadership of it.
// Nothing re-enters: whoever leads and asks again is one more candidate.
type Latch struct{ core *core }

// NewLatch returns the latch of the directory at path; see NewMutex.
func NewLatch(s *client.Session, path string, opt Options) (*Latch, error) {
	opt, err := opt.forLock(s, path)
	if err != nil {
		return nil, err
	}
	return &Latch{newCore(s, path, opt, &queue.ElectionRules)}, nil
}

// Path returns the path of the latch's directory.
func (l *Latch) Path() string { return l.core.base().path() }

// Session returns the session that the lock belongs to.
func (l *Latch) Session() *client.Session { return l.core.base().session() }

// Lock waits for the latch and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one of
// hold and error is not nil.
func (l *Latch) Lock(ctx context.Context) (*Hold, error) { return l.core.lock(ctx) }

// TryLock returns a hold if nobody else holds or waits for the latch, and otherwise a *BusyError that names the
// holder; see Mutex.TryLock.
func (l *Latch) TryLock(ctx context.Context) (*Hold, error) { return l.core.try(ctx) }

// Candidates returns those of names, the children of a directory, that are places in a latch's line, in order: the
// first one has the latch.
func Candidates(names []string) []string {
	return queue.Parse(names, queue.Candidacy).Names()
}
