package server

import (
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A commitDelay lets a create wait for company. Where several sessions take turns at a lock, the one that has released it mostly asks
// again at once, and its create arrives just before the release of the next holder, which would have to wait for the create's sync.
// The create is in no hurry: it goes to the end of a queue. So when a client has been told of the end of a znode, and two or more are
// left in its directory (a holder, and one that waits), a create of an ephemeral sequential znode there waits until there is anything
// else to commit, but no longer than two commitDelayMax. Other writes wait for nothing. Guarded by queue.mu.
type commitDelay struct {
	dir      string        // a directory in which a queue has moved
	until    time.Duration // on the server's clock: what arrives later does not wait
	requests int           // that wait: all of queue.items; 0 once there is company
	alarm    *time.Timer   // ends the wait; nil if it is not set
	alarmFor int           // queue.taken when the alarm was set
}

const commitDelayMax = time.Millisecond

// noteHandOver tells the queue of the directory in which a znode has ended, if the batch has told another client of that.
func (s *Server) noteHandOver(now time.Duration) {
	if s.told == "" {
		return
	}
	told, dir := s.told, zk.Parent(s.told)
	s.told = ""
	if _, ok := s.tree.Lookup(told); ok {
		return
	}
	until := now + commitDelayMax
	if stat, _ := s.tree.Lookup(dir); stat.NumChildren < 2 {
		until = 0 // what asks again is next in line, and its client should watch the holder before that one goes
	}
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	s.queue.delay.dir, s.queue.delay.until = strings.Clone(dir), until
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

// endDelay commits what has waited since the alarm was set.
func (q *queue) endDelay() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delay.alarm = nil
	if q.delay.requests > 0 && q.delay.alarmFor != q.taken {
		q.delay.setAlarm(q)
		return
	}
	q.delay.requests = 0
	q.wakeLocked()
}
