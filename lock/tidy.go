package lock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Readers pass by what readers have left, and whoever writes removes it. Where nobody does, it would pile up. So a
// reader that finds several seals without claims puts one in their place, in one transaction, and deletes one
// that it has known for DelayMax: since then no writer has had to wait for it.
//
// The new seal asks for the longest of their delays, and has a name that nobody has seen, so whoever has known
// one of the old ones for a while begins anew. None of the old ones could stand for the others: a writer counts for
// each from when it noticed it, and which of their holders was the last to end is written nowhere.

// A passed is what an entrance knows of the seals that its readers pass by.
type passed struct {
	noticed noticed
	refused atomic.Bool // we may not put them in order, or do not understand them
}

// tidyMax is how many seals are put into one, or deleted, at a time.
const tidyMax = 100

// tidy puts in order what readers have left, as a listing shows it. Nothing depends on the outcome: what is
// left is there for the next one.
func (e *entrance) tidy(ctx context.Context, names []string) {
	left := sharedOrphans(names)
	var over []string
	for i, known := range e.passed.noticed.update(left) {
		if known >= DelayMax {
			over = append(over, left[i])
		}
	}
	if e.passed.refused.Load() {
		return
	}
	left = slices.DeleteFunc(left, func(name string) bool { return slices.Contains(over, name) })
	var err error
	switch {
	case len(over) > 0:
		err = e.replace(ctx, over[:min(len(over), tidyMax)], 0)
	case len(left) > 1:
		err = e.merge(ctx, left[:min(len(left), tidyMax)])
	}
	switch {
	case err == nil, ctx.Err() != nil, e.s.Err() != nil:
	case errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrConnectionLoss): // another was faster, or comes next
	default:
		e.passed.refused.Store(true)
		e.opt.Logger.Warn("cannot put in order what lost holds of readers left", "lock", e.dir, "error", err)
	}
}

// errNoDelay: a seal does not say for how long.
var errNoDelay = errors.New("a seal does not tell its delay")

// merge puts one seal in the place of several.
func (e *entrance) merge(ctx context.Context, seals []string) error {
	p := e.s.Pipeline()
	reads := make([]*client.Pending[client.Node], len(seals))
	for i, name := range seals {
		reads[i] = p.Get(zk.Join(e.dir, name))
	}
	p.Send(ctx)
	longest := time.Duration(0)
	for _, k := range reads {
		node, err := k.Wait(ctx)
		if err != nil {
			return err
		}
		delay := delayOf(node.Data, 0)
		if delay == 0 {
			return errNoDelay
		}
		longest = max(longest, delay)
	}
	return e.replace(ctx, seals, longest)
}

// replace deletes seals, all or none, and makes a new one in their place unless delay is 0.
func (e *entrance) replace(ctx context.Context, seals []string, delay time.Duration) error {
	var ops []client.Op
	if delay > 0 {
		name := newAttemptID().sealName(shared)
		ops = append(ops, client.OpCreate(zk.Join(e.dir, name), encodeSeal(delay), zk.Persistent, e.opt.ACL))
	}
	for _, name := range seals {
		ops = append(ops, client.OpDelete(zk.Join(e.dir, name), -1))
	}
	_, err := e.s.Multi(ctx, ops...)
	return err
}
