package lock

import (
	"context"
	"errors"
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

func (c *cleaner) add(left ownNodes) {
	attemptIDs.add(left.id)
	c.mu.Lock()
	if c.mu.blocking == 0 {
		c.mu.idle = make(chan struct{})
	}
	c.mu.blocking++
	c.mu.Unlock()
	unblock := sync.OnceFunc(c.unblock)
	done := func() { // removed, or gone with the session
		unblock()
		attemptIDs.drop(left.id)
	}
	removing := c.lock.s.Go(func(ctx context.Context) {
		defer done()
		c.remove(ctx, &left, unblock)
	})
	if !removing {
		done()
	}
}

// unblock notes that await need not wait for the nodes of one add: they are gone, or the server has refused to remove them.
func (c *cleaner) unblock() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.blocking--
	if c.mu.blocking == 0 {
		close(c.mu.idle)
	}
}

// await returns when nothing is left but what the server has refused to remove, so that what its own process has left is neither in
// the way of a try nor counts against Options.QueueMax. It returns early if ctx or the session ends, which the next request finds out.
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

// remove returns when left is gone, or the session over.
func (c *cleaner) remove(ctx context.Context, left *ownNodes, unblock func()) {
	pause := cleanerPauseMin
	for {
		if left.created != nil {
			left.awaitCreate(ctx)
		}
		if left.created != nil && ctx.Err() == nil { // its answer cannot be read
			left.created, left.unknown = nil, true
		}
		err := c.lock.algorithm.clean(ctx, left)
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

// deleteAll adds the requests that delete nodes. answers waits for what came of them: the nodes that may still be there, the last error.
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
