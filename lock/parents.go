package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// makeLockDirectory makes the directory of a lock, a container where the server has them, or what is missing above it. It
// competes with other contenders and with the removal of empty directories, so a nil error promises nothing: the caller's
// next create tells whether it was enough.
func makeLockDirectory(ctx context.Context, s *client.Session, dir string, acl []zk.ACL) error {
	_, err := s.Create(ctx, dir, nil, zk.Container, acl)
	switch {
	case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss):
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return s.EnsurePath(ctx, zk.Parent(dir), acl)
	case errors.Is(err, zk.ErrUnimplemented), errors.Is(err, zk.ErrNoAuth): // refused before the server looks: dir may be there
		return s.EnsurePath(ctx, dir, acl)
	}
	return err
}
