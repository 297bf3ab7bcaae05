package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Downgrade turns a hold of the write side of an RWMutex into one of the read side, with no instant in
// between in which another contender could get in: one transaction makes a read node with the number of the
// write node, which keeps the place in the queue, and deletes the write node. The hold, its context and its
// token stay as they are. Readers behind it are granted.
//
// It must be the only hold of its node: otherwise the error is ErrNotWriter, as it is for any hold but that of a write side.
// Downgrade returns when the outcome is known. If ctx ends before that, the error is ErrDowngradeUnknown: the hold is good for
// reading in any case, and Downgrade can be called again. If ctx ends before anything is sent, the error is that of ctx, and
// the hold is what it was. If the hold ends before the outcome is known, errors.Is finds its Cause.
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
	if !g.downgrading.TryLock() {
		return ErrNotWriter
	}
	defer g.downgrading.Unlock()
	g.checkDeadline()
	write, read, err := g.beginDowngrade(h)
	if err != nil || read == "" {
		return err
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(h.ctx, func() { cancel(context.Cause(h.ctx)) })
	defer stop()
	known, err := g.replace(work, write, read, g.downgradeOpen)
	g.downgradeOpen = !known
	switch {
	case err == nil:
		g.noteMoved(read)
		return nil
	case known: // the node is the write node
		g.mu.Lock()
		if g.mu.next != "" {
			g.mu.next, g.mu.kind = "", queue.Exclusive
		}
		g.mu.Unlock()
		if errors.Is(err, zk.ErrNoNode) { // neither the write node nor the read node is there
			g.lose(ErrNodeDeleted)
		}
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ErrDowngradeUnknown, endOf(ctx, g.s))
	default:
		err = fmt.Errorf("%w: %w", ErrDowngradeUnknown, err)
	}
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	return err
}

// beginDowngrade returns the path of the write node and that of the read node to be. If an earlier downgrade, of unknown outcome,
// has succeeded, the second is empty and nothing is left to do. From then on the claim counts as a shared one.
func (g *grant) beginDowngrade(h *Hold) (write, read string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if h.ctx.Err() != nil {
		return "", "", context.Cause(h.ctx)
	}
	if g.downgradeOpen && g.mu.next == "" { // the guard has found the read node
		g.downgradeOpen = false
		return "", "", nil
	}
	if !g.lock.rules.Moves() || len(g.mu.holds) > 1 || g.mu.kind != queue.Exclusive && !g.downgradeOpen {
		return "", "", ErrNotWriter
	}
	write = g.mu.node
	number, _, _ := queue.ParseName(zk.Base(write))
	read = zk.Join(g.lock.dir, fmt.Sprintf("%s%010d", g.id.Prefix(queue.ReadWord), number))
	g.mu.next, g.mu.kind = read, queue.Shared
	return write, read, nil
}

// replace puts a read node in the place of the write node. known reports whether the outcome is known: without an error it is done,
// with one it is not. look has it find out first whether that has been done already.
func (g *grant) replace(ctx context.Context, write, read string, look bool) (known bool, err error) {
	data := g.lock.data
	version := int32(0) // of the write node: what is written there has to be read before it goes
	for {
		if look {
			err := g.s.AwaitWrites(ctx)
			done := false
			if err == nil {
				_, done, err = g.s.Exists(ctx, read)
			}
			if done || err != nil {
				return done, err
			}
		}
		_, err := g.s.Multi(ctx,
			client.OpCreate(read, data, zk.Ephemeral, g.lock.opt.ACL),
			client.OpDelete(write, version))
		switch {
		case err == nil:
			return true, nil
		case client.MaybeApplied(err):
			look = true
			continue
		case !errors.Is(err, zk.ErrBadVersion):
			return true, err
		}
		look = false
		said, stat, err := g.s.Get(ctx, write)
		if err != nil {
			return true, err
		}
		version = stat.Version
		if queue.Revoked(said) {
			g.askToGiveUp()
			data = queue.Revocation(data)
		}
	}
}
