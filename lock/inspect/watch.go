package inspect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Watch yields the lock at path as it is, and again whenever that has changed, until ctx or the session ends;
// the last thing that it yields is the error that says so, or zk.ErrUnimplemented from a server without persistent watches that the session
// has moved to. A lock that is not there has no holder.
//
// What is yielded is the present state and not each change: a caller that is slow, or has lost the connection for a while, misses
// what happened in between, but always gets the latest state. Nothing piles up, and only what has changed is read again.
//
// It takes a persistent watch. Begun at a server that has none (see client.Session.AddWatch), it looks twice a second. At servers before
// 3.9 a persistent watch disturbs one-shot watches of the same session on the same path, which locks use: give Watch a session of its own.
func Watch(ctx context.Context, s *client.Session, path string) iter.Seq2[Snapshot, error] {
	return watch(ctx, s, path, (*looker).look, nil)
}

// WatchAll is [Watch] for the locks of [LookAll]. Where some may not be read, it yields the others beside the error
// that names those, which is [zk.ErrNoAuth], and goes on.
func WatchAll(ctx context.Context, s *client.Session, dir string) iter.Seq2[[]Snapshot, error] {
	return watch(ctx, s, dir, (*looker).lookAll, zk.ErrNoAuth)
}

// watch yields what look returns for path, whenever it is something else. An error ends it, but for one that is partial.
func watch[T any](ctx context.Context, s *client.Session, path string, look func(*looker, context.Context, string) (T, error),
	partial error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none, last T
		var lastErr string // "<nil>" for none, and empty before the first look
		l, err := listen(ctx, s, path)
		if err != nil {
			yield(none, err)
			return
		}
		defer l.close()
		for {
			now, err := look(l.looker, ctx, path)
			if err != nil && !errors.Is(err, partial) {
				yield(none, err)
				return
			}
			text := fmt.Sprint(err)
			if (text != lastErr || !reflect.DeepEqual(now, last)) && !yield(now, err) {
				return
			}
			last, lastErr = now, text
			if err := l.wait(ctx); err != nil {
				yield(none, err)
				return
			}
		}
	}
}

// A listener is a looker that learns when there is something new to see.
type listener struct {
	*looker
	path   string
	events *client.PersistentWatch // on path and below; nil where the server has no such watches
}

// lookPause is between two looks where the server has no persistent watches.
const lookPause = time.Second / 2

func listen(ctx context.Context, s *client.Session, path string) (*listener, error) {
	if s == nil {
		return nil, noSession(path)
	}
	l := &listener{looker: newLooker(s), path: path}
	var err error
	l.events, err = s.AddWatch(ctx, path, true)
	if err != nil && !errors.Is(err, zk.ErrUnimplemented) {
		return nil, err
	}
	return l, nil
}

// wait returns when something has changed since the last look began.
func (l *listener) wait(ctx context.Context) error {
	if l.events == nil {
		clear(l.nodes)
		clear(l.dirs)
		select {
		case <-time.After(lookPause):
		case <-l.s.Done():
		case <-ctx.Done():
			return ending.Of(ctx)
		}
		return l.s.Err()
	}
	ev, err := l.events.Next(ctx)
	if err != nil {
		return err
	}
	ended := ending.Ended(context.Canceled) // with it Next returns what is there already, and does not wait
	gap := false
	for ; err == nil; ev, err = l.events.Next(ended) {
		gap = gap || ev.Gap
		delete(l.nodes, ev.Path)
		delete(l.dirs, ev.Path)
		delete(l.dirs, zk.Parent(ev.Path)) // which has a child more or less
	}
	if !gap {
		return nil
	}
	clear(l.nodes)
	clear(l.dirs)
	err = l.s.Sync(ctx, l.path) // the server that we see now may be behind
	if errors.Is(err, zk.ErrConnectionLoss) {
		return nil // which leaves another gap
	}
	return err
}

func (l *listener) close() {
	if l.events != nil {
		l.events.Close()
	}
}
