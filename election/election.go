package election

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock"
)

// An Election is a way to stand for election under one session, and to see which candidate leads. It is used by any
// number of goroutines; each Campaign is a candidate of its own.
type Election struct {
	s     *client.Session
	dir   string
	opt   Options     // with defaults
	latch lock.Locker // that the leader holds
}

// New returns the election of the directory at path, which must not be "/". It asks the server nothing. The directory,
// and what is above it, is made by the first campaign. Watching needs no options.
func New(s *client.Session, path string, opt Options) (*Election, error) {
	if s == nil {
		return nil, fmt.Errorf("election %s: there is no session (open one with client.Open)", path)
	}
	opt, err := opt.withDefaults(s.Timeout())
	if err != nil {
		return nil, fmt.Errorf("election %s: %w", path, err)
	}
	latch, err := bridge.NewLatch[lock.Locker](s, path, opt.Lock)
	if err != nil {
		return nil, err
	}
	return &Election{s, path, opt, latch}, nil
}

// errZero is the error of an Election that was not made by New.
var errZero = errors.New("election: the zero value of an Election cannot be used (make one with New)")

// Path returns the path of the election's directory.
func (e *Election) Path() string { return e.dir }

// Session returns the session that the election's candidates belong to.
func (e *Election) Session() *client.Session { return e.s }

// Campaign waits until we lead. ctx bounds the waiting, not the term. Exactly one of term and error is not
// nil. The caller must call Resign in the end, even if the term has ended by itself; Lead and Run do it for theirs.
// Until then, a term that ended because the ensemble was silent keeps its znode, for Options.Grace at most.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	if e.s == nil {
		return nil, errZero
	}
	hold, err := e.latch.Lock(ctx)
	if err != nil {
		if at, ok := errors.AsType[*lock.LockError](err); ok {
			return nil, &lock.LockError{Op: "campaign", Path: at.Path, Err: at.Err}
		}
		return nil, err
	}
	return newTerm(e, hold), nil
}
