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

// deepLimits bound a walk for doctor.
type deepLimits struct {
	znodes, listed int // listed is how many children a znode may have that is listed
	time           time.Duration
}

// deepDefault is for any ensemble. The listing of more children may be beyond jute.maxbuffer.
var deepDefault = deepLimits{znodes: 100_000, listed: 20_000, time: 30 * time.Second}

// deepShown is how many of the largest and of the widest are kept.
const deepShown = 20

// errDeepEnough ends a walk.
var errDeepEnough = errors.New("it looks at no more")

// surveyTree looks for the largest and the widest znodes, within limits. What may not be read is left out.
func surveyTree(ctx context.Context, s *client.Session, limits deepLimits) *doctor.Tree {
	t := &doctor.Tree{Root: "/"}
	widest := ranking{max: deepShown, of: func(n *ztree.Node) int32 { return n.Stat.NumChildren }}
	largest := ranking{max: deepShown, of: func(n *ztree.Node) int32 { return n.Stat.DataLength }}
	ctx, cancel := context.WithTimeoutCause(ctx, limits.time, fmt.Errorf("%v are over", limits.time))
	defer cancel()
	unreadable := func(string) {}
	err := ztree.Walk(ctx, s, t.Root, ztree.WalkOptions{Unlisted: unreadable}, func(n *ztree.Node) error {
		if t.Znodes == limits.znodes {
			return errDeepEnough
		}
		t.Znodes++
		widest.add(n)
		largest.add(n)
		if int(n.Stat.NumChildren) > limits.listed {
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
