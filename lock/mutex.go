package lock

import (
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A Mutex is a lock that one holder has at a time, in the order of arrival. It is only a handle: a Hold represents
// holding the lock. Many goroutines may use one Mutex, and they exclude each other as different processes do.
type Mutex struct{ locker }

// NewMutex returns the lock of the directory at path, which must not be "/". It asks the server nothing. The
// directory, and what is above it, is made when the lock is first asked for. Once no contender holds the lock or waits
// for it, the server deletes the directory by itself, if it knows container znodes.
func NewMutex(s *client.Session, path string, opt Options) (*Mutex, error) {
	opt, err := opt.forLock(s, path)
	if err != nil {
		return nil, err
	}
	return &Mutex{locker{&newFairLock(s, path, opt, &queue.MutexRules).lockBase}}, nil
}
