package world

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/test/sim/model"
)

// A witness is the resource behind every lock, and sees which clients are inside (I1).
//
// Two kinds of holders cannot do better than they do, and are excused: those that were put out by force
// (an operator deleted their node or ended their session) until the news reaches them, and those of a
// process that is paused. Only their tokens give them away.
type witness struct {
	w  *World
	mu sync.Mutex // guards what follows

	stays   []*stay
	out     map[any]time.Duration     // when nodes and sessions were put out by force
	highest map[string]int64          // token of those that did not share, by path
	left    map[string]time.Duration  // when a process last left
	taking  map[string]int            // how many may have a lock while they wait for another
	waiting map[int]string            // node of the waiter in a queue, by step
	grants  map[string]*model.History // of locks that one has at a time, by path
}

func newWitness(w *World) *witness {
	return &witness{
		w: w, out: map[any]time.Duration{}, highest: map[string]int64{}, left: map[string]time.Duration{}, taking: map[string]int{},
		waiting: map[int]string{}, grants: map[string]*model.History{},
	}
}

// A stay is a hold, as the witness sees it.
type stay struct {
	p       *proc
	path    string
	hold    holding
	token   int64
	session int64
	kind    stayKind
	asked   time.Duration // when the lock was asked for
	entered time.Duration
}

// A stayKind says with which others a holder may be inside.
type stayKind int

const (
	alone   stayKind = iota
	sharing          // with others that share
	permit           // with as many as there are permits
)

func (s *stay) String() string { return fmt.Sprintf("p%d with token %#x", s.p.n, s.token) }

// enter is called by a holder that begins to work.
func (t *witness) enter(s *stay) {
	now := t.w.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	s.entered = now
	t.stays = append(t.stays, s)
	if s.kind == alone {
		t.history(s.path).Add(model.LockStep{Grant: true, Token: s.token}, s.asked, nil, now)
	}
	if s.p.excused() {
		return
	}
	if at, forced := t.forced(s); forced {
		// A grant rests on an answer that is younger than that.
		if now > at+t.w.plan.Timeout*2/3 {
			t.w.violated("I1: %v entered %s %v after it had been put out", s, s.path, now-at)
		}
		return
	}
	inside := 1
	for _, o := range t.stays {
		if _, forced := t.forced(o); o == s || o.path != s.path || forced || o.p.excused() {
			continue
		}
		inside++
		if s.kind == alone || o.kind == alone {
			t.w.violated("I1: %v entered %s while %v was inside", s, s.path, o)
		}
	}
	if s.kind == permit {
		if most := t.w.plan.permitsMax(s.path); inside > most {
			t.w.violated("I1: %v is number %d in %s, there are %d permits", s, inside, s.path, most)
		}
		return
	}
	if s.token <= t.highest[s.path] {
		t.w.violated("I1: %v entered %s after token %#x", s, s.path, t.highest[s.path])
	}
	if s.kind == alone {
		t.highest[s.path] = s.token
	}
}

// leave is called by a holder that has stopped working.
func (t *witness) leave(s *stay) {
	now := t.w.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.stays, s)
	if i < 0 {
		return // it has left, or never came in
	}
	t.stays = slices.Delete(t.stays, i, i+1)
	t.left[s.path] = now
	at, forced := t.forced(s)
	at = max(at, s.entered)
	if forced && now > at+t.w.plan.Timeout*2/3+250*time.Millisecond && s.p.pausedSince(at) < 0 {
		t.w.violated("F16: %v stayed in %s for %v after it had been put out", s, s.path, now-at)
	}
	t.ended(s)
}

// ended notes that a holder is no longer alone inside. It may have lost the lock as soon as it was put out
// or paused.
func (t *witness) ended(s *stay) {
	if s.kind != alone {
		return
	}
	end := t.w.now()
	if at, forced := t.forced(s); forced {
		end = min(end, at)
	}
	if paused := s.p.pausedSince(s.entered); paused >= 0 {
		end = min(end, paused)
	}
	t.history(s.path).Add(model.LockStep{Token: s.token}, end, nil, model.Never)
}

// share notes that a holder, unless it has left, lets others that share in from now on.
func (t *witness) share(s *stay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slices.Contains(t.stays, s) {
		t.ended(s)
	}
	s.kind = sharing
}

func (t *witness) history(path string) *model.History {
	if t.grants[path] == nil {
		t.grants[path] = &model.History{}
	}
	return t.grants[path]
}

// putOut notes that a node, by its path, or a session, by its id, is about to be removed by force.
func (t *witness) putOut(who any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.out[who]; !again {
		t.out[who] = t.w.now()
	}
}

// waits notes that a step waits in line with a node; with none: that it waits no more. A waiter learns in
// time that its node is gone.
func (t *witness) waits(s Step, node string) {
	now, calm := t.w.now(), t.w.calm()
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.waiting[s.ID]
	if before == node {
		return
	}
	due := calm + t.w.plan.Timeout + 2*t.w.plan.Tick + time.Second
	if at, gone := t.out[before]; gone && now > max(at, due) {
		t.w.violated("F06: #%d waited with %s for %v after that was gone", s.ID, before, now-at)
	}
	t.waiting[s.ID] = node
}

// forced reports whether a holder was put out by force, and when.
func (t *witness) forced(s *stay) (at time.Duration, yes bool) {
	at, yes = t.out[s.hold.Node()]
	if !yes {
		at, yes = t.out[s.session]
	}
	return at, yes
}

// inside reports whether a holder that has entered may believe so: it was not put out by force, and its process runs.
func (t *witness) inside(s *stay) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, forced := t.forced(s)
	return slices.Contains(t.stays, s) && !forced && s.p.pausedSince(s.entered) < 0
}

// last returns the process that has come in last of those inside; nil if none is.
func (t *witness) last() *proc {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.stays) == 0 {
		return nil
	}
	return t.stays[len(t.stays)-1].p
}

// takes notes that a process begins, or stops, to take several locks one after the other.
func (t *witness) takes(paths []string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range paths {
		t.taking[path] += n
		t.left[path] = t.w.now()
	}
}

// idle returns since when no process is inside; -1 if one is, or may be.
func (t *witness) idle(path string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.taking[path] > 0 {
		return -1
	}
	for _, s := range t.stays {
		if s.path == path {
			return -1
		}
	}
	return t.left[path]
}
