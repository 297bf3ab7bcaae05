package server

import "sync"

// A queue holds what waits to be committed, in the order in which it is going to be decided, and the
// right to commit it, which one goroutine has at a time. A connection's reader that finds the right
// free takes it (lead), unless there is much to do; what gathers meanwhile is the commit loop's (next),
// until nothing is left.
//
// It has no limit of its own: each connection has one, and what the server asks of itself is
// bounded by the number of sessions.
type queue struct {
	mu   sync.Mutex
	turn sync.Cond // for the commit loop: committer or closed has changed

	// Guarded by mu.
	items     []*request
	spare     []*request // worked off, to be filled next
	last      int        // how many were taken last
	committer committer
	closed    bool
}

// A committer is who has the right to commit.
type committer uint8

const (
	nobody committer = iota
	reader
	loop
)

func newQueue() *queue {
	q := new(queue)
	q.turn.L = &q.mu
	return q
}

// put adds a request, and sees to it that somebody commits it. It reports false, and does nothing, if
// the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, r)
	q.wakeLocked()
	return true
}

// add is put for a reader, which calls lead before it waits for anything.
func (q *queue) add(r *request) {
	q.mu.Lock()
	q.items = append(q.items, r)
	q.mu.Unlock()
}

// wakeLocked gives the right to the commit loop if there is something to commit and nobody does.
func (q *queue) wakeLocked() {
	if q.committer == nobody && len(q.items) > 0 {
		q.committer = loop
		q.turn.Signal()
	}
}

// leadMax is up to how many requests at a time readers commit. Where more gather, clients are better served by
// readers that read on.
const leadMax = 4

// lead returns all that waits, and with it the right to commit it, which the caller gives back with
// pass. It returns nothing if nothing waits, or somebody has the right and thereby the duty; or gets it,
// because there is much to do.
func (q *queue) lead() []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last > leadMax {
		q.wakeLocked()
	}
	if q.committer != nobody || len(q.items) == 0 {
		return nil
	}
	q.committer = reader
	return q.takeLocked()
}

// pass ends what lead began: what has gathered meanwhile is for the commit loop.
func (q *queue) pass(worked []*request) {
	clear(worked)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.spare, q.committer = worked[:0], nobody
	q.wakeLocked()
}

// next is for the commit loop: it waits until there is something for it and returns all of it. The
// caller passes what it has worked off. It returns nothing once the queue is closed and empty.
func (q *queue) next(worked []*request) []*request {
	clear(worked)
	q.mu.Lock()
	defer q.mu.Unlock()
	if worked != nil {
		q.spare, q.committer = worked[:0], nobody
		q.wakeLocked()
	}
	for q.committer != loop && !q.closed {
		q.turn.Wait()
	}
	return q.takeLocked()
}

func (q *queue) takeLocked() []*request {
	items := q.items
	q.items, q.spare, q.last = q.spare, nil, len(items)
	return items
}

// size returns how many requests wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// close lets next end, once it has returned what is there. No reader may be left.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.turn.Signal()
}
