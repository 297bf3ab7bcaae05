package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Look returns the lock at path as it is: its kind, its holders and its waiters. It only reads, and disturbs no contender.
func Look(ctx context.Context, s *client.Session, path string) (Snapshot, error) {
	return (&looker{s: s}).look(ctx, path)
}

// Contenders returns the contenders of [Look].
func Contenders(ctx context.Context, s *client.Session, path string) ([]Contender, error) {
	snap, err := Look(ctx, s, path)
	return snap.Contenders, err
}

// LookAll returns the locks directly below dir that have a holder or waiters, in the order of their paths.
// If the session may not read some of them, it returns the others, and an error that names those and is
// [zk.ErrNoAuth].
func LookAll(ctx context.Context, s *client.Session, dir string) ([]Snapshot, error) {
	return (&looker{s: s}).lookAll(ctx, dir)
}

// noSession is the error of a function that was called without a session.
func noSession(path string) error {
	return fmt.Errorf("inspect %s: there is no session (open one with client.Open)", path)
}

// A looker reads locks. It is used by one goroutine.
type looker struct {
	s     *client.Session
	nodes map[string]client.Node // contenders' as they are known to be, by path; nil if nothing is to be remembered
	dirs  map[string]directory   // directories, likewise
	watch bool                   // leave a watch on whatever is read
	armed []*client.Watch        // those that were left
}

// lookBatch is how many nodes are read with one write.
const lookBatch = 100

func (l *looker) lookAll(ctx context.Context, dir string) ([]Snapshot, error) {
	d, err := l.directory(ctx, dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(d.names)
	var all []Snapshot
	var hidden error
	for _, name := range d.names {
		snap, err := l.look(ctx, zk.Join(dir, name))
		if errors.Is(err, zk.ErrNoAuth) {
			hidden = ending.Join(hidden, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if len(snap.Contenders) > 0 {
			all = append(all, snap)
		}
	}
	return all, hidden
}

func (l *looker) look(ctx context.Context, path string) (Snapshot, error) {
	snap := Snapshot{Path: path}
	d, err := l.directory(ctx, path)
	switch {
	case err != nil || !d.there:
		return snap, err
	case d.node.Stat.EphemeralOwner != 0:
		snap.Kind, snap.Contenders = queue.KindUnfair, []Contender{queue.NewHolder(path, d.node.Data, d.node.Stat)}
		return snap, nil
	}
	permits, err := queue.ParsePermits(d.node.Data)
	if err != nil {
		permits = 0 // data of another program
	}
	snap.Kind, snap.Permits = queue.KindOf(d.names, permits), permits
	if snap.Kind != queue.KindCuratorSemaphore {
		snap.Contenders, err = l.contenders(ctx, path, d.names)
		assign(permits, snap.Contenders)
		return snap, err
	}
	leases, err := l.below(ctx, zk.Join(path, queue.LeasesName))
	if err != nil {
		return snap, err
	}
	gate, err := l.below(ctx, zk.Join(path, queue.GateName))
	assign(0, leases)
	snap.Contenders = joinGate(leases, gate)
	return snap, err
}

// below returns the contenders of a directory that is part of a lock.
func (l *looker) below(ctx context.Context, dir string) ([]Contender, error) {
	d, err := l.directory(ctx, dir)
	if err != nil {
		return nil, err
	}
	return l.contenders(ctx, dir, d.names)
}

// A directory is a znode with the names of its children, if it is there.
type directory struct {
	there bool
	node  client.Node
	names []string
}

func (l *looker) directory(ctx context.Context, path string) (d directory, err error) {
	if l.s == nil {
		return d, noSession(path)
	}
	if d, known := l.dirs[path]; known {
		return d, nil
	}
	defer func() {
		if err == nil && l.dirs != nil {
			l.dirs[path] = d
		}
	}()
	for {
		p := l.s.Pipeline()
		if l.watch { // first: the others leave no watch where there is nothing, and this one tells what comes between them
			_, w := p.WatchExists(path)
			l.armed = append(l.armed, w)
		}
		got, listed := p.Get(path), l.list(p, path)
		p.Send(ctx)
		node, err := got.Wait(ctx)
		list, listErr := listed.Wait(ctx)
		if err == nil {
			err = listErr
		}
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case errors.Is(err, zk.ErrNoNode):
			return directory{}, nil
		}
		return directory{true, node, list.Names}, err
	}
}

func (l *looker) get(p *client.Pipeline, path string) *client.Pending[client.Node] {
	if !l.watch {
		return p.Get(path)
	}
	got, w := p.WatchGet(path)
	l.armed = append(l.armed, w)
	return got
}

func (l *looker) list(p *client.Pipeline, path string) *client.Pending[client.Listing] {
	if !l.watch {
		return p.Children(path)
	}
	listed, w := p.WatchChildren(path)
	l.armed = append(l.armed, w)
	return listed
}

// contenders returns the contenders among a directory's children, in order. Those that have left
// since are left out.
func (l *looker) contenders(ctx context.Context, dir string, names []string) ([]Contender, error) {
	var found []Contender
	for batch := range slices.Chunk(queue.Parse(names, ^queue.ClaimKind(0)).Names(), lookBatch) {
		nodes, err := l.read(ctx, dir, batch)
		if err != nil {
			return nil, err
		}
		for i, n := range nodes {
			if n != nil {
				found = append(found, queue.NewContender(zk.Join(dir, batch[i]), n.Data, n.Stat))
			}
		}
	}
	return found, nil
}

// read returns the children of dir that are called names, nil for those that have gone.
func (l *looker) read(ctx context.Context, dir string, names []string) ([]*client.Node, error) {
	p := l.s.Pipeline()
	nodes := make([]*client.Node, len(names))
	reads := make([]*client.Pending[client.Node], len(names))
	for i, name := range names {
		path := zk.Join(dir, name)
		if n, known := l.nodes[path]; known {
			nodes[i] = &n
			continue
		}
		reads[i] = l.get(p, path)
	}
	p.Send(ctx)
	for i, read := range reads {
		if read == nil {
			continue
		}
		n, err := read.Wait(ctx)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			return l.read(ctx, dir, names)
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		}
		nodes[i] = &n
		if l.nodes != nil {
			l.nodes[zk.Join(dir, names[i])] = n
		}
	}
	return nodes, nil
}
