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
	clean func(context.Context, *leftovers) error // removes what an attempt or a hold has left
	mu    struct {
		sync.Mutex
		todo []leftovers
		more chan struct{} // add → run: there is more to do; one token is enough; nil while run is not running
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
		var left []leftovers
		var refusal error
		for _, d := range list {
			d.resolve(ctx)
			err := c.clean(ctx, &d)
			if err == nil {
				attemptIDs.drop(d.id)
				continue
			}
			if !errors.Is(err, zk.ErrConnectionLoss) {
				d.refused, refusal = true, err
			}
			left = append(left, d)
		}
		c.putBack(left)
		switch {
		case c.lock.s.Err() != nil:
			c.drop()
			return
		case refusal == nil:
			pause = cleanerPauseMin
			continue
		}
		c.lock.opt.Logger.Warn("cannot remove an abandoned lock node yet", "lock", c.lock.dir, "error", refusal, "retry in", pause)
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

func (c *cleaner) putBack(left []leftovers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.todo = append(left, c.mu.todo...)
	c.restLocked()
}

// clean deletes the nodes that are known and, if there may be others, those that carry the id in the queue. If the
// listing fails, it deletes the known nodes and returns the error of the listing. A sync goes ahead of the listing, which then
// shows everything that was applied before.
func (c *core) clean(ctx context.Context, d *leftovers) error {
	if err := c.checkStray(ctx, d); err != nil {
		return err
	}
	p := c.s.Pipeline()
	nodes := slices.Clone(d.nodes)
	var failed error
	if d.unknown {
		p.Sync(c.dir)
		listed := c.list(p)
		p.Send(ctx)
		q, err := listed.result(ctx)
		if !errors.Is(err, zk.ErrNoNode) { // no directory, no nodes
			failed = err
		}
		for _, i := range q.Of(d.id) {
			nodes = append(nodes, zk.Join(c.dir, q.Claims[i].Name))
		}
		p = c.s.Pipeline()
	}
	deletes := make([]*client.Pending[struct{}], len(nodes))
	for i, node := range nodes {
		deletes[i] = p.Delete(node, -1)
	}
	p.Send(ctx)
	for _, k := range deletes {
		if _, err := k.Wait(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
			failed = err
		}
	}
	return failed
}

// resolve waits for the outcome of a create that is under way. It comes, or the connection ends: both
// complete it.
func (d *leftovers) resolve(ctx context.Context) {
	if d.created == nil {
		return
	}
	nodes, czxid, err := d.created.wait(ctx)
	switch {
	case err == nil: // there are no others: an attempt creates again only once it knows what became of the create before
		d.nodes, d.token, d.created, d.unknown = nodes, czxid, nil, false
	case ctx.Err() == nil:
		d.unknown = d.unknown || client.MaybeApplied(err)
		d.created = nil
	}
}
