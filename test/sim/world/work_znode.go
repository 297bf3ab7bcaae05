package world

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/test/sim/model"
	"github.com/lockkeeper/lockkeeper/zk"
)

// runPresent makes an ephemeral node, which must be there as long as its session lives, and no longer.
func runPresent(w *World, s Step) {
	p, path := w.procs[s.Who], fmt.Sprint("/present", s.ID)
	ctx, cancel := context.WithTimeout(context.Background(), s.For)
	defer cancel()
	cs, err := p.open(ctx)
	if err != nil {
		return
	}
	_, err = cs.Create(ctx, path, nil, zk.Ephemeral, nil)
	for err == nil {
		select {
		case <-time.After(s.For / 8):
		case <-cs.Done():
		}
		var there bool
		if _, there, err = cs.Exists(ctx, path); err == nil && !there {
			// It is gone, and so is the session; the server may be about to say so.
			if cs.Sync(ctx, path) == nil {
				w.violated("F20: session %v of p%d lives, and its ephemeral %s is gone", cs, s.Who, path)
			}
			break
		}
	}
	w.note(s.Who, "#%d was present: %v", s.ID, err)
}

// znodeOps are what a step does, by its N; * may be repeated to make it more likely.
var znodeOps = []string{"create", "create", "delete", "set", "set", "setversion", "get", "get", "get", "multi"}

func planZnode(d *dice, s *Step) {
	s.Key = d.IntN(model.Slots)
	s.N = d.IntN(len(znodeOps))
	s.Wait = d.upTo(200*time.Millisecond, 5*time.Second)
}

func znodeOf(slot int) string { return fmt.Sprint("/znode", slot) }

// runZnode does something to znodes that no process owns, and notes what came of it.
func runZnode(w *World, s Step) {
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	p := w.procs[s.Who]
	cs, err := p.open(ctx)
	if err != nil {
		return
	}
	step := model.ZnodeStep{{Op: znodeOps[s.N], Slot: s.Key, Value: s.ID, Version: -1}}
	path, other := znodeOf(s.Key), (s.Key+1)%model.Slots
	data := strconv.AppendInt(nil, int64(s.ID), 10)
	var answer model.ZnodeAnswer
	call := w.now()
	switch step[0].Op {
	case "create":
		_, err = cs.Create(ctx, path, data, zk.Persistent, nil)
	case "delete":
		err = cs.Delete(ctx, path, -1)
	case "set":
		_, err = cs.Set(ctx, path, data, -1)
	case "setversion":
		step[0].Op, step[0].Version = "set", 0
		_, err = cs.Set(ctx, path, data, 0)
	case "multi":
		step = model.ZnodeStep{{Op: "create", Slot: s.Key, Value: s.ID}, {Op: "delete", Slot: other, Version: -1}}
		_, err = cs.Multi(ctx, client.OpCreate(path, data, zk.Persistent, nil), client.OpDelete(znodeOf(other), -1))
	case "get":
		// Behind a sync, for a follower lags; and no leader says the truth that has lost its quorum.
		if w.plan.Followers > 0 && w.plan.Vouch == client.VouchWrite {
			return
		}
		pipe := cs.Pipeline()
		pipe.Sync("/")
		got := pipe.Get(path)
		pipe.Send(ctx)
		var n client.Node
		if n, err = got.Wait(ctx); err == nil {
			answer.Value, _ = strconv.Atoi(string(n.Data))
			answer.Version = n.Stat.Version
		} else if !errors.Is(err, zk.ErrNoNode) {
			return
		}
	}
	ret := w.now()
	var code zk.Code
	switch {
	case client.MaybeApplied(err):
		answer.Unknown, ret = true, model.Never
	case errors.As(err, &code) && (code == zk.ErrNoNode || code == zk.ErrNodeExists || code == zk.ErrBadVersion):
		answer.Code = code
	case err != nil:
		return // it was not sent
	}
	w.note(s.Who, "#%d %v: %v %v", s.ID, step, answer, err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.znodes.Add(step, call, answer, ret)
}
