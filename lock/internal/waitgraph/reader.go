// Package waitgraph reads the queues that a deadlock may go through, and finds deadlocks in them.
package waitgraph

import (
	"context"
	"errors"
	"fmt"
	"iter"
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
	queues  map[string]*readQueue
	nodes   int // read
	synced  bool
}

type readQueue struct {
	queue   *queue.ReadQueue
	permits permitFacts
	mzxid   map[string]int64 // of each claim's node, by name
}

// permitFacts are a semaphore's number of permits and what tells whether a second reader found the same. The number is 0
// if it has ever been changed: which claims were granted under the old one is not known.
type permitFacts struct {
	n     int
	czxid int64 // of the directory
}

// A Reader reads at most that many queues and nodes.
const (
	queuesMax = 256
	nodesMax  = 4096
)

// ErrTooManyWaits is returned when a search for deadlocks would have to read too much.
var ErrTooManyWaits = fmt.Errorf("more than %d locks or %d contenders to look at", queuesMax, nodesMax)

func NewReader(ctx context.Context, s *client.Session, earlier *Reader) *Reader {
	return &Reader{ctx: ctx, s: s, earlier: earlier, queues: map[string]*readQueue{}}
}

// Cycle returns a cycle of waits through the entry with that hold id in the queue at dir; nil if there is none. Entries that are
// to be skipped are not taken for waiting: of each cycle one entry is the first.
func (r *Reader) Cycle(dir, id string, skip func(p, other *queue.Entry) bool) (queue.Deadlock, error) {
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
	k := queue.CycleFinder{Load: r.load, Skip: func(p *queue.Entry) bool { return skip(p, self) }, Self: self}
	return k.Cycle()
}

// cycles returns the cycles that touch one of the queues at paths, each from its youngest entry on, in the order of the paths of
// these.
func (r *Reader) cycles(paths []string) (found []queue.Deadlock, err error) {
	if err := r.loadFrom(paths); err != nil {
		return nil, err
	}
	for _, dir := range slices.Sorted(maps.Keys(r.queues)) {
		for _, p := range r.queues[dir].queue.Entries {
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
			if !read.Waits(p) {
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
	if l := r.queues[dir]; l != nil {
		return l.queue, nil
	}
	if len(r.queues) >= queuesMax || r.nodes > nodesMax {
		return nil, ErrTooManyWaits
	}
	l, err := r.read(dir)
	if err != nil {
		return nil, err
	}
	if r.earlier != nil {
		l.keepOnly(r.earlier.queues[dir])
	}
	r.queues[dir] = l
	return l.queue, nil
}

// read reads the queue at dir, which may not be there. One that may not be read is taken for empty, so that nothing is
// said of it.
func (r *Reader) read(dir string) (*readQueue, error) {
	p := r.s.Pipeline()
	if !r.synced {
		p.Sync(dir)
		r.synced = true
	}
	got, listed := p.Get(dir), p.Children(dir)
	p.Send(r.ctx)
	node, err := got.Wait(r.ctx)
	if err == nil {
		var l client.Listing
		if l, err = listed.Wait(r.ctx); err == nil {
			return r.readClaims(dir, node, queue.Parse(l.Names, ^queue.ClaimKind(0)))
		}
	}
	if unseen(err) {
		return &readQueue{queue: &queue.ReadQueue{}}, nil
	}
	return nil, err
}

// unseen reports whether a read has failed because there is nothing, or nothing that may be read.
func unseen(err error) bool { return errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) }

// readClaims reads the nodes of a queue, and leaves out those that have gone or may not be read.
func (r *Reader) readClaims(dir string, directory client.Node, q queue.Queue) (*readQueue, error) {
	l := &readQueue{mzxid: map[string]int64{}}
	if n, err := queue.ParsePermits(directory.Data); err == nil && directory.Stat.Version == 0 {
		l.permits = permitFacts{n, directory.Stat.Czxid}
	}
	r.nodes += len(q.Claims)
	if r.nodes > nodesMax {
		return nil, ErrTooManyWaits
	}
	there := queue.Queue{Permits: l.permits.n}
	var of []*queue.Entry
	entries := map[string]*queue.Entry{}
	for i, read := range ReadNodes(r.ctx, r.s, dir, q.Names(), (*client.Pipeline).Get) {
		n, err := read.Wait(r.ctx)
		if unseen(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		name := q.Claims[i].Name
		id := queue.HoldIDOf(dir, name)
		if entries[id] == nil {
			says := queue.ParseRecord(n.Data)
			entries[id] = &queue.Entry{HoldID: id, Dir: dir, Under: says.Holds(), Yields: says.Yields, Passes: says.Passing,
				Contender: queue.NewContender(zk.Join(dir, name), n.Data, n.Stat)}
		}
		there.Claims = append(there.Claims, q.Claims[i])
		of = append(of, entries[id])
		l.mzxid[name] = n.Stat.Mzxid
	}
	l.queue = queue.NewReadQueue(there, of)
	return l, nil
}

// readBatch is how many nodes are read with one write.
const readBatch = 100

// ReadNodes reads the children of dir that are called names, with the requests that get makes, and yields these by the places of
// the names.
func ReadNodes(ctx context.Context, s *client.Session, dir string, names []string,
	get func(*client.Pipeline, string) *client.Pending[client.Node]) iter.Seq2[int, *client.Pending[client.Node]] {
	return func(yield func(int, *client.Pending[client.Node]) bool) {
		reads := make([]*client.Pending[client.Node], len(names))
		for i := range names {
			if i%readBatch == 0 {
				p := s.Pipeline()
				for j := i; j < min(i+readBatch, len(names)); j++ {
					reads[j] = get(p, zk.Join(dir, names[j]))
				}
				p.Send(ctx)
			}
			if !yield(i, reads[i]) {
				return
			}
		}
	}
}

// keepOnly leaves out what the earlier reader did not find as it is now. nil stands for a queue that it did not read.
func (l *readQueue) keepOnly(earlier *readQueue) {
	if earlier == nil {
		earlier = &readQueue{}
	}
	same := queue.Queue{}
	if l.permits == earlier.permits {
		same.Permits = l.permits.n
	}
	var of []*queue.Entry
	for i, c := range l.queue.Queue.Claims {
		if mzxid, ok := earlier.mzxid[c.Name]; ok && mzxid == l.mzxid[c.Name] {
			same.Claims = append(same.Claims, c)
			of = append(of, l.queue.Of[i])
		}
	}
	l.queue = queue.NewReadQueue(same, of)
}

// Deadlocks returns the cycles that touch one of the queues at paths, each beginning with the waiter that came last. A
// connection that breaks is an error.
func Deadlocks(ctx context.Context, s *client.Session, paths []string) ([]queue.Deadlock, error) {
	seen := NewReader(ctx, s, nil)
	if err := seen.loadFrom(paths); err != nil {
		return nil, err
	}
	return NewReader(ctx, s, seen).cycles(paths)
}
