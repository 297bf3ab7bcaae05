package lock

import (
	"context"
	"slices"

	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
)

// A heldChain is the chain of holds that code works under, newest first. It travels in the contexts of holds. The claim of
// a waiter names it (queue.Record.Under), so that cycles of waits can be found.
type heldChain struct {
	g     *grant
	outer *heldChain
}

// heldChainKey is the key under which a context carries its heldChain.
type heldChainKey struct{}

func heldChainOf(ctx context.Context) *heldChain {
	l, _ := ctx.Value(heldChainKey{}).(*heldChain)
	return l
}

// withHold returns ctx with what code under the grant needs: for re-entering, and for the chain of holds.
func (g *grant) withHold(ctx context.Context) context.Context {
	return context.WithValue(ctx, heldChainKey{}, &heldChain{g, heldChainOf(ctx)})
}

// before returns the chain with the other one behind it, unless that is its end already.
func (c *heldChain) before(other *heldChain) *heldChain {
	if c == nil || c == other {
		return other
	}
	return &heldChain{c.g, c.outer.before(other)}
}

// of returns the newest grant of a lock in the chain, nil if there is none. Each of several queues of one directory is a lock of its own.
func (c *heldChain) of(b *lockBase) *grant {
	for ; c != nil; c = c.outer {
		if l := c.g.lock; l.s == b.s && l.dir == b.dir && l.rules.Heeds == b.rules.Heeds {
			return c.g
		}
	}
	return nil
}

// holdIDs returns the ids of those holds that have not ended.
func (c *heldChain) holdIDs() []string {
	var ids []string
	for ; c != nil && len(ids) < queue.UnderMax; c = c.outer {
		if id := c.g.id.HoldID(c.g.lock.dir); !c.g.hasEnded() && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// reenter returns another hold of the node whose hold ctx derives from; nil if there is none, and the queue is to be joined. It refuses
// to re-enter without Options.Reentrant, and always the write side under a hold of the read side, which could never be granted.
func (b *lockBase) reenter(ctx context.Context, try bool) (*Hold, error) {
	g := heldChainOf(ctx).of(b)
	if g == nil || !b.rules.Reenters() {
		return nil, nil
	}
	g.checkDeadline()                                                        // it may have passed while the machine was suspended
	under, ended := g.withHold(context.WithoutCancel(ctx)), ctx.Err() != nil // methods of ctx may be the user's, and ask a hold
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case ended || len(g.mu.holds) == 0:
		return nil, nil
	case g.mu.mode == queue.Shared && b.rules.Mode == queue.Exclusive:
		return nil, &LockError{b.op(try), b.path, ErrUpgrade}
	case !b.opt.Reentrant:
		return nil, &LockError{b.op(try), b.path, ErrReentered}
	}
	return g.holdLocked(under), nil
}
