package peer

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// lockkeeper is our own mutex.
type lockkeeper struct {
	session *client.Session
	held    *lock.Hold
}

func newLockkeeper(servers string, timeout time.Duration) (locker, error) {
	s, err := client.Open(context.Background(), servers, client.Options{SessionTimeout: timeout})
	if err != nil {
		return nil, err
	}
	return &lockkeeper{session: s}, nil
}

func (l *lockkeeper) lock(path string, limit time.Duration) (int64, error) {
	m, err := lock.NewMutex(l.session, path, lock.Options{})
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	if limit >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	h, err := m.Lock(ctx)
	if limit >= 0 && errors.Is(err, context.DeadlineExceeded) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	l.held = h
	return h.Token(), nil
}

func (l *lockkeeper) unlock() error { return l.held.Release(context.Background()) }

func (l *lockkeeper) close() { l.session.Close(context.Background()) }
