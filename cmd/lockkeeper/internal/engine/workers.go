package engine

import (
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// The workers are the processes that work under the lock, as the engine can know them.
type workers struct {
	group   int      // the child's; 0 before the front has told us
	session int      // the front's
	env     []string // the variables that mark them
	spare   func(proc.Process) bool
}

// marked returns the live processes that carry the lock's variables; with daemons also those that have
// left the front's session.
func (w *workers) marked(daemons bool) (found []proc.Process) {
	table, err := proc.Table()
	if err != nil {
		return nil // the group is all we know here
	}
	for _, p := range table {
		if !p.Dead() && (daemons || p.Session == w.session) && p.Group != w.group && proc.HasEnv(p, w.env) && !w.spare(p) {
			found = append(found, p)
		}
	}
	return found
}

// kill kills them. What it may not kill it cannot help.
func (w *workers) kill(daemons bool) {
	if w.group != 0 {
		proc.SignalGroup(w.group, syscall.SIGKILL)
	}
	for _, p := range w.marked(daemons) {
		proc.Signal(p, syscall.SIGKILL)
	}
}

// end kills them after the front has died, and returns when they are gone.
func (w *workers) end() {
	sweep := time.NewTicker(sweepInterval)
	defer sweep.Stop()
	for {
		w.kill(false)
		if (w.group == 0 || !proc.GroupAlive(w.group)) && len(w.marked(false)) == 0 {
			return
		}
		<-sweep.C
	}
}
