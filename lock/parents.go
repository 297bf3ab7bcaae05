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
	err := makeOne(ctx, s, dir, zk.Container, acl)
	if errors.Is(err, zk.ErrUnimplemented) {
		err = makeOne(ctx, s, dir, zk.Persistent, acl)
	}
	if errors.Is(err, zk.ErrNoNode) {
		return s.EnsurePath(ctx, zk.Parent(dir), acl)
	}
	return err
}

// makeOne makes one znode. That it exists is success.
func makeOne(ctx context.Context, s *client.Session, path string, mode zk.Mode, acl []zk.ACL) error {
	for {
		_, err := s.Create(ctx, path, nil, mode, acl)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue // repeating it is harmless
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoAuth): // which the server looks at first: the znode may be there
			if _, ok, lookErr := s.Exists(ctx, path); ok || lookErr != nil {
				return lookErr
			}
		}
		return err
	}
}
