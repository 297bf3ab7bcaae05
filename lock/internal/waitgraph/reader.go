// Package waitgraph reads the queues that a deadlock may go through, and finds deadlocks in them.
package waitgraph

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/internal/queue"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A Reader reads the queues that a deadlock may go through, each once. It serves one search, and has the context of that.
//
// It reads different queues at different times, which is no picture of one moment. So a second reader follows, which counts
// only nodes that the first one has read, with the same data. Names of nodes are never used again: all of these nodes were
// there, as they are, at any instant between the two.
type Reader struct {
	ctx     context.Context
	s       *client.Session
	earlier *Reader // the first one, if this is the second: only what that has read counts
	queues  map[string]*queue.ReadQueue
	nodes   int              // read
	mzxid   map[string]int64 // of each node that was read, by path
}

// A Reader reads at most that many queues and nodes.
const (
	queuesMax = 256
	nodesMax  = 4096
)

// ErrTooManyWaits is returned when a search for deadlocks would have to read too much.
var ErrTooManyWaits = fmt.Errorf("more than %d locks or %d contenders to look at", queuesMax, nodesMax)

// NewReader returns a Reader that has read nothing; earlier is nil for the first one.
func NewReader(ctx context.Context, s *client.Session, earlier *Reader) *Reader {
	return &Reader{ctx: ctx, s: s, earlier: earlier, queues: map[string]*queue.ReadQueue{}, mzxid: map[string]int64{}}
}

// Cycle returns a cycle of waits through the entry with that hold id in the queue at dir; nil if there is none. skip(e, self)
// reports that e is passed over, because a cycle through both is reported by e. So each cycle is reported once.
func (r *Reader) Cycle(dir, id string, skip func(e, self *queue.Entry) bool) (queue.Deadlock, error) {
	if r.ctx.Err() != nil { // which need not have been noticed: what has been read may take long to look at
		return nil, ending.Of(r.ctx)
	}
	read, err := r.load(dir)
	if err != nil {
		return nil, err
	}
	self := read.Find(id)
	if self == nil {
		return nil, nil
	}
	f := queue.CycleFinder{Load: r.load, Skip: func(p *queue.Entry) bool { return skip(p, self) }, Self: self}
	return f.Cycle()
}

