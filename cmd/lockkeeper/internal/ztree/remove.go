package ztree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Census is what is in a tree.
type Census struct {
	Nodes      int
	Bytes      int64
	Unreadable int     // znodes that cannot be read, or whose children cannot be listed
	Ephemerals []Owned // the first namesMax
	More       int     // ephemerals besides those
}

// An Owned is an ephemeral znode and its session.
type Owned struct {
	Path    string `json:"path"`
	Session string `json:"session"`
}

// namesMax is how many ephemerals a Census names.
const namesMax = 1000

// Count counts what is in a tree.
func Count(ctx context.Context, s *client.Session, root string) (Census, error) {
	var c Census
	unlisted := func(string) { c.Unreadable++ }
	err := Walk(ctx, s, root, WalkOptions{Skip: System(s, root), Unlisted: unlisted}, func(n *Node) error {
		c.Nodes++
		c.Bytes += int64(n.Stat.DataLength)
		switch {
		case n.Err != nil:
			c.Unreadable++
		case Ephemeral(&n.Stat) && len(c.Ephemerals) < namesMax:
			c.Ephemerals = append(c.Ephemerals, Owned{n.Path, fmt.Sprintf("0x%x", uint64(n.Stat.EphemeralOwner))})
		case Ephemeral(&n.Stat):
			c.More++
		}
		return nil
	})
	return c, err
}

// System returns what skips the servers' own znodes in a walk of all that there is. Below a chroot, /zookeeper is a znode of users.
func System(s *client.Session, root string) func(string) bool {
	return func(path string) bool { return root == "/" && bridge.ServerPath(s, path) == "/zookeeper" }
}

// A PartError says how far a piece of work on many znodes has come before it failed.
type PartError struct {
	Done int    // znodes
	Did  string // "deleted"
	Next string // how to go on
	Err  error
}

func (e *PartError) Error() string {
	if e.Done == 0 {
		known := ""
		if client.MaybeApplied(e.Err) {
			known = " that is known of"
		}
		return fmt.Sprintf("%v; nothing has been %s%s (%s)", e.Err, e.Did, known, e.Next)
	}
	return fmt.Sprintf("%v; znodes %s before that: %d (%s)", e.Err, e.Did, e.Done, e.Next)
}

// Unwrap returns the cause.
func (e *PartError) Unwrap() error { return e.Err }

// Remove deletes root and everything below it, children first, and returns how many znodes it has deleted. Of "/" it
// deletes what is below, and leaves /zookeeper. A znode that is gone already is none that it has deleted, and so is one
// whose answer was lost with a connection. It tells progress, which may be nil, how far it has come.
func Remove(ctx context.Context, s *client.Session, root string, progress func(done int)) (int, error) {
	deleted := 0
	asked := false // for the removal of all that there was, which may have been done without an answer
	for {
		var paths []string
		var unreadable error
		err := Walk(ctx, s, root, WalkOptions{Skip: System(s, root)}, func(n *Node) error {
			if n.Path != "/" {
				paths = append(paths, n.Path)
			}
			if n.Err != nil { // whether it has children is not known either
				unreadable = n.Err
			}
			return nil
		})
		if errors.Is(err, zk.ErrNoNode) && asked {
			return deleted, nil
		}
		if err == nil && len(paths) == 0 {
			return deleted, nil
		}
		before := deleted
		if err == nil {
			asked = true
			err = removeAll(ctx, s, paths, &deleted, progress)
		}
		switch {
		case err == nil && root != "/":
			return deleted, nil
		case err == nil:
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			err = reconnected(ctx, s)
			if err == nil {
				continue // what is left is found by looking again
			}
		case errors.Is(err, zk.ErrNotEmpty) && deleted > before: // children have been added meanwhile
			err = nil
		}
		if errors.Is(err, zk.ErrNotEmpty) && unreadable != nil {
			err = unreadable
		}
		if err != nil {
			if deleted == 0 {
				return 0, err
			}
			return deleted, &PartError{Done: deleted, Did: "deleted", Next: "the same command deletes the rest", Err: err}
		}
		if root == "/" && deleted == before {
			return deleted, nil
		}
	}
}

// removeAll deletes znodes, the last of paths first. The server works in the order of requests, so children go
// before their parents.
func removeAll(ctx context.Context, s *client.Session, paths []string, deleted *int, progress func(int)) error {
	var failed error
	for end := len(paths); end > 0 && failed == nil; {
		begin := max(end-requestsMax, 0)
		p := s.Pipeline()
		var pending []*client.Pending[struct{}]
		for i := end - 1; i >= begin; i-- {
			pending = append(pending, p.Delete(paths[i], zk.AnyVersion))
		}
		p.Send(ctx)
		for _, k := range pending {
			switch _, err := k.Wait(ctx); {
			case err == nil:
				*deleted++
			case errors.Is(err, zk.ErrNoNode):
			case failed == nil:
				failed = err
			}
		}
		if progress != nil {
			progress(*deleted)
		}
		end = begin
	}
	return failed
}

// A version is a znode as it was at one time. A znode that was deleted and made again is another one.
type version struct {
	path      string
	czxid     int64
	data, acl int32
}

func versionOf(path string, st *zk.Stat) version {
	return version{path, st.Czxid, st.Version, st.Aversion}
}

// removeVersions deletes znodes, the last first, as long as each is as it was, and returns how many it has deleted.
func removeVersions(ctx context.Context, s *client.Session, nodes []version, progress func(done int)) (int, error) {
	deleted := 0
	lost := false // the connection broke, and the last batch was deleted or not
	for end := len(nodes); end > 0; {
		begin, bytes := end, 0
		for begin > 0 && end-begin < requestsMax && bytes < bytesInMulti {
			begin--
			bytes += len(nodes[begin].path)
		}
		batch := nodes[begin:end]
		gone, err := unchanged(ctx, s, batch)
		if err != nil && !(lost && gone == len(batch)) {
			return deleted, err
		}
		if err == nil {
			ops := make([]client.Op, 0, len(batch))
			for _, v := range slices.Backward(batch) {
				ops = append(ops, client.OpDelete(v.path, v.data))
			}
			_, err := s.Multi(ctx, ops...)
			lost = errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil
			if lost {
				if err := reconnected(ctx, s); err != nil {
					return deleted, err
				}
				if err := s.AwaitWrites(ctx); err != nil {
					return deleted, err
				}
				continue
			}
			if err != nil {
				return deleted, err
			}
		}
		lost = false
		deleted += len(batch)
		end = begin
		if progress != nil {
			progress(deleted)
		}
	}
	return deleted, nil
}

// unchanged fails with ErrChanged if a znode is not as it was, and returns how many are gone.
func unchanged(ctx context.Context, s *client.Session, nodes []version) (gone int, err error) {
	var changed error
	err = Batches(ctx, s, nodes, requestsMax, func(p *client.Pipeline, v version) func() error {
		pending := p.Exists(v.path)
		return func() error {
			st, err := pending.Wait(ctx)
			there := !errors.Is(err, zk.ErrNoNode)
			switch {
			case err != nil && there:
				return err
			case !there:
				gone++
			}
			if changed == nil && (!there || versionOf(v.path, &st) != v) {
				changed = fmt.Errorf("move %s: %w", Escape(v.path), ErrChanged)
			}
			return nil
		}
	})
	return gone, cmp.Or(err, changed)
}
