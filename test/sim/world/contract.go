package world

import (
	"errors"

	"github.com/lockkeeper/lockkeeper/zk"
)

// begins checks that work under a hold does not begin with nothing left of its lease (F20). A process that was paused could
// not look.
func (w *World) begins(s Step, h holding) {
	p := w.procs[s.Who]
	if left := h.Remaining(); left <= 0 && h.Cause() == nil && !p.excused() {
		w.violated("F20: #%d of p%d begins with %v left", s.ID, s.Who, left)
	}
}

// A reading is a read of a counter under its lock, from before it is sent.
type reading struct {
	path  string
	least int // the counter's value that was confirmed by then
}

func (w *World) read(path string) reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	return reading{path, w.confirmed[path]}
}

// check checks the outcome of a read: it is not older than what the holders before have been told that they wrote. A holder
// that was put out by force may be behind others.
func (r reading) check(w *World, s Step, st *stay, value int, err error) {
	if err != nil && !errors.Is(err, zk.ErrNoNode) || value >= r.least {
		return
	}
	if w.witness.inside(st) {
		w.violated("I1: #%d read %d in %s under token %#x, %d had been confirmed", s.ID, value, r.path, st.token, r.least)
	}
}

// confirm notes that a holder was told that it wrote a value.
func (w *World) confirm(path string, value int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirmed[path] = max(w.confirmed[path], value)
}
