package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// leftovers are what an attempt or a hold left: nodes that are there, or may be.
type leftovers struct {
	id      queue.ID
	nodes   []string  // their paths, as far as they are known; of a fair lock
	token   int64     // creation zxid of the node, of an unfair lock; 0 if unknown
	created *creation // a create that is still under way, if any
	unknown bool      // there may be others: look for the id
	stray   bool      // there is one node; it is removed only if it is the session's
	refused bool      // the server has refused the removal at least once
}

// A cleaner removes what was abandoned by attempts and holds of one lock value. It goes on with each until it is known to
// be gone, or the session is over, which removes it too. It runs only while there is something to do, on a goroutine
// of the session's.
type cleaner struct {
	lock  *lockBase
	clean func(context.Context, []leftovers) (left []leftovers, err error) // does what can be done for each; err says why some are left
	mu    struct {
		sync.Mutex
		todo []leftovers
		more chan struct{} // add → run: there is more to do; one token is enough; nil while run does not
		idle chan struct{} // closed when nothing is left but what has been refused; nil if that is so
	}
}

func (c *cleaner) add(d leftovers) {
	attemptIDs.add(d.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.idle == nil {
		c.mu.idle = make(chan struct{})
	}
	c.mu.todo = append(c.mu.todo, d)
	if c.mu.more != nil {
		select {
		case c.mu.more <- struct{}{}:
		default: // it has been told already
		}
		return
	}
	more := make(chan struct{}, 1)
	if !c.lock.s.Go(func(ctx context.Context) { c.run(ctx, more) }) {
		c.dropLocked() // the session is over, and everything of it
		return
	}
	c.mu.more = more
}

// restLocked closes idle if nothing is left but what has been refused.
func (c *cleaner) restLocked() {
	fresh := func(d leftovers) bool { return !d.refused }
	if c.mu.idle != nil && !slices.ContainsFunc(c.mu.todo, fresh) {
		close(c.mu.idle)
		c.mu.idle = nil
	}
}

// dropLocked forgets everything.
func (c *cleaner) dropLocked() {
	for _, d := range c.mu.todo {
		attemptIDs.drop(d.id)
	}
	c.mu.todo, c.mu.more = nil, nil
	c.restLocked()
}

// drop forgets everything, because the session is over.
func (c *cleaner) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked()
}

// await returns when nothing is left but what the server has refused to remove, so that a try does not find its own
// process's remains in its way. It returns early if ctx or the session ends, which the next request finds out.
func (c *cleaner) await(ctx context.Context) {
	c.mu.Lock()
	idle := c.mu.idle
	c.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-c.lock.s.Done():
	case <-ctx.Done():
	}
}

// The pause after a refusal, such as a changed ACL, doubles between these.
const (
	cleanerPauseMin = 100 * time.Millisecond
	cleanerPauseMax = 30 * time.Second
)

func (c *cleaner) run(ctx context.Context, more <-chan struct{}) {
	pause := cleanerPauseMin
	for {
		list := c.next()
		if len(list) == 0 {
			return
		}
		left, err := c.clean(ctx, list)
		refused := err != nil && !errors.Is(err, zk.ErrConnectionLoss)
		c.putBack(list, left, refused)
		switch {
		case c.lock.s.Err() != nil:
			c.drop()
			return
		case !refused:
			pause = cleanerPauseMin
			continue
		}
		c.lock.opt.Logger.Warn("cannot remove an abandoned lock node yet", "lock", c.lock.dir, "error", err, "retry in", pause)
		select {
		case <-time.After(pause):
			pause = min(2*pause, cleanerPauseMax)
		case <-more: // what is newer does not wait for what cannot be removed
		case <-ctx.Done():
			c.drop()
			return
		}
	}
}

// next takes the list. If it is empty, run ends, and add begins it anew.
func (c *cleaner) next() []leftovers {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := c.mu.todo
	c.mu.todo = nil
	if len(list) == 0 {
		c.mu.more = nil
	}
	return list
}

// putBack puts back what is left of a list.
func (c *cleaner) putBack(list, left []leftovers, refused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range left {
		attemptIDs.add(left[i].id)
		left[i].refused = left[i].refused || refused
	}
	for _, d := range list {
		attemptIDs.drop(d.id)
	}
	c.mu.todo = append(left, c.mu.todo...)
	c.restLocked()
}

// clean does what can be done for each of todo, and returns those that are left and an error that says why.
func (c *core) clean(ctx context.Context, todo []leftovers) (left []leftovers, err error) {
	var list []leftovers
	search := false
	for _, d := range todo {
		d.resolve(ctx)
		if failed := c.checkStray(ctx, &d); failed != nil {
			left, err = append(left, d), failed
			continue
		}
		list = append(list, d)
		search = search || d.unknown
	}
	var q queue.Queue
	var unseen error // why the queue is not known; what is known of nodes is enough to delete them
	if search {
		q, unseen = c.syncedQueue(ctx)
	}
	p := c.s.Pipeline()
	deletes := make([][]*client.Pending[struct{}], len(list))
	for i, d := range list {
		for _, node := range d.all(c.dir, q) {
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
func (d *leftovers) resolve(ctx context.Context) {
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
// carry the id in the queue.
func (d *leftovers) all(dir string, q queue.Queue) []string {
	all := slices.Clone(d.nodes)
	if d.unknown {
		for _, i := range q.Of(d.id) {
			if node := zk.Join(dir, q.Claims[i].Name); !slices.Contains(d.nodes, node) {
				all = append(all, node)
			}
		}
	}
	return all
}

// syncedQueue lists the directory behind a sync, so that everything that was applied before is seen.
func (c *core) syncedQueue(ctx context.Context) (queue.Queue, error) {
	p := c.s.Pipeline()
	p.Sync(c.dir)
	listed := c.list(p)
	p.Send(ctx)
	q, err := listed.result(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // no directory, no nodes
	}
	return q, err
}
