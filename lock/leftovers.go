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
	id        queue.ID
	nodes     []string  // their paths, as far as they are known
	token     int64     // creation zxid of the node, of an unfair lock; 0 if unknown
	created   *creation // a create that is still under way, if any
	unknown   bool      // there may be others: look for the id
	stray     bool      // there is one node; it is removed only if it is the session's
	unblocked bool      // no try waits for the removal any more: it is done, or the server has refused it
}

// A cleaner removes what attempts and holds of one lock value have left. Each leftovers has a goroutine of the session's, which
// tries until the nodes are known to be gone or the session is over. The end of the session removes all but a delay marker.
type cleaner struct {
	lock  *lockBase
	clean func(context.Context, *leftovers) error // removes what an attempt or a hold has left
	mu    struct {
		sync.Mutex
		blocking int           // how much is left that has not been refused
		idle     chan struct{} // closed when that falls to 0
	}
}

func (c *cleaner) add(d leftovers) {
	attemptIDs.add(d.id)
	c.mu.Lock()
	if c.mu.blocking == 0 {
		c.mu.idle = make(chan struct{})
	}
	c.mu.blocking++
	c.mu.Unlock()
	if !c.lock.s.Go(func(ctx context.Context) { c.run(ctx, &d) }) {
		c.done(&d) // the session is over, and its ephemeral znodes with it
	}
}

// done forgets what has been removed, or has gone with the session.
func (c *cleaner) done(d *leftovers) {
	c.stopBlocking(d)
	attemptIDs.drop(d.id)
}

// stopBlocking notes that await need not wait for d, or not any more.
func (c *cleaner) stopBlocking(d *leftovers) {
	if d.unblocked {
		return
	}
	d.unblocked = true
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.blocking--
	if c.mu.blocking == 0 {
		close(c.mu.idle)
	}
}

// await returns when nothing is left but what the server has refused to remove, so that a try does not find its own
// process's remains in its way. It returns early if ctx or the session ends, which the next request finds out.
func (c *cleaner) await(ctx context.Context) {
	c.mu.Lock()
	idle, blocking := c.mu.idle, c.mu.blocking
	c.mu.Unlock()
	if blocking == 0 {
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

func (c *cleaner) run(ctx context.Context, d *leftovers) {
	defer c.done(d)
	pause := cleanerPauseMin
	for {
		d.awaitCreate(ctx)
		err := c.clean(ctx, d)
		switch {
		case err == nil, c.lock.s.Err() != nil:
			return
		case errors.Is(err, zk.ErrConnectionLoss): // the session paces its reconnects
			continue
		}
		c.stopBlocking(d)
		c.lock.opt.Logger.Warn("cannot remove an abandoned lock node yet", "lock", c.lock.dir, "error", err, "retry in", pause)
		select {
		case <-time.After(pause):
			pause = min(2*pause, cleanerPauseMax)
		case <-ctx.Done():
			return
		}
	}
}

// clean deletes the nodes that are known and, if there may be others, those that carry the id in the queue. If the listing fails,
// it deletes the known nodes and returns the error of the listing. A transaction goes ahead of the listing, which then shows
// everything that was applied before.
func (f *fairLock) clean(ctx context.Context, d *leftovers) error {
	if err := f.checkStray(ctx, d); err != nil {
		return err
	}
	p := f.s.Pipeline()
	nodes := slices.Clone(d.nodes)
	var failed error
	if d.unknown {
		p.AwaitWrites()
		listed := p.Children(f.dir)
		p.Send(ctx)
		q, err := f.queueOf(ctx, listed)
		if !errors.Is(err, zk.ErrNoNode) { // no directory, no nodes
			failed = err
		}
		for _, i := range q.Of(d.id) {
			nodes = append(nodes, zk.Join(f.dir, q.Claims[i].Name))
		}
		p = f.s.Pipeline()
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

// awaitCreate waits for the outcome of a create that is under way. It comes, or the connection ends: both
// complete it.
func (d *leftovers) awaitCreate(ctx context.Context) {
	if d.created == nil {
		return
	}
	nodes, czxid, err := d.created.await(ctx)
	switch {
	case err == nil: // there are no others: an attempt creates again only once it knows what became of the create before
		d.nodes, d.token, d.created, d.unknown = nodes, czxid, nil, false
	case ctx.Err() == nil:
		d.unknown = d.unknown || client.MaybeApplied(err)
		d.created = nil
	}
}
