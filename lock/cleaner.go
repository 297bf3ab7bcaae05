package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A cleaner removes what attempts and holds of one lock value have left. Each add has a goroutine of the session's, which
// tries until the nodes are known to be gone or the session is over. The end of the session removes all but a delay marker.
type cleaner struct {
	lock *lockBase
	mu   struct {
		sync.Mutex
		blocking int           // how many adds are neither removed nor refused
		idle     chan struct{} // closed when that falls to 0
	}
}

func (c *cleaner) add(d ownNodes) {
	attemptIDs.add(d.id)
	c.mu.Lock()
	if c.mu.blocking == 0 {
		c.mu.idle = make(chan struct{})
	}
	c.mu.blocking++
	c.mu.Unlock()
	unblock := sync.OnceFunc(c.unblock)
	done := func() { // removed, or gone with the session
		unblock()
		attemptIDs.drop(d.id)
	}
	removing := c.lock.s.Go(func(ctx context.Context) {
		defer done()
		c.remove(ctx, &d, unblock)
	})
	if !removing {
		done()
	}
}

// unblock notes that await need not wait for the nodes of one add, or not any more: they are gone, or the server has refused to
// remove them.
func (c *cleaner) unblock() {
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

// remove returns when d is gone, or the session over.
func (c *cleaner) remove(ctx context.Context, d *ownNodes, unblock func()) {
	pause := cleanerPauseMin
	for {
		if d.created != nil {
			d.awaitCreate(ctx)
		}
		if d.created != nil && ctx.Err() == nil { // its answer cannot be read
			d.created, d.unknown = nil, true
		}
		err := c.lock.algorithm.clean(ctx, d)
		switch {
		case err == nil, c.lock.s.Err() != nil:
			return
		case errors.Is(err, zk.ErrConnectionLoss): // the session paces its reconnects
			continue
		}
		unblock()
		c.lock.opt.Logger.Warn("cannot remove an abandoned lock node yet", "lock", c.lock.dir, "error", err, "retry in", pause)
		if !ending.Pause(ctx, pause) {
			return
		}
		pause = min(2*pause, cleanerPauseMax)
	}
}

// clean deletes the nodes that are known and, if there may be others, those that carry the id in the queue. If the listing fails,
// it deletes the known nodes and returns the error of the listing. A transaction goes ahead of the listing, which then shows
// everything that was applied before.
func (f *fairLock) clean(ctx context.Context, d *ownNodes) error {
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
		q, err := f.awaitQueue(ctx, listed)
		if !errors.Is(err, zk.ErrNoNode) { // no directory, no nodes
			failed = err
		}
		for _, i := range q.PlacesOf(d.id) {
			nodes = append(nodes, zk.Join(f.dir, q.Claims[i].Name))
		}
		p = f.s.Pipeline()
	}
	answers := deleteAll(p, nodes)
	p.Send(ctx)
	_, err := answers(ctx)
	return cmp.Or(err, failed)
}

// deleteAll adds the requests that delete nodes. The function that it returns waits for the answers, and returns the nodes that may
// still be there, with the last error.
func deleteAll(p *client.Pipeline, nodes []string) (answers func(context.Context) (left []string, failed error)) {
	deletes := make([]*client.Pending[struct{}], len(nodes))
	for i, node := range nodes {
		deletes[i] = p.Delete(node, zk.AnyVersion)
	}
	return func(ctx context.Context) (left []string, failed error) {
		for i, deleted := range deletes {
			if _, err := deleted.Wait(ctx); err != nil && !errors.Is(err, zk.ErrNoNode) {
				left, failed = append(left, nodes[i]), err
			}
		}
		return left, failed
	}
}
