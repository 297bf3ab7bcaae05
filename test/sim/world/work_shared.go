package world

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

func runWrite(w *World, s Step) { w.takeRW(s, alone, (*lock.RWMutex).Lock) }
func runRead(w *World, s Step)  { w.takeRW(s, sharing, (*lock.RWMutex).RLock) }

func (w *World) takeRW(s Step, kind stayKind, take func(*lock.RWMutex, context.Context) (*lock.Hold, error)) {
	w.take(s, dirOf("rw", s.Key), kind, func(ctx context.Context, cs *client.Session) ([]holding, error) {
		m, err := lock.NewRWMutex(cs, dirOf("rw", s.Key), w.options(s))
		if err != nil {
			return nil, err
		}
		return one(take(m, ctx))
	})
}

// downgrade lets readers in.
func (w *World) downgrade(s Step, h *lock.Hold, st *stay) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Release)
	defer cancel()
	w.witness.share(st)
	err := h.Downgrade(ctx)
	w.note(s.Who, "#%d downgraded: %v", s.ID, err)
}

// permits is how many permits semaphores have unless a process has stored another number.
const permits = 2

func planPermits(d *dice, s *Step) {
	planLock(d, s)
	s.N = 1 + d.IntN(4)
}

// permitsMax is how many permits a semaphore may have had at some time.
func (p *Plan) permitsMax(path string) int {
	n := permits
	for _, s := range p.Steps {
		if s.Do == "resize" && dirOf("sem", s.Key) == path {
			n = max(n, s.N)
		}
	}
	return n
}

func runPermit(w *World, s Step) {
	w.takePermits(s, func(ctx context.Context, m *lock.Semaphore) ([]holding, error) {
		if s.N == 0 {
			return one(m.TryAcquire(ctx))
		}
		return one(m.Acquire(ctx))
	})
}

// runPermits asks for several permits at once, sometimes for more than there are.
func runPermits(w *World, s Step) {
	w.takePermits(s, func(ctx context.Context, m *lock.Semaphore) ([]holding, error) { return several(m.AcquireN(ctx, s.N)) })
}

func (w *World) takePermits(s Step, take func(context.Context, *lock.Semaphore) ([]holding, error)) {
	w.take(s, dirOf("sem", s.Key), permit, func(ctx context.Context, cs *client.Session) ([]holding, error) {
		m, err := lock.NewSemaphore(cs, dirOf("sem", s.Key), permits, w.options(s))
		if err != nil {
			return nil, err
		}
		holds, err := take(ctx, m)
		var other *lock.ConflictError
		if errors.As(err, &other) { // take it as it is
			if m, err = lock.NewSemaphore(cs, dirOf("sem", s.Key), 0, w.options(s)); err == nil {
				holds, err = take(ctx, m)
			}
		}
		return holds, err
	})
}

// runResize changes the number of permits.
func runResize(w *World, s Step) {
	p := w.procs[s.Who]
	var err error
	p.bounded(s.Do, s.Wait, func(ctx context.Context) {
		var cs *client.Session
		if cs, err = p.open(ctx); err == nil {
			var m *lock.Semaphore
			if m, err = lock.NewSemaphore(cs, dirOf("sem", s.Key), 0, lock.Options{}); err == nil {
				err = m.SetPermits(ctx, s.N)
			}
		}
	})
	w.note(s.Who, "#%d %d permits: %v", s.ID, s.N, err)
	var refused *client.OpenError
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, zk.ErrClosed) && !errors.As(err, &refused) {
		w.violated("resize: %v", err)
	}
}
