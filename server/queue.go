package server

import "sync"

// queue holds the requests that wait to be committed, and decides which goroutine is the committer. A connection's reader
// becomes the committer if there is none and little waits (takeInline). What gathers meanwhile is left to the commit loop
// (next), until the queue is empty. A create may wait for company (commitDelay).
//
// The order of requests is that of their arrival, except that requests that are much work wait apart from others. The
// order of one connection's requests never changes.
//
// The queue has no limit of its own: each connection has one, and the requests of the server itself are bounded by the
// number of sessions.
type queue struct {
	mu   sync.Mutex
	turn sync.Cond // for the commit loop: committer or closed has changed

	// Guarded by mu.
	items     []*request
	later     []*request // requests that are much work, and what their connections have sent behind them
	turnLater bool       // later is taken from next
	taken     int        // how often items has been taken
	own       int        // what the server's own requests in items are worth
	spare     []*request // the next to be filled
	last      int        // how many were taken last
	committer committer
	closed    bool
	delay     commitDelay
}

// committer says which kind of goroutine is the committer.
type committer uint8

const (
	none committer = iota
	reader
	loop
)

func newQueue() *queue {
	q := new(queue)
	q.turn.L = &q.mu
	return q
}

// put adds a request, and makes sure that it is committed. It reports false, and does nothing, if the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.appendLocked(r)
	q.wakeLocked()
	return true
}

// add is put for a reader, which calls commitInline before it waits for anything.
func (q *queue) add(r *request) {
	q.mu.Lock()
	q.appendLocked(r)
	q.mu.Unlock()
}

func (q *queue) appendLocked(r *request) {
	c, work := r.conn, r.work
	if c == nil {
		work += q.own
	} else {
		if c.workTaken != q.taken {
			c.work, c.workTaken = 0, q.taken
		}
		c.work += max(r.work-1, 0) // a request of one operation counts only as one of a connection's requests
		work = max(work, c.work)
	}
	if r.attach == nil && (work > muchWork || c != nil && c.behind > 0) {
		r.taken = q.taken
		q.later = append(q.later, r)
		if c != nil {
			c.behind++
		}
	} else {
		if c == nil {
			q.own = work
		}
		q.delayLocked(r)
		q.items = append(q.items, r)
	}
}

// wakeLocked makes the commit loop the committer if there is something to commit and no committer.
func (q *queue) wakeLocked() {
	if q.readyLocked() {
		q.committer = loop
		q.turn.Signal()
	}
}

// readyLocked reports whether there is something to commit that does not wait for company, and no committer.
func (q *queue) readyLocked() bool {
	return q.committer == none && len(q.items)+len(q.later) > q.delay.requests
}

// inlineMax is up to how many requests at a time readers commit. Where more gather, clients are better served by
// readers that read on.
const inlineMax = 4

// takeInline makes the calling reader the committer and returns the requests to commit; the caller calls pass when they are
// done. It returns nothing if nothing waits, if there is a committer, or if the commit loop becomes the committer because
// much has gathered.
func (q *queue) takeInline() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last > inlineMax {
		q.wakeLocked()
	}
	if !q.readyLocked() {
		return nil
	}
	q.committer = reader
	return q.takeLocked()
}

// pass ends what takeInline began. The commit loop commits what has gathered meanwhile.
func (q *queue) pass(worked []*request) {
	clear(worked)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare, q.committer = worked[:0], none
	q.wakeLocked()
}

// next waits until the commit loop is the committer and returns the requests to commit. The caller passes those that are
// done. It returns nothing once the queue is closed and empty.
func (q *queue) next(worked []*request) []*request {
	clear(worked)
	q.mu.Lock()
	defer q.mu.Unlock()
	if worked != nil {
		q.spare, q.committer = worked[:0], none
		q.wakeLocked()
	}
	for q.committer != loop && !q.closed {
		q.turn.Wait()
	}
	return q.takeLocked()
}

func (q *queue) takeLocked() []*request {
	q.delay.requests = 0
	if len(q.items) == 0 || q.turnLater && q.laterReadyLocked() {
		return q.takeLaterLocked()
	}
	q.taken, q.own = q.taken+1, 0
	items := q.items
	q.items, q.spare, q.last = q.spare, nil, len(items)
	q.turnLater = true
	return items
}

// laterReadyLocked reports whether the first request in later may be taken: what its connection has sent before it is not
// in items any more.
func (q *queue) laterReadyLocked() bool {
	return len(q.later) > 0 && (len(q.items) == 0 || q.later[0].taken < q.taken)
}

// takeLaterLocked takes requests worth about one that is much work, at least one. What is in items takes turns with them:
// so a request that is little work waits for one that is much, and not for all of them.
func (q *queue) takeLaterLocked() []*request {
	var items []*request
	work := 0
	for q.laterReadyLocked() {
		r := q.later[0]
		work += max(r.work, 1)
		if work > laterWork && len(items) > 0 {
			break
		}
		items = append(items, r)
		if r.conn != nil {
			r.conn.behind--
		}
		q.later[0] = nil
		q.later = q.later[1:]
	}
	q.last, q.turnLater = len(items), false
	return items
}

// A request worth more operations than muchWork waits apart from others, and so does what a connection, or the server itself, asks in
// addition when its requests in items are worth more. About laterWork operations are carried out at a time.
const (
	muchWork  = 256
	laterWork = 2000
)

// size returns how many requests wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) + len(q.later)
}

// close lets next end, once it has returned what is there. No reader may be left.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	if q.delay.alarm != nil {
		q.delay.alarm.Stop()
	}
	q.turn.Signal()
}
