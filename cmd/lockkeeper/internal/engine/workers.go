package engine

import (
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// The workers are the processes that work under the lock, as the engine can know them.
type workers struct {
	group int      // the child's; 0 before the front has told us
	env   []string // the variables that mark them
	spare func(proc.Process) bool

	watched proc.Process // one that is no descendant of the front; with the Pid 0 there is none
}

// marked returns the live processes outside of the group that carry the lock's variables.
func (w *workers) marked() (found []proc.Process) {
	table, err := proc.Table()
	if err != nil {
		return nil // the group is all we know here
	}
	for _, p := range table {
		if !p.Dead() && p.Group != w.group && proc.HasEnv(p, w.env) && !w.spare(p) {
			found = append(found, p)
		}
	}
	return found
}

// kill kills them, and reports whether there were any. What it may not kill it cannot help.
func (w *workers) kill() bool {
	grouped := w.group != 0 && proc.GroupAlive(w.group)
	if grouped {
		proc.SignalGroup(w.group, syscall.SIGKILL)
	}
	marked := w.marked()
	if w.watched.Pid > 0 && proc.Lives(w.watched) {
		marked = append(marked, w.watched)
	}
	for _, p := range marked {
		proc.Signal(p, syscall.SIGKILL)
	}
	return grouped || len(marked) > 0
}
