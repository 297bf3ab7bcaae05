package cache

import (
	"context"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// batch is how many requests are sent together; two batches are on their way at once.
const batch = 256

// persistent is a source with one persistent watch.
type persistent struct {
	f     *follower
	watch *client.PersistentWatch
}

// over is a context that has ended: with it, PersistentWatch.Next returns what is there and does not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (p *persistent) wait(ctx context.Context) error {
	ev, err := p.watch.Next(ctx)
	if err == nil {
		p.f.mark(ev.Path, ev.Gap)
	}
	return err
}

func (p *persistent) drain() {
	for p.wait(over) == nil {
	}
}

func (p *persistent) close() { p.watch.Close() }

func (p *persistent) forget(string) {}

func (p *persistent) read(ctx context.Context, paths []string, to reader) error {
	if p.f.c.opt.Single {
		paths = slices.DeleteFunc(paths, func(path string) bool { return path != p.f.c.path })
	}
	var parents []string
	err := askAll(ctx, paths,
		func(pl *client.Pipeline, path string) *client.Pending[client.Node] { return pl.Get(path) },
		func(ctx context.Context, path string) (client.Node, error) {
			data, stat, err := p.f.s.Get(ctx, path)
			return client.Node{Data: data, Stat: stat}, err
		}, p.f.s, p.drain, func(path string, got client.Node, err error) error {
			switch {
			case errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) && path != p.f.c.path:
				return nil
			case err != nil:
				return err
			}
			n := &Node{Path: path, Data: got.Data, Stat: got.Stat}
			if n.Stat.NumChildren > 0 && to.list(n) {
				parents = append(parents, path)
			}
			return to.node(n)
		})
	if err != nil {
		return err
	}
	return askAll(ctx, parents,
		func(pl *client.Pipeline, path string) *client.Pending[client.Listing] { return pl.Children(path) },
		func(ctx context.Context, path string) (client.Listing, error) {
			names, stat, err := p.f.s.Children(ctx, path)
			return client.Listing{Names: names, Stat: stat}, err
		}, p.f.s, p.drain, func(path string, l client.Listing, err error) error {
			if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
				return nil // of one that is gone meanwhile, an event tells
			}
			if err != nil {
				return err
			}
			return to.below(path, l.Names)
		})
}

// askAll asks about each path, many at a time, and gives the outcomes to got in order. A question whose answer was
// lost is asked again. drained is called between batches, so that not too many events wait.
func askAll[T any](ctx context.Context, paths []string, ask func(*client.Pipeline, string) *client.Pending[T],
	again func(context.Context, string) (T, error), s *client.Session, drained func(), got func(string, T, error) error) error {
	type sent struct {
		paths []string
		asked []*client.Pending[T]
	}
	var ahead sent // a batch that is on its way
	finish := func() error {
		for i, path := range ahead.paths {
			v, err := ahead.asked[i].Wait(ctx)
			if errors.Is(err, zk.ErrConnectionLoss) {
				v, err = again(ctx, path)
			}
			if err := got(path, v, err); err != nil {
				return err
			}
		}
		ahead = sent{}
		drained()
		return nil
	}
	for part := range slices.Chunk(paths, batch) {
		p := s.Pipeline()
		asked := make([]*client.Pending[T], len(part))
		for i, path := range part {
			asked[i] = ask(p, path)
		}
		p.Send(ctx)
		if err := finish(); err != nil {
			return err
		}
		ahead = sent{part, asked}
	}
	return finish()
}
