package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// lockkeeper is our own locks.
type lockkeeper struct {
	session *client.Session
	held    []*lock.Hold
}

func newLockkeeper(servers string, timeout time.Duration) (locker, error) {
	s, err := client.Open(context.Background(), servers, client.Options{SessionTimeout: timeout})
	if err != nil {
		return nil, err
	}
	return &lockkeeper{session: s}, nil
}

// acquire is what our locks have in common.
type acquire func(context.Context) (*lock.Hold, error)

// acquirers returns what acquires the locks that path names, one after another.
func (l *lockkeeper) acquirers(path string, as As) ([]acquire, error) {
	if n, ok := as.permits(); ok {
		m, err := lock.NewCuratorSemaphore(l.session, path, n, lock.Options{})
		return []acquire{m.Acquire}, err
	}
	switch as {
	case Read, Write:
		m, err := lock.NewRWMutex(l.session, path, lock.Options{})
		if as == Read {
			return []acquire{m.RLock}, err
		}
		return []acquire{m.Lock}, err
	case Mutex, All:
		var all []acquire
		for _, p := range strings.Split(path, ",") {
			m, err := lock.NewMutex(l.session, p, lock.Options{})
			if err != nil {
				return nil, err
			}
			all = append(all, m.Lock)
		}
		return all, nil
	}
	return nil, fmt.Errorf("no such lock: %s", as)
}

func (l *lockkeeper) lock(path string, as As, limit time.Duration) ([]int64, error) {
	all, err := l.acquirers(path, as)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if limit >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var tokens []int64
	for _, acquire := range all {
		h, err := acquire(ctx)
		if err != nil {
			released := l.unlock()
			if limit >= 0 && errors.Is(err, context.DeadlineExceeded) {
				return nil, released
			}
			return nil, errors.Join(err, released)
		}
		l.held = append(l.held, h)
		tokens = append(tokens, h.Token())
	}
	return tokens, nil
}

func (l *lockkeeper) unlock() error {
	var errs []error
	for _, h := range l.held {
		errs = append(errs, h.Release(context.Background()))
	}
	l.held = nil
	return errors.Join(errs...)
}

func (l *lockkeeper) close() { l.session.Close(context.Background()) }
