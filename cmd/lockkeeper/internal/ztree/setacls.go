package ztree

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Paths returns the path of root and of all znodes below it, parents first. What skip, which may be nil, returns true of is left
// out. A znode that cannot be read is an error, because it may have children that are not known.
func Paths(ctx context.Context, s *client.Session, root string, skip func(path string) bool) (paths []string, err error) {
	err = Walk(ctx, s, root, WalkOptions{Skip: skip}, func(n *Node) error {
		paths = append(paths, n.Path)
		return n.Err
	})
	if err != nil {
		return nil, err
	}
	return paths, nil
}

// SetACLs gives root and all znodes below it an access control list, and returns how many have got it. It lists the whole tree
// before it changes anything, and changes children first, so that a list that shuts out this session shuts it out of nothing
// that is yet to be changed, and the same call goes on with what a failure has left.
func SetACLs(ctx context.Context, s *client.Session, root string, acl []zk.ACL) (done int, err error) {
	paths, err := Paths(ctx, s, root, System(s, root))
	if err != nil {
		return 0, err
	}
	for _, path := range slices.Backward(paths) {
		switch _, err := s.SetACL(ctx, path, acl, zk.AnyVersion); {
		case err == nil:
			done++
		case errors.Is(err, zk.ErrNoNode) && path != root: // deleted meanwhile
		case done == 0:
			return 0, err
		default:
			return done, &PartError{Done: done, Did: "changed", Next: "the same command goes on", Err: err}
		}
	}
	return done, nil
}
