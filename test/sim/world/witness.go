package world

import (
	"fmt"
	"sync"
)

// A witness stands at the far side of every lock and sees who is inside (I1).
//
// Two kinds of holders cannot do better than they do, and are excused: those that were put out by force
// (an operator deleted their node or ended their session) until the news reaches them, and those of a
// process that is paused. Only their tokens give them away, and those the witness checks as a register
// would.
type witness struct {
	w  *World
	mu sync.Mutex // guards what follows

	stays   []*stay
	out     map[int64]bool // tokens and sessions of those put out by force
	highest map[string]int64
}

// A stay is a hold, as the witness sees it.
type stay struct {
	p       *proc
	path    string
	token   int64
	session int64
	shared  bool
}

func (s *stay) String() string { return fmt.Sprintf("p%d with token %#x", s.p.n, s.token) }

// enter is called by a holder that begins to work.
func (t *witness) enter(s *stay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.forced(s) {
		return
	}
	for _, o := range t.stays {
		if o.path == s.path && !(o.shared && s.shared) && !t.forced(o) && !o.p.excused() && !s.p.excused() {
			t.w.violated("I1: %v entered %s while %v was inside", s, s.path, o)
		}
	}
	if t.highest == nil {
		t.highest = map[string]int64{}
	}
	if s.token <= t.highest[s.path] && !s.p.excused() {
		t.w.violated("I1: %v entered %s after token %#x", s, s.path, t.highest[s.path])
	}
	if !s.shared {
		t.highest[s.path] = max(t.highest[s.path], s.token)
	}
	t.stays = append(t.stays, s)
}

// leave is called by a holder that has stopped working.
func (t *witness) leave(s *stay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range t.stays {
		if o == s {
			t.stays = append(t.stays[:i], t.stays[i+1:]...)
			return
		}
	}
}

// share notes that a holder lets others that share in from now on.
func (t *witness) share(s *stay) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.shared = true
}

// putOut notes that a node, by its token, or a session is about to be removed by force. The numbers of the
// two are far apart.
func (t *witness) putOut(who int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out == nil {
		t.out = map[int64]bool{}
	}
	t.out[who] = true
}

func (t *witness) forced(s *stay) bool { return t.out[s.token] || t.out[s.session] }
