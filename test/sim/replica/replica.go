package replica

import (
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/tree"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/server/watch"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// A Cut is what a Replica is cut off from.
type Cut int

// The cuts.
const (
	Whole      Cut = iota // it is part of the ensemble
	Follower              // its leader is out of reach
	LostLeader            // it takes itself for the leader, and its quorum is out of reach
)

// A Replica is one follower. Its methods may be called from any goroutine.
type Replica struct {
	// Fixed by New.
	Name string
	tick time.Duration
	dial func() (net.Conn, error) // to the leader
	ln   net.Listener
	wg   sync.WaitGroup
	done chan struct{}
	fed  chan struct{} // one token: the queue has changed

	mu      sync.Mutex // guards what follows, and the conns; not held across I/O
	tree    *tree.Tree
	watches *watch.Table
	conns   map[watch.Watcher]*conn
	last    watch.Watcher
	queue   []due // of what the leader has committed, not applied yet
	newest  int64 // zxid of the last that was fed
	lag     time.Duration
	cut     Cut
	forgets bool // a client that asks for a session that has ended is given another one
	outcome tree.Outcome
	closed  bool
}

// A due is a transaction and when it gets here.
type due struct {
	txn txn.Txn
	at  time.Time
}

// New returns a replica of some name that serves the connections of ln.
func New(name string, ln net.Listener, dial func() (net.Conn, error), tick, lag time.Duration) *Replica {
	r := &Replica{
		Name: name, tick: tick, dial: dial, ln: ln, done: make(chan struct{}), fed: make(chan struct{}, 1),
		tree: tree.New(false), watches: watch.NewTable(1), conns: map[watch.Watcher]*conn{}, lag: lag,
	}
	r.wg.Go(r.accept)
	r.wg.Go(r.follow)
	r.wg.Go(r.relay)
	return r
}

// Feed tells the replica what the leader has committed, in order.
func (r *Replica) Feed(t txn.Txn) {
	r.mu.Lock()
	r.queue = append(r.queue, due{t, time.Now().Add(r.lag)})
	r.newest = t.Zxid
	r.mu.Unlock()
	r.wake()
}

// SetLag changes how far behind the leader the replica is.
func (r *Replica) SetLag(d time.Duration) {
	r.mu.Lock()
	r.lag = d
	r.mu.Unlock()
}

// SetCut cuts the replica off, or makes it part of the ensemble again. When that happens, it has noticed
// and hung up on its clients.
func (r *Replica) SetCut(c Cut) {
	r.mu.Lock()
	r.cut = c
	if c == Whole {
		for _, k := range r.conns {
			k.endLocked()
		}
	}
	r.mu.Unlock()
	r.wake()
}

// SetForgetful makes the replica give another session to a client that asks for one that has ended, as a server
// was seen to do (ClickHouse 116690), or no longer.
func (r *Replica) SetForgetful(yes bool) {
	r.mu.Lock()
	r.forgets = yes
	r.mu.Unlock()
}

func (r *Replica) wake() {
	select {
	case r.fed <- struct{}{}:
	default:
	}
}

// Watches returns how many watches clients have.
func (r *Replica) Watches() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watches.Count()
}

// Close hangs up on all clients and waits until nothing of the replica runs any more.
func (r *Replica) Close() {
	r.ln.Close()
	close(r.done)
	r.mu.Lock()
	r.closed = true
	for _, k := range r.conns {
		k.endLocked()
	}
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Replica) accept() {
	for {
		nc, err := r.ln.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.serve(nc) })
	}
}

// follow applies what the leader has committed when it is due.
func (r *Replica) follow() {
	for {
		var wait <-chan time.Time
		r.mu.Lock()
		for r.cut == Whole && len(r.queue) > 0 {
			if d := time.Until(r.queue[0].at); d > 0 {
				wait = time.After(d)
				break
			}
			r.applyLocked(&r.queue[0].txn)
			r.queue = r.queue[1:]
		}
		r.mu.Unlock()
		select {
		case <-wait:
		case <-r.fed:
		case <-r.done:
			return
		}
	}
}

// applyLocked applies a transaction, tells those that watch, and sends what has waited for it.
func (r *Replica) applyLocked(t *txn.Txn) {
	r.tree.Apply(t, &r.outcome)
	for _, e := range r.outcome.Effects {
		for _, d := range r.watches.Trigger(nil, e.Event) {
			if k := r.conns[d.To]; k != nil {
				k.eventLocked(d.Event)
			}
		}
	}
	for id := watch.Watcher(1); id <= r.last; id++ { // in a definite order
		if k := r.conns[id]; k != nil {
			k.pumpLocked()
		}
	}
}

// relay tells the leader twice a tick which sessions the replica has heard of.
func (r *Replica) relay() {
	ticker := time.NewTicker(r.tick / 2)
	defer ticker.Stop()
	ping := (&wire.RequestHeader{Xid: wire.XidPing, Op: wire.OpPing}).AppendTo(nil)
	for {
		select {
		case <-ticker.C:
		case <-r.done:
			return
		}
		r.mu.Lock()
		for id := watch.Watcher(1); id <= r.last && r.cut == Whole; id++ {
			if k := r.conns[id]; k != nil && k.heard {
				k.heard = false
				k.up.add(ping)
			}
		}
		r.mu.Unlock()
	}
}
