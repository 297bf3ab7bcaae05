package lock

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// makeParents makes the directory of a lock, a container where the server has them, and what is missing
// above it. It competes with other contenders and with the removal of empty directories, so
// it takes nothing for granted: the next create tells whether it was enough.
func makeParents(ctx context.Context, s *client.Session, dir string, acl []zk.ACL) error {
	err := makeDirectory(ctx, s, dir, zk.Container, acl)
	if errors.Is(err, zk.ErrUnimplemented) {
		err = makeDirectory(ctx, s, dir, zk.Persistent, acl)
	}
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	parent := zk.Parent(dir)
	if parent == "/" {
		return err // "/" is there: it is the chroot that is missing
	}
	if err := makeAncestors(ctx, s, parent, acl); err != nil {
		return err
	}
	return nil // the caller's create comes back for the directory itself
}

// makeHome makes what is above a znode, to stay.
func makeHome(ctx context.Context, s *client.Session, path string, acl []zk.ACL) error {
	parent := zk.Parent(path)
	if parent == "/" {
		// "/" is there: it is the chroot that is missing
		_, _, err := s.Children(ctx, parent)
		return err
	}
	return makeAncestors(ctx, s, parent, acl)
}

// makeAncestors makes path and what is missing above it.
func makeAncestors(ctx context.Context, s *client.Session, path string, acl []zk.ACL) error {
	err := makeDirectory(ctx, s, path, zk.Persistent, acl)
	if !errors.Is(err, zk.ErrNoNode) || zk.Parent(path) == "/" {
		return err
	}
	if err := makeAncestors(ctx, s, zk.Parent(path), acl); err != nil {
		return err
	}
	return makeDirectory(ctx, s, path, zk.Persistent, acl)
}

// makeDirectory makes one znode. That it exists is success, and so is that we may not make it: perhaps
// it exists, and the next request finds out.
func makeDirectory(ctx context.Context, s *client.Session, path string, mode zk.Mode, acl []zk.ACL) error {
	for {
		_, err := s.Create(ctx, path, nil, mode, acl)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue // repeating it is harmless
		case errors.Is(err, zk.ErrNodeExists):
			return nil
		case errors.Is(err, zk.ErrNoAuth):
			if _, ok, lookErr := s.Exists(ctx, path); ok || lookErr != nil {
				return lookErr
			}
			return err
		}
		return err
	}
}
