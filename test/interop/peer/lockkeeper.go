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
	release func(context.Context) error // of what is held
}

func newLockkeeper(servers string, timeout time.Duration) (locker, error) {
	s, err := client.Open(context.Background(), servers, client.Options{SessionTimeout: timeout})
	if err != nil {
		return nil, err
	}
	return &lockkeeper{session: s}, nil
}

// A taking is what has been got, and how to give it back.
type taking struct {
	tokens  []int64
	release func(context.Context) error
}

// acquire is what our locks have in common.
type acquire func(context.Context) (taking, error)

// holdOf makes an acquire of a lock's.
func holdOf(lock func(context.Context) (*lock.Hold, error)) acquire {
	return func(ctx context.Context) (taking, error) {
		h, err := lock(ctx)
		if err != nil {
			return taking{}, err
		}
		return taking{[]int64{h.Token()}, h.Release}, nil
	}
}

// termOf makes one of an election's.
func termOf(e *election.Election) acquire {
	return func(ctx context.Context) (taking, error) {
		t, err := e.Campaign(ctx)
		if err != nil {
			return taking{}, err
		}
		return taking{[]int64{t.Token()}, t.Resign}, nil
	}
}

// holdsOf makes one of several locks'; the tokens are those of the paths, in that order.
func holdsOf(all *lock.All, paths []string) acquire {
	return func(ctx context.Context) (taking, error) {
		h, err := all.Lock(ctx)
		if err != nil {
			return taking{}, err
		}
		got := taking{release: h.Release}
		for _, p := range paths {
			got.tokens = append(got.tokens, h.Tokens()[p])
		}
		return got, nil
	}
}

// acquirer returns what acquires the lock at path, or all that it names.
func (l *lockkeeper) acquirer(path string, as As) (acquire, error) {
	if n, ok := as.permits(); ok {
		m, err := lock.NewCuratorSemaphore(l.session, path, n, lock.Options{})
		return holdOf(m.Acquire), err
	}
	switch as {
	case Leader:
		e, err := election.New(l.session, path, election.Options{ID: "lockkeeper", IDOnly: true})
		return termOf(e), err
	case Read, Write:
		m, err := lock.NewRWMutex(l.session, path, lock.Options{})
		if as == Read {
			return holdOf(m.RLock), err
		}
		return holdOf(m.Lock), err
	case Mutex:
		m, err := lock.NewMutex(l.session, path, lock.Options{})
		return holdOf(m.Lock), err
	case All:
		paths := strings.Split(path, ",")
		var members []lock.Member
		for _, p := range paths {
			m, err := lock.NewMutex(l.session, p, lock.Options{})
			if err != nil {
				return nil, err
			}
			members = append(members, m)
		}
		all, err := lock.NewAll(members...)
		return holdsOf(all, paths), err
	}
	return nil, fmt.Errorf("no such lock: %s", as)
}

func (l *lockkeeper) lock(path string, as As, limit time.Duration) ([]int64, error) {
	acquire, err := l.acquirer(path, as)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if limit >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	got, err := acquire(ctx)
	if limit >= 0 && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	l.release = got.release
	return got.tokens, err
}

func (l *lockkeeper) unlock() error { return l.release(context.Background()) }

func (l *lockkeeper) close() { l.session.Close(context.Background()) }

// who answers the command that looks at an election.
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
