package lock

import (
	"context"

	"github.com/lockkeeper/lockkeeper/client"
)

// A Mutex is a lock that one holder has at a time, in the order of arrival. It is a way to ask for the
// lock, not the ownership of it: that is a Hold, so one Mutex may be used by many goroutines, which
// exclude each other like strangers.
type Mutex struct{ e *entrance }

// NewMutex returns the lock of the directory at path, which must not be "/". The directory and what is
// above it is made when it is needed; a directory in which nobody waits goes by itself, if the server
// knows container znodes.
func NewMutex(s *client.Session, path string, opt Options) (*Mutex, error) {
	opt, err := opt.withDefaults(path)
	if err != nil {
		return nil, err
	}
	return &Mutex{newEntrance(s, path, opt, &mutexRecipe)}, nil
}

// Path returns the path of the lock's directory.
func (m *Mutex) Path() string { return m.e.dir }

// Lock waits for the lock and returns a hold of it. ctx bounds the waiting, not the hold. Exactly one
// of hold and error is not nil.
//
// If ctx derives from the Context of a hold of this lock, by the same session, Lock returns at once
// with a second hold of the same node; the lock is free when both are released. That is the only
// re-entering: nothing else tells who somebody is.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) { return m.e.lock(ctx) }

// TryLock returns a hold if nobody else holds or waits for the lock, and otherwise a *BusyError that
// names the holder. The line decides, not the clock; ctx bounds the time for asking.
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return m.e.try(ctx) }

// Do runs f while holding the lock. f's context ends when ctx does and when the hold is lost, with the
// cause. The lock is released when f returns and when it panics. The error is f's, joined with the loss
// of the lock or the failure to release it, if there was one.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return m.e.do(ctx, f)
}
