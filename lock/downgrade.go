package lock

import (
	"cmp"
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Downgrade turns a hold of the write side of an RWMutex into one of the read side, with no instant in between in which another
// contender could get in: one transaction makes a read node with the number of the write node, which keeps the place in the queue,
// and deletes the write node. The hold, its context and its token stay as they are. Readers behind it are granted.
//
// It must be the only hold of its node, of a write side that is not downgraded yet: otherwise the error is ErrNotWriter. If ctx ends
// before the request has left, the error is that of ctx, and the hold is what it was. Once it has left, Downgrade returns when the
// outcome is known, whatever ctx: at the latest when the lock is lost, or all its holds are released. errors.Is finds the Cause then.
func (h *Hold) Downgrade(ctx context.Context) error {
	if h.isZero() {
		return errNoHold
	}
	_ = ctx.Err() // a nil context panics before anything has begun
	if err := h.g.downgrade(ctx, h); err != nil {
		return &LockError{"downgrade", h.g.lock.path, err}
	}
	return nil
}

func (g *grant) downgrade(ctx context.Context, h *Hold) error {
	g.checkDeadline()
	held, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	write, read, err := g.beginDowngrade(h, stop)
	if err != nil {
		return err
	}
	known, err := g.replace(ctx, held, write, read)
	switch {
	case err == nil:
		g.noteMoved(read)
		return nil
	case known:
		g.mu.Lock()
		g.mu.readNode, g.mu.mode = "", queue.Exclusive
		g.mu.Unlock()
		if errors.Is(err, zk.ErrNoNode) { // neither the write node nor the read node is there
			g.lose(ErrNodeDeleted)
		}
	}
	return cmp.Or(h.Cause(), err) // the session's end may be known sooner than the hold's
}

// beginDowngrade returns the paths of the write node and the read node to be. The claim is shared then, and the grant's end calls stop.
func (g *grant) beginDowngrade(h *Hold, stop context.CancelCauseFunc) (write, read string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case h.ctx.Err() != nil:
		return "", "", context.Cause(h.ctx)
	case !g.lock.rules.Moves() || len(g.mu.holds) > 1 || g.mu.mode != queue.Exclusive:
		return "", "", ErrNotWriter
	}
	write = g.mu.node
	read, _ = queue.Downgraded(write)
	g.mu.readNode, g.mu.mode, g.mu.stopDowngrade = read, queue.Shared, stop
	return write, read, nil
}

// replace puts a read node in the place of the write node. known reports whether the outcome is certain: done without an error, and not
// done with one. held ends with the grant: under it the outcome of a request whose answer did not come is looked up.
func (g *grant) replace(ctx, held context.Context, write, read string) (known bool, err error) {
	ctx, stop := ending.Either(ctx, held)
	defer stop()
	data := g.lock.data
	version := int32(0) // of the write node: what is written there has to be read before it goes
	for {
		_, err := g.s.Multi(ctx,
			client.OpCreate(read, data, zk.Ephemeral, g.lock.opt.ACL),
			client.OpDelete(write, version))
		switch {
		case client.MaybeApplied(err):
			err := g.s.AwaitWrites(held)
			done := false
			if err == nil {
				_, done, err = g.s.Exists(held, read)
			}
			if done || err != nil {
				return done, err
			}
		case errors.Is(err, zk.ErrBadVersion):
			said, stat, err := g.s.Get(ctx, write)
			if err != nil {
				return true, err
			}
			version = stat.Version
			if queue.Revoked(said) {
				g.askToGiveUp()
				data = queue.Revocation(data)
			}
		default:
			return true, err
		}
	}
}
