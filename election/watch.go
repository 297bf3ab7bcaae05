package election

import (
	"context"
	"errors"
	"iter"
	"reflect"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Leader returns the candidate at the head of the queue, or the zero Candidate if there is none. It leads, or will as
// soon as it hears of it. One that is cut off may have stopped leading before the ensemble knows.
func (e *Election) Leader(ctx context.Context) (Candidate, error) {
	leader, w, err := e.look(ctx)
	w.Cancel()
	return leader, err
}

// Candidates returns all candidates, the leader first. It only reads.
func (e *Election) Candidates(ctx context.Context) ([]Candidate, error) {
	if e.s == nil {
		return nil, errZero
	}
	contenders, err := inspect.Contenders(ctx, e.s, e.dir)
	if err != nil {
		return nil, err
	}
	var candidates []Candidate
	for _, c := range contenders {
		if c.Latch {
			candidates = append(candidates, candidateOf(c))
		}
	}
	return candidates, nil
}

// Watch yields the leader, and again whenever that changes; the zero Candidate stands for none. A caller that is slow
// misses leaders in between, but always gets the latest one. The sequence goes on across reconnects, and ends with an
// error: that of the session, or that ctx has ended.
//
// One watch is kept at the server, on the leader's znode, so that candidates that come and go wake no watcher.
func (e *Election) Watch(ctx context.Context) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var last *Candidate
		var w *client.Watch
		defer func() { w.Cancel() }() // also if yield panics
		for {
			var leader Candidate
			var err error
			leader, w, err = e.look(ctx) // the watch before has fired
			if err == nil {
				if (last == nil || !reflect.DeepEqual(leader, *last)) && !yield(leader, nil) {
					return
				}
				last = &leader
				select { // the watch survives reconnects, and tells what came meanwhile
				case <-w.Done():
					err = e.s.Err()
				case <-e.s.Done(): // Close has begun, and the watch ends when it is over
					err = e.s.Err()
				case <-ctx.Done():
					err = ending.Of(ctx)
				}
			}
			if err != nil {
				yield(Candidate{}, err)
				return
			}
		}
	}
}

// look returns the leader, and a watch that fires when that may have changed. It sees everything that was true when it was called.
func (e *Election) look(ctx context.Context) (Candidate, *client.Watch, error) {
	if e.s == nil {
		return Candidate{}, nil, errZero
	}
	for {
		if err := e.s.Sync(ctx, e.dir); err != nil {
			return Candidate{}, nil, err
		}
		names, _, err := e.s.Children(ctx, e.dir)
		var w *client.Watch
		come := false // a candidate, between the two requests
		switch queue := bridge.Candidates(names); {
		case errors.Is(err, zk.ErrNoNode):
			_, come, w, err = e.s.WatchExists(ctx, e.dir)
		case err != nil:
		case len(queue) == 0:
			names, _, w, err = e.s.WatchChildren(ctx, e.dir)
			come = len(bridge.Candidates(names)) > 0
		default: // it was ahead of all others, so as long as it is there it still is
			node := zk.Join(e.dir, queue[0])
			data, stat, w, getErr := e.s.WatchGet(ctx, node)
			if getErr == nil {
				since := time.UnixMilli(stat.Ctime)
				c := lock.Contender{Node: node, Session: stat.EphemeralOwner, Token: stat.Czxid, Since: since, Data: data}
				return candidateOf(c), w, nil
			}
			err = getErr
		}
		switch {
		case errors.Is(err, zk.ErrNoNode): // it has gone meanwhile
		case err == nil && come:
			w.Cancel()
		default:
			return Candidate{}, w, err
		}
	}
}
