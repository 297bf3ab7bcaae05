package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	treeBatch    = 256 // requests about the znodes of a subtree that are on their way at once
	deleteRounds = 20  // how often DeleteAll lists a subtree in which others keep creating znodes
)

// EnsurePath creates a persistent znode at path, and at every missing place above it. A znode that is there already is
// success, whatever it holds. A nil acl lets every client do anything.
func (s *Session) EnsurePath(ctx context.Context, path string, acl []zk.ACL) error {
	_, err := s.withParents(ctx, path, acl, func() (Created, error) { return Created{}, s.ensure(ctx, path, acl) })
	return err
}

// withParents calls create, which is to make the znode at path, and makes what is missing above it.
func (s *Session) withParents(ctx context.Context, path string, acl []zk.ACL, create func() (Created, error)) (Created, error) {
	for {
		made, err := create()
		if path == "/" || !errors.Is(err, zk.ErrNoNode) {
			return made, err
		}
		if err := s.EnsurePath(ctx, zk.Parent(path), acl); err != nil { // if it is deleted at once, all begins again
			return Created{}, err
		}
	}
}

// ensure creates one persistent znode, if it is missing.
func (s *Session) ensure(ctx context.Context, path string, acl []zk.ACL) error {
	if path == "/" {
		_, ok, err := s.Exists(ctx, path)
		if err == nil && !ok { // the chroot is missing
			err = &OpError{Op: "create", Path: path, Err: fmt.Errorf("the chroot %s is missing (a session without chroot can make it): %w", s.chroot, zk.ErrNoNode)}
		}
		return err
	}
	_, err := again(ctx, s, func(p *Pipeline) *Pending[Created] { return p.Create(path, nil, zk.Persistent, acl) })
	switch {
	case errors.Is(err, zk.ErrNodeExists):
		return nil
	case errors.Is(err, zk.ErrNoAuth):
		// The server checks the permission first: the znode may be there.
		if _, ok, lookErr := s.Exists(ctx, path); ok || lookErr != nil {
			return lookErr
		}
	}
	return err
}

// Put sets the data of the znode at path, and creates it, with what is missing above it, if it is not there. The ACL
// is for znodes that Put creates; nil lets every client do anything. The last of several writers wins; Update is for values
// that depend on what is there. A lost answer is resolved by writing again, so the version can grow by more than one.
func (s *Session) Put(ctx context.Context, path string, data []byte, acl []zk.ACL) (zk.Stat, error) {
	for doubt := false; ; {
		stat, err := again(ctx, s, func(p *Pipeline) *Pending[zk.Stat] { return p.Set(path, data, zk.AnyVersion) })
		if !errors.Is(err, zk.ErrNoNode) {
			return stat, withDoubt(err, doubt)
		}
		doubt = doubt || MaybeApplied(err)
		made, err := s.withParents(ctx, path, acl, func() (Created, error) { return s.Create(ctx, path, data, zk.Persistent, acl) })
		if !isConnectionLoss(err) && !errors.Is(err, zk.ErrNodeExists) {
			return made.Stat, withDoubt(err, doubt)
		}
		doubt = doubt || MaybeApplied(err)
	}
}

// Walk calls see for the znode at path and for every znode below it, parents before their children, level by level, and within a
// level in the order of their parents and then of their names. A znode that is deleted meanwhile is left out; one that is created
// meanwhile may be seen or not. If path itself is missing, the error is zk.ErrNoNode. An error of see ends the walk and is returned.
func (s *Session) Walk(ctx context.Context, path string, see func(path string, stat zk.Stat) error) error {
	level := []string{path}
	for depth := 0; len(level) > 0; depth++ {
		var next []string
		err := inBatches(ctx, s, level, (*Pipeline).Children, func(at string, l Listing, err error) error {
			if errors.Is(err, zk.ErrNoNode) && depth > 0 {
				return nil
			}
			if err != nil {
				return err
			}
			slices.Sort(l.Names)
			for _, name := range l.Names {
				next = append(next, zk.Join(at, name))
			}
			return see(at, l.Stat)
		})
		if err != nil {
			return err
		}
		level = next
	}
	return nil
}

// DeleteAll deletes the znode at path and everything below it, in batches, children before their parents. A znode that
// is missing is success. It is not one transaction: others see parts of it, and if it fails, a part is gone. When
// others keep creating znodes below path, it gives up after some rounds with zk.ErrNotEmpty.
func (s *Session) DeleteAll(ctx context.Context, path string) error {
	if path == "/" {
		return &OpError{Op: "delete all", Path: path, Err: &zk.PathError{Path: path, Reason: "is the root, which cannot be deleted"}}
	}
	var err error
	for range deleteRounds {
		var paths []string
		err = s.Walk(ctx, path, func(at string, _ zk.Stat) error {
			paths = append(paths, at)
			return nil
		})
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if err != nil {
			return err
		}
		slices.Reverse(paths)
		remove := func(p *Pipeline, at string) *Pending[struct{}] { return p.Delete(at, zk.AnyVersion) }
		err = inBatches(ctx, s, paths, remove, func(_ string, _ struct{}, err error) error {
			if errors.Is(err, zk.ErrNoNode) {
				return nil
			}
			return err
		})
		if !errors.Is(err, zk.ErrNotEmpty) {
			return err
		}
	}
	return err
}

// inBatches asks about each of paths, treeBatch of them at once, and hands the answers to take, in order. It repeats lost requests.
func inBatches[T any](ctx context.Context, s *Session, paths []string, ask func(*Pipeline, string) *Pending[T], take func(path string, v T, err error) error) error {
	for batch := range slices.Chunk(paths, treeBatch) {
		p := s.Pipeline()
		asked := make([]*Pending[T], len(batch))
		for i, at := range batch {
			asked[i] = ask(p, at)
		}
		p.Send(ctx)
		for i, at := range batch {
			v, err := asked[i].Wait(ctx)
			if isConnectionLoss(err) {
				doubt := MaybeApplied(err)
				v, err = again(ctx, s, func(p *Pipeline) *Pending[T] { return ask(p, at) })
				err = withDoubt(err, doubt)
			}
			if err := take(at, v, err); err != nil {
				return err
			}
		}
	}
	return nil
}
