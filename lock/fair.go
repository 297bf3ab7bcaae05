package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fairLock is the part that all fair locks have in common: the queue of one directory, and claims by one set of rules. An
// RWMutex has two fairLocks, one for each side.
type fairLock struct {
	lockBase
	permits *permitCount // a semaphore's number of permits; otherwise nil
	gate    *fairLock    // a second lock, held while joining the queue and waiting in it (Curator's semaphore); otherwise nil
	orphans *orphanTimes // delay markers of holders that did not release
}

func newFairLock(s *client.Session, dir string, opt Options, r *queue.Rules) *fairLock {
	f := &fairLock{lockBase: newBase(s, dir, opt, r), orphans: &orphanTimes{}}
	f.algorithm, f.cleaner = f, &cleaner{lock: &f.lockBase}
	return f
}

// takeHolds implements algorithm. A semaphore whose number of permits is stored agrees on it first; Curator's takes the gate.
func (f *fairLock) takeHolds(ctx context.Context, count int, try bool) ([]*Hold, error) {
	if f.permits != nil && f.permits.stored && !f.permits.agreed.Load() {
		if _, err := f.permits.agree(ctx, f, count, false); err != nil {
			return nil, err
		}
	}
	if f.gate != nil {
		gate, err := f.gate.takeHolds(ctx, 1, try)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err := gate[0].Release(ctx); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
				f.opt.Logger.Warn("the lock on the way in was not released in time", "lock", f.gate.dir, "error", err)
			}
		}()
	}
	if try {
		f.cleaner.await(ctx)
	}
	for {
		holds, err := newAttempt(f, count, try, f.opt.claimRecord(ctx, try)).run(ctx)
		again := f.opt.Requeue && errors.Is(err, ErrPlaceLost) && ctx.Err() == nil // the cause of ctx may be another lock's ErrPlaceLost
		if try || !again {
			return holds, err
		}
	}
}

// makeDirectory makes the lock's directory, a container where the server has them, or what is missing above it. That of a
// semaphore gets the number of permits. It competes with other contenders and with the removal of empty directories, so a nil
// error promises nothing: the caller's next create tells whether it was enough.
func (f *fairLock) makeDirectory(ctx context.Context) error {
	if f.permits.varies() {
		_, err := f.permits.agree(ctx, f, 0, false)
		return err
	}
	_, err := f.s.Create(ctx, f.dir, nil, zk.Container, f.opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return f.s.EnsurePath(ctx, zk.Parent(f.dir), f.opt.ParentACL)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: it may be there
		return f.s.EnsurePath(ctx, f.dir, f.opt.ParentACL)
	}
	return err
}

// awaitQueue waits for a listing of the directory, and returns the queue that it shows. With an error, nothing is in it.
func (f *fairLock) awaitQueue(ctx context.Context, listed *client.Pending[client.Listing]) (queue.Queue, error) {
	children, err := listed.Wait(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	q := queue.Parse(children.Names, f.rules.Heeds)
	q.Spent = queue.CounterSpent(children.Stat)
	return q, nil
}
