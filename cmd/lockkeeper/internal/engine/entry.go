package engine

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
)

// A hold is a lock or a term that is held.
type hold interface {
	Token() int64
	Remaining() time.Duration
	Done() <-chan struct{}
	Cause() error
}

// An entry is a way to get a hold.
type entry func(context.Context) (hold, error)

// entryOf makes an entry of what returns holds of one kind.
func entryOf[H hold](get func(context.Context) (H, error)) entry {
	return func(ctx context.Context) (hold, error) {
		h, err := get(ctx)
		if err != nil {
			return nil, err
		}
		return h, nil
	}
}

// entries returns the ways to wait for what is wanted, and to try for it.
func (e *engine) entries(opt lock.Options) (enter, try entry, err error) {
	if o := e.open.Election; o != nil {
		// When the child has to end is the plan's to say, so a term ends with its lock.
		c, err := election.New(e.session, e.open.Lock, election.Options{ID: o.ID, IDOnly: o.Only, Margin: -1, Lock: opt})
		if err != nil {
			return nil, nil, err
		}
		return entryOf(c.Campaign), nil, nil
	}
	first, err := e.way(e.open.Lock, opt)
	if err != nil || len(e.open.Also) == 0 {
		return entryOf(first.lock), entryOf(first.try), err
	}
	members := []lock.Member{first.member}
	for _, path := range e.open.Also {
		w, err := e.way(path, opt)
		if err != nil {
			return nil, nil, err
		}
		members = append(members, w.member)
	}
	all, err := lock.NewAll(members...)
	if err != nil {
		return nil, nil, err
	}
	return e.togetherBy(all.Lock), e.togetherBy(all.TryLock), nil
}

// A way is how to take one lock: by itself, or together with others.
type way struct {
	lock, try func(context.Context) (*lock.Hold, error)
	member    lock.Member
}

// way returns how to take the side of a lock that is wanted, or one of its permits. A mutex is the side that
// excludes all others, under a name that mutexes of other clients know.
func (e *engine) way(path string, opt lock.Options) (way, error) {
	switch {
	case e.open.Slots > 0:
		m, err := lock.NewSemaphore(e.session, path, e.open.Slots, opt)
		if err != nil {
			return way{}, err
		}
		return way{m.Acquire, m.TryAcquire, m.Permits(1)}, nil
	case e.open.Shared, e.open.Exclusive:
		m, err := lock.NewRWMutex(e.session, path, opt)
		switch {
		case err != nil:
			return way{}, err
		case e.open.Shared:
			return way{m.RLock, m.TryRLock, m.Reader()}, nil
		}
		return way{m.Lock, m.TryLock, m}, nil
	}
	m, err := lock.NewMutex(e.session, path, opt)
	if err != nil {
		return way{}, err
	}
	return way{m.Lock, m.TryLock, m}, nil
}

// together are several locks that are held at once.
type together struct {
	*lock.Holds
	first string // path of the first that was named
}

func (e *engine) togetherBy(take func(context.Context) (*lock.Holds, error)) entry {
	return entryOf(func(ctx context.Context) (*together, error) {
		h, err := take(ctx)
		return &together{h, e.open.Lock}, err
	})
}

// Token returns the first lock's.
func (t *together) Token() int64 { return t.Tokens()[t.first] }

// tokens returns those of others, in order.
func (t *together) tokens(paths []string) []int64 {
	tokens := make([]int64, len(paths))
	for i, path := range paths {
		tokens[i] = t.Tokens()[path]
	}
	return tokens
}

// nodes returns the znodes of all of them.
func (t *together) nodes(o link.Open) (nodes []string) {
	for _, path := range append([]string{o.Lock}, o.Also...) {
		nodes = append(nodes, t.Of(path)[0].Node())
	}
	return nodes
}

// revocation returns a channel that is closed when the holder was asked to give up; nil if that cannot be asked.
func revocation(h hold) <-chan struct{} {
	if r, ok := h.(interface{ Revoked() <-chan struct{} }); ok {
		return r.Revoked()
	}
	return nil
}
