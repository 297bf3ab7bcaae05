package server

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A commitDelay lets a create wait for company. Where several sessions take turns at a lock, the one that has released it mostly asks
// again at once, and its create arrives just before the release of the next holder, which would have to wait for the create's sync.
// The create is in no hurry: it goes to the end of a queue. So when a znode is deleted whose end another client waits for, and two or
// more are left in its directory (a holder, and one that waits), a create of an ephemeral sequential znode there waits, with the reads
// that its connection sends behind it, until there is anything else to commit, but no longer than two commitDelayMax. Of several such
// directories only the last one counts. Guarded by queue.mu.
type commitDelay struct {
	dir      string        // the directory in which a queue has moved
	until    time.Duration // on the server's clock: what is received later does not wait
	requests int           // how many of queue.items wait; if there are more, those are the company
	alarm    *time.Timer   // ends the wait; nil if it is not set
	alarmFor int           // queue.taken when the alarm was set
}

const commitDelayMax = time.Millisecond

// noteHandOver tells the queue of the directory in which the batch has deleted a znode that another client waited for.
func (s *Server) noteHandOver(now time.Duration) {
	if s.handedOver == "" {
		return
	}
	dir, until := zk.Parent(s.handedOver), now+commitDelayMax
	s.handedOver = ""
	if stat, _ := s.tree.Lookup(dir); stat.NumChildren < 2 {
		until = 0 // what asks again is next in line, and its client should watch the holder before that one goes
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.delay.dir, s.queue.delay.until = strings.Clone(dir), until // the path is a part of a request's memory
}

// delayLocked has r, which is about to be appended to items, wait if it may. The alarm is not set anew for each wait, which would cost
// as much as is saved: it goes off when one of them has taken long enough, and looks.
func (q *queue) delayLocked(r *request) {
	d := &q.delay
	if len(q.items) != d.requests || !d.mayWait(r, q.items) {
		return
	}
	d.requests++
	if d.alarm == nil {
		d.setAlarm(q)
	}
}

func (d *commitDelay) setAlarm(q *queue) {
	d.alarm, d.alarmFor = time.AfterFunc(commitDelayMax, q.endDelay), q.taken
}

// mayWait reports whether r may wait behind others that do: a create, or a read that the connection has sent behind its create.
func (d *commitDelay) mayWait(r *request, others []*request) bool {
	if n := len(others); n > 0 && others[n-1].conn == r.conn {
		return !isWrite(r.op)
	}
	return (r.op == wire.OpCreate || r.op == wire.OpCreate2) && r.single.Mode == zk.EphemeralSequential &&
		r.received < d.until && zk.Parent(r.single.Path) == d.dir
}

// endDelay ends the wait for which the alarm was set. If that one is over and another one has begun, the alarm is set again.
func (q *queue) endDelay() {
	q.mu.Lock()
	defer q.mu.Unlock()
	d := &q.delay
	d.alarm = nil
	switch {
	case d.requests == 0 || q.closed:
	case d.alarmFor != q.taken:
		d.setAlarm(q)
	default:
		d.requests = 0
		q.wakeLocked()
	}
}
