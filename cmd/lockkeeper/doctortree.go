package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
)

// The limits of a walk for doctor.
const (
	deepZnodesMax = 100_000
	deepTimeout   = 30 * time.Second
	deepListedMax = 20_000 // children of a znode that is listed; the listing of more may be beyond jute.maxbuffer
	deepShown     = 20     // of the largest and of the widest
)

// errDeepEnough ends a walk.
var errDeepEnough = fmt.Errorf("%d znodes are the most that it looks at", deepZnodesMax)

// surveyTree looks for the largest and the widest znodes, within limits. What may not be read is left out.
func surveyTree(ctx context.Context, s *client.Session) *doctor.Tree {
	t := &doctor.Tree{Root: "/"}
	widest := ranking{max: deepShown, of: func(n *ztree.Node) int32 { return n.Stat.NumChildren }}
	largest := ranking{max: deepShown, of: func(n *ztree.Node) int32 { return n.Stat.DataLength }}
	ctx, cancel := context.WithTimeoutCause(ctx, deepTimeout, fmt.Errorf("%v are over", deepTimeout))
	defer cancel()
	unreadable := func(string, error) error { return nil }
	err := ztree.Walk(ctx, s, t.Root, ztree.WalkOptions{Unlisted: unreadable}, func(n *ztree.Node) error {
		if t.Znodes == deepZnodesMax {
			return errDeepEnough
		}
		t.Znodes++
		widest.add(n)
		largest.add(n)
		if n.Stat.NumChildren > deepListedMax {
			t.Skipped = append(t.Skipped, ztree.Escape(n.Path))
			return ztree.ErrSkipChildren
		}
		return nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		t.Stopped = context.Cause(ctx).Error()
	case err != nil:
		t.Stopped = err.Error()
	}
	t.Largest, t.Widest = znodes(largest), znodes(widest)
	return t
}

// znodes returns what a ranking has found, for doctor.
func znodes(r ranking) (all []doctor.Znode) {
	for _, n := range r.nodes {
		all = append(all, doctor.Znode{Path: ztree.Escape(n.Path), Bytes: int(n.Stat.DataLength), Children: int(n.Stat.NumChildren)})
	}
	return all
}
