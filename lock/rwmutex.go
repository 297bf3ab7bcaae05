package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// An RWMutex is a lock that either any number of readers hold, or one writer. No contender overtakes: a reader waits for the
// nearest writer ahead of it, a writer for the nearest claim of any kind, so a stream of readers does not starve a writer. Its node
// names are those of Curator's InterProcessReadWriteLock. A Mutex of the same path is a writer to it.
//
// Lock, TryLock and Do take the write side, as does an All that the RWMutex itself is a member of. A hold of the write side may
// be downgraded (Hold.Downgrade). With a context derived from that of a hold of the write side, Lock fails with ErrReentered, or
// re-enters if Options.Reentrant is set. With one from a hold of the read side, or of one whose downgrade has begun and not failed,
// it fails with ErrUpgrade.
type RWMutex struct {
	locker // the write side
	read   locker
}

// NewRWMutex returns the read/write lock of the directory at path; see NewMutex.
func NewRWMutex(s *client.Session, path string, opt Options) (*RWMutex, error) {
	opt, err := opt.forLock(s, path)
	if err != nil {
		return nil, err
	}
	read, write := newFairLock(s, path, opt, &queue.ReadRules), newFairLock(s, path, opt, &queue.WriteRules)
	write.cleaner, write.orphans = read.cleaner, read.orphans // what one side has left or seen concerns the other too
	return &RWMutex{locker{&write.lockBase}, locker{&read.lockBase}}, nil
}

// RLock waits until no writer holds the lock or is ahead, and returns a hold of its read side. With a
// context derived from that of a hold of either side it fails with ErrReentered, or re-enters if Options.Reentrant is set.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) { return m.read.Lock(ctx) }

// TryRLock is RLock if that takes no waiting, and otherwise returns a *BusyError.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) { return m.read.TryLock(ctx) }

// RDo runs f while holding the read side; see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return m.read.Do(ctx, f)
}

// Reader returns the read side as a Locker; the RWMutex itself is one of the write side.
func (m *RWMutex) Reader() Locker { return m.read }
