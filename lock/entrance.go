package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// An entrance is a way into the line of one directory, for claims of one recipe. Every fair lock is made of it; an RWMutex
// of two, one for each side. It has no state but what is to be removed (reaper) and what it knows of earlier holders.
type entrance struct {
	lockBase
	recipe *queue.Rules
	room   *room     // a semaphore's number of permits; otherwise nil
	gate   *entrance // to the lock that has to be held while in line (Curator's semaphore); nil if there is none
	reaper *reaper

	orphans orphansKnown // delay markers of holders that did not release
}

// base returns the lock's base; nil if e is nil.
func (e *entrance) base() *lockBase {
	if e == nil {
		return nil
	}
	return &e.lockBase
}

func newEntrance(s *client.Session, dir string, opt Options, r *queue.Rules) *entrance {
	e := &entrance{lockBase: newBase(s, dir, opt, r.Verb, r.Kind, r.Heeds, r.Reenters), recipe: r}
	e.reaper = &reaper{lock: &e.lockBase, clean: e.clean}
	return e
}

// lock returns one hold, re-entered or after a wait in line.
func (e *entrance) lock(ctx context.Context) (*Hold, error) {
	if e == nil {
		return nil, errZero
	}
	h, err := e.reenter(ctx, false)
	if h == nil && err == nil {
		ctx = e.asked(ctx)
		h, err = only(e.lockAll(ctx, 1))
	}
	return h, e.refused(ctx, err)
}

// only returns the hold of what was asked for as one.
func only(holds []*Hold, err error) (*Hold, error) {
	if err != nil {
		return nil, err
	}
	return holds[0], nil
}

// lockAll waits in line with count claims, and returns as many holds or none.
func (e *entrance) lockAll(ctx context.Context, count int) ([]*Hold, error) {
	leave, err := e.approach(ctx, count, false)
	if err != nil {
		return nil, err
	}
	defer leave()
	for {
		says := e.opt.waiting(lineageOf(ctx))
		a := newAttempt(e, count, says)
		way := a.run
		if says.Yields {
			way = e.unlessDeadlocked(a.id, way)
		}
		holds, err := through(ctx, a, way)
		if err == nil {
			return holds, nil
		}
		if !e.opt.Requeue || !errors.Is(err, ErrPlaceLost) || ctx.Err() != nil { // the cause of ctx may be another lock's ErrPlaceLost
			return nil, &LockError{e.op(false), e.dir, err}
		}
	}
}

// through has an attempt go one way, run or try, to its holds. If there are none in the end, it abandons the attempt;
// also if a function of the user's, such as Options.Waiting, has panicked on the way. A session that ends takes the
// place in line with it, and the event that says so may come first: then the error is the session's.
func through(ctx context.Context, a *attempt, way func(context.Context) ([]*Hold, error)) (holds []*Hold, err error) {
	defer func() {
		if holds == nil {
			a.abandon()
		}
	}()
	if holds, err = way(ctx); errors.Is(err, ErrPlaceLost) {
		a.s.Sync(ctx, a.e.dir) // if the session has ended, that is known then
		if over := a.s.Err(); over != nil {
			err = over
		}
	}
	return holds, err
}

// try is lock without waiting: it joins the line and leaves it again unless the lock is free.
func (e *entrance) try(ctx context.Context) (*Hold, error) {
	if e == nil {
		return nil, errZero
	}
	h, err := e.reenter(ctx, true)
	if h == nil && err == nil {
		ctx = e.asked(ctx)
		h, err = only(e.tryAll(ctx, 1))
	}
	return h, e.refused(ctx, err)
}

// tryAll is try with count claims.
func (e *entrance) tryAll(ctx context.Context, count int) ([]*Hold, error) {
	leave, err := e.approach(ctx, count, true)
	if err != nil {
		return nil, err
	}
	defer leave()
	e.reaper.await(ctx)
	a := newAttempt(e, count, passing)
	a.hasty = true
	holds, err := through(ctx, a, a.try)
	if err == nil {
		return holds, nil
	}
	if named(err) {
		return nil, err
	}
	return nil, &LockError{e.op(true), e.dir, err}
}

// approach does what comes before joining the line of a semaphore: it agrees on the number of permits, and takes the
// gate. leave gives the gate back.
func (e *entrance) approach(ctx context.Context, count int, try bool) (leave func(), err error) {
	if e.room.varies() && !e.room.agreed.Load() {
		if err := e.room.agree(ctx, e, count, false); err != nil {
			return nil, &LockError{e.op(try), e.dir, err}
		}
	}
	if e.gate == nil {
		return func() {}, nil
	}
	take := e.gate.lock
	if try {
		take = e.gate.try
	}
	g, err := take(ctx)
	if err != nil {
		return nil, err
	}
	return func() {
		short, cancel := context.WithTimeout(ctx, e.opt.CleanupTimeout)
		defer cancel()
		if err := g.Release(short); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
			e.opt.Logger.Warn("the lock on the way in was not released in time", "lock", e.gate.dir, "error", err)
		}
	}, nil
}

// makeDirectory makes the directory and what is missing above it.
func (e *entrance) makeDirectory(ctx context.Context) error {
	if e.room.varies() {
		return e.room.agree(ctx, e, 0, false)
	}
	return makeParents(ctx, e.s, e.dir, e.opt.ParentACL)
}

// do runs f under a hold.
func (e *entrance) do(ctx context.Context, f func(ctx context.Context) error) error {
	h, err := e.lock(ctx)
	if err != nil {
		return err
	}
	return h.Do(ctx, f)
}
