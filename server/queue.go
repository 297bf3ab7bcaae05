package server

import "sync"

// A queue holds what waits for the commit loop, in the order in which it is going to be decided.
// It has no limit of its own: each connection has one, and what the server asks of itself is
// bounded by the number of sessions.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond

	// Guarded by mu.
	items  []*request
	closed bool
}

func newQueue() *queue {
	q := new(queue)
	q.filled.L = &q.mu
	return q
}

// put adds a request. It reports false, and does nothing, if the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, r)
	if len(q.items) == 1 {
		q.filled.Signal()
	}
	return true
}

// take waits until there is something and returns all of it. The caller passes the slice that it
// has worked off, to be filled next. It returns nothing once the queue is closed and empty.
func (q *queue) take(worked []*request) []*request {
	clear(worked)
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	items := q.items
	q.items = worked[:0]
	return items
}

// size returns how many requests wait.
func (q *queue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// close lets take end, once it has returned what is there.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
