package engine

import (
	"slices"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// The workers are the processes that work under the lock, as the engine can know them.
type workers struct {
	group int      // the child's; 0 before the front has told us
	env   []string // the variables that mark them
	spare func(proc.Process) bool
	since uint64 // when the engine was started, in the process table's ticks: none of them is older

	watched proc.Process // one that is no descendant of the front; with the Pid 0 there is none
	aware   func() bool  // whether that one knows of the lock

	doubted time.Time // since when kill has found none and has not been sure of it; zero if it has not
}

// doubtMax is how long there may be workers that are not found. A program is executed faster, and there are processes that never
// show an environment: one that has unmapped it, or that hangs in the kernel when it ends.
const doubtMax = 30 * time.Second

// marked returns the live processes outside of the group that carry the lock's variables. It is not sure that these are
// all while a process executes a program, or ends.
func (w *workers) marked() (found []proc.Process, sure bool) {
	table, err := proc.Table()
	if err != nil {
		return nil, true // the group is all we know here
	}
	sure = true
	for _, p := range table {
		if p.Dead() || p.Group == w.group || p.Start < w.since {
			continue
		}
		env, known := proc.Env(p)
		if !known {
			sure = false
		} else if w.mark(env) && !w.spare(p) {
			found = append(found, p)
		}
	}
	return found, sure
}

// mark reports whether an environment has the lock's variables.
func (w *workers) mark(env []string) bool {
	for _, v := range w.env {
		if !slices.Contains(env, v) {
			return false
		}
	}
	return len(w.env) > 0
}

// kill kills them, and reports whether there are any, or may be. What it may not kill it cannot help.
func (w *workers) kill() bool {
	grouped := w.group != 0 && proc.GroupAlive(w.group)
	if grouped {
		proc.SignalGroup(w.group, syscall.SIGKILL)
	}
	found, sure := w.marked()
	if w.watched.Pid > 0 && w.aware() && proc.Lives(w.watched) {
		found = append(found, w.watched)
	}
	for _, p := range found {
		proc.Signal(p, syscall.SIGKILL)
	}
	switch {
	case grouped || len(found) > 0:
		w.doubted = time.Time{}
		return true
	case sure:
		return false
	case w.doubted.IsZero():
		w.doubted = time.Now()
	}
	return time.Since(w.doubted) < doubtMax
}
