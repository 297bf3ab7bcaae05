package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// stepsPatience is how long steps may go on after the turmoil: longer than any of their limits.
const stepsPatience = 2 * time.Minute

// settle waits until all steps are over, with everything healed, and checks what must hold then.
func (w *World) settle() {
	over := make(chan struct{})
	go func() {
		w.steps.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-time.After(stepsPatience):
		panic(fmt.Sprintf("I5: steps do not come to an end %v after the turmoil", stepsPatience))
	}
	// Sessions that lost touch are gone in time. Then nothing is left (I2, I4), and the locks are free for
	// all, one after the other (I3).
	time.Sleep(w.plan.Timeout + 2*w.plan.Tick)
	admin, err := w.admin()
	if err != nil {
		w.violated("I3: no session a while after all was healed: %v", err)
		return
	}
	defer admin.Close(context.Background())
	for _, kind := range lockKinds {
		for key := range keys {
			var left []string
			if !w.within(time.Second, func() bool { left = remains(admin, kind, dirOf(kind, key)); return len(left) == 0 }) {
				w.violated("I2: left in %s: %v", dirOf(kind, key), left)
			}
		}
	}
	if !w.within(time.Second, func() bool { return w.keeper.watches() == 0 }) {
		w.violated("I4: %d watches are left", w.keeper.watches())
	}
	for _, p := range w.procs {
		w.passes(p)
	}
}

// passes checks that a process gets every lock within a second (I3).
func (w *World) passes(p *proc) {
	ctx, cancel := context.WithTimeout(context.Background(), passLimit)
	defer cancel()
	cs, err := p.open(ctx)
	for _, kind := range lockKinds {
		for key := 0; err == nil && key < keys; key++ {
			err = pass(ctx, cs, kind, dirOf(kind, key))
		}
	}
	if err != nil {
		w.violated("I3: p%d after all was healed: %v", p.n, err)
	}
}

// pass takes and gives back a lock of some kind without waiting.
func pass(ctx context.Context, cs *client.Session, kind, dir string) error {
	var h *lock.Hold
	var err error
	switch kind {
	case "sem":
		var m *lock.Semaphore
		if m, err = lock.NewSemaphore(cs, dir, 0, bridge.OnBehalf(lock.Options{}, 1, "", nil)); err == nil {
			h, err = m.TryAcquire(ctx)
		}
		if errors.Is(err, lock.ErrNoPermits) {
			return nil // no process has come this way
		}
	case "unfair":
		var m *lock.Unfair
		if m, err = lock.NewUnfair(cs, dir, bridge.OnBehalf(lock.Options{}, 1, "", nil)); err == nil {
			h, err = m.TryLock(ctx)
		}
	case "election":
		var m lock.Locker
		if m, err = bridge.NewLatch[lock.Locker](cs, dir, bridge.OnBehalf(lock.Options{}, 1, "", nil)); err == nil {
			h, err = m.Lock(ctx)
		}
	default:
		var m *lock.Mutex
		if m, err = lock.NewMutex(cs, dir, bridge.OnBehalf(lock.Options{}, 1, "", nil)); err == nil {
			h, err = m.TryLock(ctx)
		}
	}
	if err != nil {
		return err
	}
	return h.Release(ctx)
}

// passLimit is how long it may take to get a lock when all is well.
const passLimit = time.Second

// remains returns what is left of a lock.
func remains(s *client.Session, kind, dir string) []string {
	if kind == "unfair" {
		if _, ok, err := s.Exists(context.Background(), dir); ok || err != nil {
			return []string{dir}
		}
		return nil
	}
	names, _, err := s.Children(context.Background(), dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return []string{err.Error()}
	}
	return names
}
