package lock

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/lock/internal/waitgraph"
)

// A detector looks for a cycle of contenders that wait for each other, for the sake of one attempt that waits in a queue.
// The attempt knows nothing of it: what the detector finds ends the context that the attempt waits with.
//
// It looks first when the attempt has waited for Options.Deadlock, and then ever more rarely. A cycle that it finds
// twice in a row, Options.Deadlock apart, is a deadlock.
type detector struct {
	core  *core
	id    queue.ID
	pause time.Duration     // until the next look
	seen  *waitgraph.Reader // of the last look, if it found a cycle
}

// detectorRarest is how much rarer than at first a detector looks in the end.
const detectorRarest = 16

// detect returns a context for the wait of an attempt. If the attempt waits in a cycle and is the one to give up, it ends with a
// *DeadlockError as its cause.
func (c *core) detect(ctx context.Context, id queue.ID) (wait context.Context, stop func()) {
	wait, end := context.WithCancelCause(ctx)
	d := &detector{core: c, id: id, pause: c.opt.Deadlock}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if found := d.run(wait); found != nil {
			end(found)
		}
	}()
	return wait, func() {
		end(nil)
		<-done
	}
}

// run looks until it has found a deadlock or ctx ends; then it returns nil.
func (d *detector) run(ctx context.Context) *DeadlockError {
	for {
		select {
		case <-time.After(d.pause):
		case <-ctx.Done():
			return nil
		}
		if found := d.look(ctx); found != nil {
			return found
		}
	}
}

// look returns the cycle that the attempt waits in if this is the second look in a row that finds one, and the attempt is
// the one to give up. A look that fails proves nothing.
func (d *detector) look(ctx context.Context) *DeadlockError {
	dir := d.core.dir
	now := waitgraph.NewReader(ctx, d.core.s, d.seen)
	found, err := now.Cycle(dir, d.id.HoldID(dir), (*queue.Entry).YieldsBefore)
	switch {
	case err != nil:
		d.core.opt.Logger.Debug("cannot look for deadlocks", "lock", dir, "error", err)
	case found == nil && d.seen == nil:
		d.pause = min(2*d.pause, detectorRarest*d.core.opt.Deadlock)
	case found == nil:
		d.seen = nil
	case d.seen == nil:
		d.seen, d.pause = now, d.core.opt.Deadlock
	default:
		return &DeadlockError{Path: dir, Deadlock: found}
	}
	return nil
}
