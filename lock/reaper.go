package lock

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// debris is what an attempt or a hold left: nodes that are there, or may be.
type debris struct {
	id      queue.ID
	token   int64         // creation zxid of the nodes; 0 if unknown
	nodes   []string      // their paths, as far as they are known
	created *creation     // a create that is still under way, if any
	unknown bool          // there may be others: look for the id
	settled chan struct{} // closed when all is gone, or the removal was refused for the first time
}

// A reaper removes what was abandoned by attempts and holds of one lock value. It goes on with each until it is known to
// be gone, or the session is over, which removes it too. It runs only while there is something to do, on a goroutine
// of the session's.
type reaper struct {
	lock  *lockBase
	clean func(context.Context, []debris) (left []debris, err error) // does what can be done for each; err says why some are left
	mu    struct {
		sync.Mutex
		list []debris
		more chan struct{}              // add → run: there is more to do; one token is enough; nil while run does not
		open map[chan struct{}]struct{} // debris.settled of all that is not settled
	}
}

func (r *reaper) add(d debris) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d.settled = make(chan struct{})
	if r.mu.open == nil {
		r.mu.open = map[chan struct{}]struct{}{}
	}
	r.mu.open[d.settled] = struct{}{}
	r.mu.list = append(r.mu.list, d)
	if r.mu.more != nil {
		select {
		case r.mu.more <- struct{}{}:
		default: // it has been told already
		}
		return
	}
	more := make(chan struct{}, 1)
	if !r.lock.s.Go(func(ctx context.Context) { r.run(ctx, more) }) {
		r.mu.list, r.mu.open = nil, nil // the session is over, and everything of it
		return
	}
	r.mu.more = more
}

// settleLocked notes that all of list is settled but for what is left.
func (r *reaper) settleLocked(list, left []debris) {
	for _, d := range list {
		_, open := r.mu.open[d.settled]
		if open && !slices.ContainsFunc(left, func(l debris) bool { return l.settled == d.settled }) {
			delete(r.mu.open, d.settled)
			close(d.settled)
		}
	}
}

// await returns when all that had been abandoned before the call is settled, so that a try does not find its own
// process's remains in its way. It returns early if ctx or the session ends, which the next request finds out.
func (r *reaper) await(ctx context.Context) {
	r.mu.Lock()
	open := slices.Collect(maps.Keys(r.mu.open))
	r.mu.Unlock()
	for _, settled := range open {
		select {
		case <-settled:
		case <-r.lock.s.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// The pause after a refusal, such as a changed ACL, doubles between these.
const (
	reaperPauseMin = 100 * time.Millisecond
	reaperPauseMax = 30 * time.Second
)

func (r *reaper) run(ctx context.Context, more <-chan struct{}) {
	pause := reaperPauseMin
	for {
		r.mu.Lock()
		list := r.mu.list
		r.mu.list = nil
		if len(list) == 0 {
			r.mu.more = nil
		}
		r.mu.Unlock()
		if len(list) == 0 {
			return
		}
		left, err := r.clean(ctx, list)
		r.mu.Lock()
		if err == nil || errors.Is(err, zk.ErrConnectionLoss) {
			r.settleLocked(list, left)
		} else {
			r.settleLocked(list, nil)
		}
		r.mu.list = append(left, r.mu.list...)
		r.mu.Unlock()
		switch {
		case r.lock.s.Err() != nil:
			return
		case err == nil, errors.Is(err, zk.ErrConnectionLoss):
			pause = reaperPauseMin
			continue
		}
		r.lock.opt.Logger.Warn("cannot remove an abandoned lock node yet", "lock", r.lock.dir, "error", err, "retry in", pause)
		select {
		case <-time.After(pause):
			pause = min(2*pause, reaperPauseMax)
		case <-more: // what is newer does not wait for what cannot be removed
		case <-ctx.Done():
			return
		}
	}
}

// clean does what can be done for each of list, and returns those that are left and an error that says why.
func (e *entrance) clean(ctx context.Context, list []debris) (left []debris, err error) {
	search := false
	for i := range list {
		list[i].resolve(ctx)
		search = search || list[i].unknown
	}
	var q queue.Queue
	var unseen error // why the line is not known; what is known of nodes is enough to delete them
	if search {
		q, unseen = e.settledLine(ctx)
	}
	p := e.s.Pipeline()
	deletes := make([][]*client.Pending[struct{}], len(list))
	for i, d := range list {
		for _, node := range d.all(e.dir, q) {
			deletes[i] = append(deletes[i], p.Delete(node, -1))
		}
	}
	p.Send(ctx)
	for i, d := range list {
		var failed error
		if d.unknown {
			failed = unseen
		}
		for _, k := range deletes[i] {
			if _, err := k.Wait(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
				failed = err
			}
		}
		if failed != nil {
			left, err = append(left, d), failed
		}
	}
	return left, err
}

// resolve waits for the outcome of a create that is under way. It comes, or the connection ends: both
// complete it.
func (d *debris) resolve(ctx context.Context) {
	if d.created == nil {
		return
	}
	nodes, czxid, err := d.created.wait(ctx)
	switch {
	case err == nil: // and an attempt sends no create while it does not know of one before
		d.nodes, d.token, d.created, d.unknown = nodes, czxid, nil, false
	case ctx.Err() == nil:
		d.unknown = d.unknown || client.MaybeApplied(err)
		d.created = nil
	}
}

// all returns the paths of what there is to delete: the nodes that are known and, if there may be others, those that
// carry the id in the line.
func (d *debris) all(dir string, q queue.Queue) []string {
	all := slices.Clone(d.nodes)
	if d.unknown {
		for _, i := range q.Of(d.id) {
			if node := zk.Join(dir, q.Line[i].Name); !slices.Contains(d.nodes, node) {
				all = append(all, node)
			}
		}
	}
	return all
}

// settledLine lists the directory behind a sync, so that everything that was applied before is seen.
func (e *entrance) settledLine(ctx context.Context) (queue.Queue, error) {
	p := e.s.Pipeline()
	p.Sync(e.dir)
	listed := p.Children(e.dir)
	p.Send(ctx)
	l, err := listed.Wait(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // no directory, no nodes
	}
	return queue.Parse(l.Names, e.recipe.Heeds), err
}
