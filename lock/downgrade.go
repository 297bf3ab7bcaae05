package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Downgrade turns a hold of the write side of an RWMutex into one of the read side, with no instant in
// between in which somebody else could get in: one transaction makes a read node with the number of the
// write node, which keeps the place in line, and deletes the write node. The hold, its context and its
// token stay as they are. Readers behind it are granted.
//
// It must be the only hold of its node: otherwise the error is ErrNotWriter, as it is for any hold but
// that of a write side. If ctx or the hold ends first, the downgrade goes on in the background; a hold that
// lasts is good for reading either way.
func (h *Hold) Downgrade(ctx context.Context) error { return h.g.claim.downgrade(ctx, h) }

// downgrade is Hold.Downgrade.
func (g *place) downgrade(ctx context.Context, h *Hold) error {
	g.check()
	g.mu.Lock()
	_, ours := g.mu.holds[h]
	switch {
	case g.mu.holds == nil || !ours:
		g.mu.Unlock()
		<-h.ctx.Done() // it ends just now
		return context.Cause(h.ctx)
	case g.e.recipe != &queue.WriteRules || g.mu.kind != queue.Exclusive || len(g.mu.holds) > 1 || g.mu.moving != nil:
		g.mu.Unlock()
		return &LockError{"downgrade", g.e.dir, ErrNotWriter}
	}
	g.mu.moving = make(chan struct{})
	g.mu.Unlock()
	outcome := make(chan error, 1)
	if !g.s.Go(func(ctx context.Context) { outcome <- g.replace(ctx) }) {
		g.moved("")
		return g.s.Err()
	}
	select {
	case err := <-outcome:
		return err
	case <-h.ctx.Done():
		return &LockError{"downgrade", g.e.dir, context.Cause(h.ctx)}
	case <-ctx.Done():
		return &LockError{"downgrade", g.e.dir, ending.Of(ctx)}
	}
}

// replace has a read node take the place of the write node, and finds out whether it did.
func (g *place) replace(ctx context.Context) (err error) {
	write := g.at()
	number, _, _ := queue.ParseName(zk.Base(write))
	read := zk.Join(g.e.dir, fmt.Sprintf("%s%010d", g.id.Prefix(queue.ReadWord), number))
	data := g.e.nodeData(queue.Record{})
	defer func() {
		if err != nil {
			read = ""
		}
		g.moved(read)
	}()
	version := int32(0) // of the write node: what is written there has to be read before it goes
	for {
		_, err := g.s.Multi(ctx,
			client.OpCreate(read, data, zk.Ephemeral, g.e.opt.ACL),
			client.OpDelete(write, version))
		if err == nil {
			return nil
		}
		if errors.Is(err, zk.ErrBadVersion) {
			said, stat, err := g.s.Get(ctx, write)
			if err != nil {
				return &LockError{"downgrade", g.e.dir, err}
			}
			version = stat.Version
			if queue.Revoked(said) {
				g.asked()
				data = queue.Revocation(data)
			}
			continue
		}
		if !client.MaybeApplied(err) && !errors.Is(err, zk.ErrConnectionLoss) {
			return &LockError{"downgrade", g.e.dir, err}
		}
		names, err := g.names(ctx)
		if err != nil {
			return &LockError{"downgrade", g.e.dir, err}
		}
		if names[zk.Base(read)] {
			return nil
		}
	}
}

// names lists the directory behind a sync, so that the outcome of whatever was sent before is seen.
func (g *place) names(ctx context.Context) (map[string]bool, error) {
	if err := g.s.Sync(ctx, g.e.dir); err != nil {
		return nil, err
	}
	list, _, err := g.s.Children(ctx, g.e.dir)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(list))
	for _, n := range list {
		names[n] = true
	}
	return names, nil
}

// moved ends the moving: node has taken the place of the grant's node, or none has if it is empty.
func (g *grant) moved(node string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if node != "" {
		g.mu.node, g.mu.kind = node, queue.Shared
	}
	close(g.mu.moving)
	g.mu.moving = nil
}

// awaitMove waits until it is decided which node is the grant's.
func (g *grant) awaitMove(ctx context.Context) error {
	_, moving := g.whereabouts()
	if moving == nil {
		return nil
	}
	select {
	case <-moving:
		return nil
	case <-ctx.Done():
		return ending.Of(ctx)
	}
}
