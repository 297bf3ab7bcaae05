package peer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
)

// lockkeeper is our own locks.
type lockkeeper struct {
	session *client.Session
	held    []func(context.Context) error // how to release it
}

func newLockkeeper(servers string, timeout time.Duration) (locker, error) {
	s, err := client.Open(context.Background(), servers, client.Options{SessionTimeout: timeout})
	if err != nil {
		return nil, err
	}
	return &lockkeeper{session: s}, nil
}

// acquire is what our locks have in common.
type acquire func(context.Context) (token int64, release func(context.Context) error, err error)

// holdOf makes an acquire of a lock's.
func holdOf(lock func(context.Context) (*lock.Hold, error)) acquire {
	return func(ctx context.Context) (int64, func(context.Context) error, error) {
		h, err := lock(ctx)
		if err != nil {
			return 0, nil, err
		}
		return h.Token(), h.Release, nil
	}
}

// termOf makes one of an election's.
func termOf(e *election.Election) acquire {
	return func(ctx context.Context) (int64, func(context.Context) error, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return 0, nil, err
		}
		return t.Token(), t.Resign, nil
	}
}

// acquirers returns what acquires the locks that path names, one after another.
func (l *lockkeeper) acquirers(path string, as As) ([]acquire, error) {
	if n, ok := as.permits(); ok {
		m, err := lock.NewCuratorSemaphore(l.session, path, n, lock.Options{})
		return []acquire{holdOf(m.Acquire)}, err
	}
	switch as {
	case Leader:
		e, err := election.New(l.session, path, election.Options{ID: "lockkeeper", IDOnly: true})
		return []acquire{termOf(e)}, err
	case Read, Write:
		m, err := lock.NewRWMutex(l.session, path, lock.Options{})
		if as == Read {
			return []acquire{holdOf(m.RLock)}, err
		}
		return []acquire{holdOf(m.Lock)}, err
	case Mutex, All:
		var all []acquire
		for _, p := range strings.Split(path, ",") {
			m, err := lock.NewMutex(l.session, p, lock.Options{})
			if err != nil {
				return nil, err
			}
			all = append(all, holdOf(m.Lock))
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
		token, release, err := acquire(ctx)
		if err != nil {
			released := l.unlock()
			if limit >= 0 && errors.Is(err, context.DeadlineExceeded) {
				return nil, released
			}
			return nil, errors.Join(err, released)
		}
		l.held = append(l.held, release)
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// who looks at an election.
func (l *lockkeeper) who(path string) (string, error) {
	e, err := election.New(l.session, path, election.Options{})
	if err != nil {
		return "", err
	}
	leader, err := e.Leader(context.Background())
	if err != nil {
		return "", err
	}
	line, err := e.Candidates(context.Background())
	answer := "leads " + leader.ID + " of"
	for _, c := range line {
		answer += " " + c.ID
	}
	return answer, err
}

func (l *lockkeeper) unlock() error {
	var errs []error
	for _, release := range l.held {
		errs = append(errs, release(context.Background()))
	}
	l.held = nil
	return errors.Join(errs...)
}

func (l *lockkeeper) close() { l.session.Close(context.Background()) }
