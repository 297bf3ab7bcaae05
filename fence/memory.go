package fence

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/ending"
)

// MemoryResourcesMax is how many resources a Memory remembers unless it is told otherwise.
const MemoryResourcesMax = 1 << 16

// A Memory is a register that lives in the process and is forgotten with it: for what is protected and
// lives there too. The zero value is ready. Its methods may be called from any goroutine.
type Memory struct {
	// ResourcesMax bounds how many resources are remembered; one more is refused with ErrFull. None is
	// ever forgotten, for then its old tokens would be accepted again. Default MemoryResourcesMax.
	ResourcesMax int

	mu        sync.Mutex
	resources map[string]*resource // guarded by mu
}

// A resource is what is remembered of one; the Memory's mu guards it.
type resource struct {
	newest int64
	visits map[*visit]struct{} // under way with the newest token
	older  int                 // how many are under way with older ones
	alone  chan struct{}       // closed when older falls to 0; nil while it is
}

// A visit is one call of Do that has been let in, or waits for older ones to leave.
type visit struct {
	token int64
	end   context.CancelCauseFunc
}

// Do runs f if no token above c.Token has been seen for c.Resource, and returns its error. While f runs,
// a call with the same token runs beside it, one with a lower token is refused with a *StaleError, and
// one with a higher token ends f's context with a *StaleError as its cause and waits until f has
// returned. So whatever f has done has happened before whatever the next holder does.
//
// While Do waits for older work to end it also heeds ctx: if that ends first, f is not run, the error says why, and the
// token stays remembered.
func (m *Memory) Do(ctx context.Context, c Claim, f func(ctx context.Context) error) error {
	if err := c.Check(); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r, v, alone, err := m.enter(c, end)
	if err != nil {
		return err
	}
	defer m.leave(r, v)
	if alone != nil {
		select {
		case <-alone:
		case <-ctx.Done():
			err = ending.Of(ctx)
		}
		if newest := m.Newest(c.Resource); c.Token < newest {
			return &StaleError{c, newest}
		}
		if err != nil {
			return err
		}
	}
	return f(ctx)
}

// Newest returns the highest token that was seen for a resource; 0 if there was none.
func (m *Memory) Newest(resource string) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.resources[resource]; r != nil {
		return r.newest
	}
	return 0
}

// enter remembers the token and ends the work of older ones. alone is closed when those have left; it is nil if there
// are none.
func (m *Memory) enter(c Claim, end context.CancelCauseFunc) (r *resource, v *visit, alone <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err = m.resourceLocked(c.Resource)
	switch {
	case err != nil:
		return nil, nil, nil, err
	case c.Token < r.newest:
		return nil, nil, nil, &StaleError{c, r.newest}
	case c.Token > r.newest:
		r.newest = c.Token
		for older := range r.visits {
			older.end(&StaleError{Claim{c.Resource, older.token}, c.Token}) // runs no caller's code here
		}
		r.older += len(r.visits)
		if r.older > 0 && r.alone == nil {
			r.alone = make(chan struct{})
		}
		r.visits = map[*visit]struct{}{}
	}
	v = &visit{c.Token, end}
	r.visits[v] = struct{}{}
	return r, v, r.alone, nil
}

func (m *Memory) resourceLocked(name string) (*resource, error) {
	if r := m.resources[name]; r != nil {
		return r, nil
	}
	limit := m.ResourcesMax
	if limit == 0 {
		limit = MemoryResourcesMax
	}
	if len(m.resources) >= limit {
		return nil, fmt.Errorf("fence %s: %w: %d resources", name, ErrFull, limit)
	}
	if m.resources == nil {
		m.resources = map[string]*resource{}
	}
	r := &resource{}
	m.resources[name] = r
	return r, nil
}

func (m *Memory) leave(r *resource, v *visit) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.token == r.newest {
		delete(r.visits, v)
		return
	}
	r.older--
	if r.older == 0 {
		close(r.alone)
		r.alone = nil
	}
}
