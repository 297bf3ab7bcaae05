package world

import (
	"context"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
)

// runAll takes several locks at once.
func runAll(w *World, s Step) {
	p := w.procs[s.Who]
	paths := []string{dirOf("mutex", 0), dirOf("mutex", 1), dirOf("rw", 0)}[s.N/2:]
	var cs *client.Session
	var h *lock.Holds
	var err error
	asked := w.now()
	w.witness.takes(paths, 1)
	defer w.witness.takes(paths, -1)
	p.bounded(s.Do, s.Wait, func(ctx context.Context) {
		if cs, err = p.open(ctx); err != nil {
			return
		}
		members := make([]lock.Member, len(paths))
		for i, path := range paths {
			if members[i], err = lock.NewMutex(cs, path, w.options(s)); err != nil {
				return
			}
		}
		var all *lock.All
		if all, err = lock.NewAll(members...); err == nil {
			h, err = all.Lock(ctx)
		}
	})
	w.outcome(s, h != nil, err)
	if h == nil {
		return
	}
	for _, path := range paths {
		one := h.Of(path)[0]
		st := &stay{p: p, path: path, hold: one, token: one.Token(), session: cs.ID(), asked: asked}
		w.audit.add(auditClaim{who: s.Who, node: one.Node(), token: one.Token()})
		w.begins(s, one)
		if one.Cause() == nil {
			w.witness.enter(st)
			defer w.witness.leave(st)
			defer context.AfterFunc(one.Context(), func() { w.witness.leave(st) })()
		}
	}
	select {
	case <-time.After(s.For):
	case <-h.Done():
	}
	p.bounded("release", s.Release, func(ctx context.Context) { err = h.Release(ctx) })
	w.note(s.Who, "#%d released: %v", s.ID, err)
	if err != nil && !errors.Is(err, lock.ErrReleasePending) && !errors.Is(err, lock.ErrLost) {
		w.violated("release: %v", err)
	}
}
