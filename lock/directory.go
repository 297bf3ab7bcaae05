package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/zk"
)

// makeDirectory makes the lock's directory, a container where the server has them, or what is missing above it. That of a
// semaphore gets the number of permits. It competes with other contenders and with the removal of empty directories, so a nil
// error promises nothing: the caller's next create tells whether it was enough.
func (c *core) makeDirectory(ctx context.Context) error {
	if c.permits.varies() {
		return c.permits.agree(ctx, c, 0, false)
	}
	_, err := c.s.Create(ctx, c.dir, nil, zk.Container, c.opt.ParentACL)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return c.s.EnsurePath(ctx, zk.Parent(c.dir), c.opt.ParentACL)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: it may be there
		return c.s.EnsurePath(ctx, c.dir, c.opt.ParentACL)
	}
	return err
}
