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
	f      *follower
	stream *client.Stream
}

// over is a context that has ended: with it, Stream.Next returns what is there and does not wait.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (p *persistent) wait(ctx context.Context) error {
	ev, err := p.stream.Next(ctx)
	if err == nil {
		p.f.mark(ev.Path, ev.Gap)
	}
	return err
}

func (p *persistent) drain() {
	for p.wait(over) == nil {
	}
}

func (p *persistent) close() { p.stream.Close() }

func (p *persistent) forget(string) {}

func (p *persistent) read(ctx context.Context, paths []string, list bool, got func(string, *Node, []string)) error {
	if p.f.c.opt.Single {
		paths = slices.DeleteFunc(paths, func(path string) bool { return path != p.f.c.path })
	}
	var nodes []*Node
	err := askAll(ctx, paths,
		func(pl *client.Pipeline, path string) *client.Pending[client.Node] { return pl.Get(path) },
		func(ctx context.Context, path string) (client.Node, error) {
			data, stat, err := p.f.s.Get(ctx, path)
			return client.Node{Data: data, Stat: stat}, err
		}, p.f.s, p.drain, func(path string, n client.Node, err error) error {
			switch {
			case err == nil:
				nodes = append(nodes, &Node{Path: path, Data: n.Data, Stat: n.Stat})
			case errors.Is(err, zk.ErrNoAuth) && path == p.f.c.path:
				return err
			case !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth):
				return err
			}
			return nil
		})
	if err != nil {
		return err
	}
	names := map[string][]string{}
	if list {
		if names, err = p.children(ctx, nodes); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		got(n.Path, n, names[n.Path])
	}
	return nil
}

// children lists the children of those znodes that have any. Of one that is gone meanwhile an event tells.
func (p *persistent) children(ctx context.Context, nodes []*Node) (map[string][]string, error) {
	var parents []string
	for _, n := range nodes {
		if n.Stat.NumChildren > 0 {
			parents = append(parents, n.Path)
		}
	}
	names := map[string][]string{}
	err := askAll(ctx, parents,
		func(pl *client.Pipeline, path string) *client.Pending[client.Listing] { return pl.Children(path) },
		func(ctx context.Context, path string) (client.Listing, error) {
			names, stat, err := p.f.s.Children(ctx, path)
			return client.Listing{Names: names, Stat: stat}, err
		}, p.f.s, p.drain, func(path string, l client.Listing, err error) error {
			if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrNoAuth) {
				return err
			}
			names[path] = l.Names
			return nil
		})
	return names, err
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
