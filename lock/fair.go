package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A fairLock is the part that all fair locks have in common: the queue of one directory, and claims by one set of rules. An
// RWMutex has two, one for each side.
type fairLock struct {
	lockBase
	permits *permitCount // a semaphore's number of permits; otherwise nil
	gate    *fairLock    // a second lock, which is held only while joining the queue and waiting in it (Curator's semaphore); otherwise nil
	cleaner *cleaner     // removes what attempts and holds leave
	orphans *orphanTimes // delay markers of holders that did not release
}

func newFairLock(s *client.Session, dir string, opt Options, r *queue.Rules) *fairLock {
	f := &fairLock{lockBase: newBase(s, dir, opt, r), orphans: &orphanTimes{}}
	f.cleaner = &cleaner{lock: &f.lockBase, clean: f.clean}
	return f
}

// takeClaims makes count claims and returns as many holds or none. If try is set, it does not wait.
func (f *fairLock) takeClaims(ctx context.Context, count int, try bool) ([]*Hold, error) {
	leave, err := f.approach(ctx, count, try)
	if err != nil {
		return nil, err
	}
	defer leave()
	if try {
		f.cleaner.await(ctx)
	}
	for {
		a := newAttempt(f, count, try, f.opt.claimRecord(ctx, try))
		a.ask(ctx)
		holds, err := a.run(ctx)
		if err == nil || try || !f.opt.Requeue || !errors.Is(err, ErrPlaceLost) || ctx.Err() != nil { // the cause of ctx may be another lock's ErrPlaceLost
			return holds, f.withOp(err, try)
		}
	}
}

// approach does what comes before joining the queue, which is something for a semaphore alone: it agrees on the number of permits,
// and takes the gate. leave gives the gate back.
func (f *fairLock) approach(ctx context.Context, count int, try bool) (leave func(), err error) {
	if f.permits.varies() && !f.permits.agreed.Load() {
		if _, err := f.permits.agree(ctx, f, count, false); err != nil {
			return nil, f.withOp(err, try)
		}
	}
	if f.gate == nil {
		return func() {}, nil
	}
	g, err := locker{f.gate}.take(ctx, try)
	if err != nil {
		if said, ok := err.(*LockError); ok { // of the gate, which is no lock of the caller's
			err = said.Err
		}
		return nil, f.withOp(err, try)
	}
	return func() {
		short, cancel := context.WithTimeout(ctx, f.opt.CleanupTimeout)
		defer cancel()
		if err := g.Release(short); err != nil && ctx.Err() == nil { // it goes in the background, or has gone
			f.opt.Logger.Warn("the lock on the way in was not released in time", "lock", f.gate.dir, "error", err)
		}
	}, nil
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

// queueOf waits for a listing of the directory, and returns the queue that it shows. With an error, nothing is in it.
func (f *fairLock) queueOf(ctx context.Context, listed *client.Pending[client.Listing]) (queue.Queue, error) {
	children, err := listed.Wait(ctx)
	if err != nil {
		return queue.Queue{}, err
	}
	q := queue.Parse(children.Names, f.rules.Heeds)
	q.Spent = queue.CounterSpent(children.Stat)
	return q, nil
}