// loadFrom loads the queues at paths, and those of what is held by the waiters of each queue that it loads.
func (r *Reader) loadFrom(paths []string) error {
	dirs := slices.Clone(paths)
	known := map[string]bool{}
	for i := 0; i < len(dirs); i++ { // which grow meanwhile
		read, err := r.load(dirs[i])
		if err != nil {
			return err
		}
		for _, p := range read.Entries {
			if !p.Waits() {
				continue
			}
			for _, id := range p.Under {
				if dir := zk.Parent(id); !known[dir] {
					known[dir] = true
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return nil
}

func (r *Reader) load(dir string) (*queue.ReadQueue, error) {
	if read := r.queues[dir]; read != nil {
		return read, nil
	}
	if len(r.queues) >= queuesMax {
		return nil, ErrTooManyWaits
	}
	read, err := r.read(dir)
	if err == nil {
		r.queues[dir] = read
	}
	return read, err
}

// read reads the queue at dir, which may not be there. One that may not be read is taken for empty, so that nothing is said of it.
func (r *Reader) read(dir string) (*queue.ReadQueue, error) {
	p := r.s.Pipeline()
	if len(r.queues) == 0 {
		p.Sync(dir)
	}
	node, names, err := ReadDirectory(r.ctx, p, dir)
	switch {
	case unseen(err):
		return &queue.ReadQueue{}, nil
	case err != nil:
		return nil, err
	}
	return r.readClaims(dir, node, queue.Parse(names, ^queue.Mode(0)))
}

// ReadDirectory sends p with the requests for the znode at dir and the names of its children, and returns the answers.
func ReadDirectory(ctx context.Context, p *client.Pipeline, dir string) (client.Node, []string, error) {
	got, listed := p.Get(dir), p.Children(dir)
	p.Send(ctx)
	node, err := got.Wait(ctx)
	list, listErr := listed.Wait(ctx)
	return node, list.Names, cmp.Or(err, listErr)
}

// unseen reports whether a read has failed because there is nothing, or nothing that may be read.
func unseen(err error) bool { return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) }

// isSame notes the node at path as it was read, and reports whether the earlier reader, if there is one, has found it as it is now.
func (r *Reader) isSame(path string, stat zk.Stat) bool {
	r.mzxid[path] = stat.Mzxid
	return r.earlier == nil || r.earlier.mzxid[path] == stat.Mzxid
}

// readClaims reads the nodes of a queue, and leaves out those that have gone, may not be read, or are not as they were. The
// number of permits is 0 if it has ever been changed: which claims were granted under the old one is not known.
func (r *Reader) readClaims(dir string, directory client.Node, q queue.Queue) (*queue.ReadQueue, error) {
	r.nodes += len(q.Claims)
	if r.nodes > nodesMax {
		return nil, ErrTooManyWaits
	}
	there := queue.Queue{}
	if n, err := queue.ParsePermits(directory.Data); r.isSame(dir, directory.Stat) && err == nil && directory.Stat.Version == 0 {
		there.Permits = n
	}
	var of []*queue.Entry
	entries := map[string]*queue.Entry{}
	for i, read := range ReadNodes(r.ctx, r.s, dir, q.Names()) {
		path := zk.Join(dir, q.Claims[i].Name)
		n, err := read.Wait(r.ctx)
		if err != nil && !unseen(err) {
			return nil, err
		}
		if err != nil || !r.isSame(path, n.Stat) {
			continue
		}
		id := queue.HoldIDOf(dir, q.Claims[i].Name)
		if entries[id] == nil {
			says := queue.ParseRecord(n.Data)
			entries[id] = &queue.Entry{HoldID: id, Dir: dir, Under: says.Holds(), Yields: says.Yields, Passes: says.Passing,
				Contender: queue.NewContender(path, n.Data, n.Stat)}
		}
		there.Claims = append(there.Claims, q.Claims[i])
		of = append(of, entries[id])
	}
	return queue.NewReadQueue(there, of), nil
}

// readBatch is how many nodes are read with one write, and on their way at once: other requests of the session need room, too.
const readBatch = 100

// ReadNodes reads the children of dir that are called names. It returns the requests, with their answers, by the places of the names;
// once one has failed, those up to there.
func ReadNodes(ctx context.Context, s *client.Session, dir string, names []string) []*client.Pending[client.Node] {
	reads := make([]*client.Pending[client.Node], 0, len(names))
	for batch := range slices.Chunk(names, readBatch) {
		p := s.Pipeline()
		for _, name := range batch {
			reads = append(reads, p.Get(zk.Join(dir, name)))
		}
		p.Send(ctx)
		_, err := reads[len(reads)-1].Wait(ctx)
		if err != nil && !unseen(err) { // which the caller sees too
			break
		}
	}
	return reads
}

// Deadlocks returns the cycles that touch one of the queues at paths, each from its newest waiter on. A connection that breaks is an error.
func Deadlocks(ctx context.Context, s *client.Session, paths []string) ([]queue.Deadlock, error) {
	var r *Reader
	for range 2 {
		r = NewReader(ctx, s, r)
		if err := r.loadFrom(paths); err != nil {
			return nil, err
		}
	}
	return r.cycles()
}

// cycles returns the cycles in the queues that were read, each from its youngest entry on, in the order of the paths of these.
func (r *Reader) cycles() (found []queue.Deadlock, err error) {
	for _, dir := range slices.Sorted(maps.Keys(r.queues)) {
		for _, p := range r.queues[dir].Entries {
			if len(p.Under) == 0 { // only younger ones, behind it, wait for it
				continue
			}
			d, err := r.Cycle(dir, p.HoldID, (*queue.Entry).YoungerThan)
			if err != nil {
				return nil, err
			}
			if d != nil {
				found = append(found, d)
			}
		}
	}
	return found, nil
}
