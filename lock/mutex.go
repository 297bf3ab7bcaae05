package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A Mutex is a lock that one holder has at a time, in the order of arrival. It is only a handle: a Hold represents
// holding the lock. Many goroutines may use one Mutex, and they exclude each other as different processes do.
type Mutex struct{ core *core }

// NewMutex returns the lock of the directory at path, which must not be "/". It asks the server nothing. The
// directory, and what is above it, is made when the lock is first asked for. Once no contender holds the lock or waits
// for it, the server deletes the directory by itself, if it knows container znodes.
func NewMutex(s *client.Session, path string, opt Options) (*Mutex, error) {
	opt, err := opt.forLock(s, path)
	if err != nil {
		return nil, err
	}
	return &Mutex{newCore(s, path, opt, &queue.MutexRules)}, nil
}

// Path returns the path of the lock's directory.
func (m *Mutex) Path() string { return m.core.base().path() }

// Session returns the session that the lock belongs to.
func (m *Mutex) Session() *client.Session { return m.core.base().session() }

// Lock waits for the lock and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one
// of hold and error is not nil.
//
// If ctx derives from the Context of a hold of this lock, by the same session, Lock fails with ErrReentered, or
// re-enters if Options.Reentrant is set. Only the context tells.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) { return takeOne(ctx, m.core, false) }

// TryLock returns a hold if no other contender holds the lock or waits for it, and otherwise a *BusyError that
// names the holder. It never waits for others; ctx bounds the time that the servers may take to answer.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return takeOne(ctx, m.core, true) }

// Do runs f while holding the lock. f's context ends when ctx does and when the hold is lost, with the
// cause. The lock is released when f returns and when it panics. The error is f's, joined with the loss
// of the lock or the failure to release it, if there was one.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return do(ctx, m.core, f)
}
