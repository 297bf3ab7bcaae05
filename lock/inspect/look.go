package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/lock/internal/waitgraph"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Look returns the lock at path as it is: its kind, its holders and its waiters. It only reads, and disturbs no contender.
func Look(ctx context.Context, s *client.Session, path string) (Snapshot, error) {
	return newLooker(s).look(ctx, path)
}

// Contenders returns the contenders of [Look].
func Contenders(ctx context.Context, s *client.Session, path string) ([]Contender, error) {
	snap, err := Look(ctx, s, path)
	return snap.Contenders, err
}

// LookAll returns the locks directly below dir that have a holder or waiters, in the order of their paths. If the session may not
// read some of them, it returns the others, and an error that names those and is [zk.ErrNoAuth].
func LookAll(ctx context.Context, s *client.Session, dir string) ([]Snapshot, error) {
	return newLooker(s).lookAll(ctx, dir)
}

// noSession is the error of a function that was called without a session.
func noSession(path string) error {
	return fmt.Errorf("inspect %s: there is no session (open one with client.Open)", path)
}

// A looker reads locks. It is used by one goroutine.
type looker struct {
	s     *client.Session
	nodes map[string]client.Node // contenders' as they are known to be, by path
	dirs  map[string]directory   // directories, likewise
}

func newLooker(s *client.Session) *looker {
	return &looker{s: s, nodes: map[string]client.Node{}, dirs: map[string]directory{}}
}

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
	case err != nil:
		return snap, err
	case d.node.Stat.EphemeralOwner != 0:
		snap.Kind, snap.Contenders = queue.KindUnfair, []Contender{queue.NewHolder(path, d.node.Data, d.node.Stat)}
		return snap, nil
	}
	permits, _ := queue.ParsePermits(d.node.Data) // 0 for data of another program
	snap.Kind, snap.Permits = queue.KindOf(d.names, permits), permits
	if n := queue.KazooPermits(d.node.Data); snap.Kind == queue.KindNone && n > 0 {
		if snap.Contenders, err = l.contenders(ctx, path, queue.KazooHolders); len(snap.Contenders) > 0 {
			snap.Kind, snap.Permits = queue.KindKazooSemaphore, n
		}
		slices.SortFunc(snap.Contenders, func(a, b Contender) int { return cmp.Compare(a.Token, b.Token) })
		for i := range snap.Contenders {
			snap.Contenders[i].Held, snap.Contenders[i].Place = true, i
		}
		return snap, err
	}
	if snap.Kind != queue.KindCuratorSemaphore {
		snap.Contenders, err = l.contenders(ctx, path, claims)
		assign(permits, snap.Contenders)
		return snap, err
	}
	leases, err := l.contenders(ctx, zk.Join(path, queue.LeasesName), claims)
	if err != nil {
		return snap, err
	}
	gate, err := l.contenders(ctx, zk.Join(path, queue.GateName), claims)
	assign(0, leases)
	snap.Contenders = joinGate(leases, gate)
	return snap, err
}

// A directory is a znode with the names of its children; zero if it is not there.
type directory struct {
	node  client.Node
	names []string
}

func (l *looker) directory(ctx context.Context, path string) (directory, error) {
	if l.s == nil {
		return directory{}, noSession(path)
	}
	if d, known := l.dirs[path]; known {
		return d, nil
	}
	for {
		node, names, err := waitgraph.ReadDirectory(ctx, l.s.Pipeline(), path)
		d := directory{node, names}
		switch {
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case errors.Is(err, zk.ErrNoNode):
			d = directory{}
		case err != nil:
			return d, err
		}
		l.dirs[path] = d
		return d, nil
	}
}

// claims returns those of names that are claims, in their order.
func claims(names []string) []string { return queue.Parse(names, ^queue.Mode(0)).Names() }

// contenders returns the contenders that choose finds among a directory's children. Those that have left since are left out.
func (l *looker) contenders(ctx context.Context, dir string, choose func(names []string) []string) ([]Contender, error) {
	d, err := l.directory(ctx, dir)
	if err != nil {
		return nil, err
	}
	queued := choose(d.names)
	known := func(name string) bool { _, ok := l.nodes[zk.Join(dir, name)]; return ok }
	for again := true; again; {
		again = false
		unknown := slices.DeleteFunc(slices.Clone(queued), known)
		for i, read := range waitgraph.ReadNodes(ctx, l.s, dir, unknown) {
			n, err := read.Wait(ctx)
			switch {
			case err == nil:
				l.nodes[zk.Join(dir, unknown[i])] = n
			case errors.Is(err, zk.ErrConnectionLoss):
				again = true
			case !errors.Is(err, zk.ErrNoNode):
				return nil, err
			}
		}
	}
	var found []Contender
	for _, name := range queued {
		path := zk.Join(dir, name)
		if n, there := l.nodes[path]; there {
			found = append(found, queue.NewContender(path, n.Data, n.Stat))
		}
	}
	return found, nil
}
