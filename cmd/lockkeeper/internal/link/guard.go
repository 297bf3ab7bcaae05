package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// GuardName is the name under which the guard runs. It is not that of the program, so that a kill of
// all processes of that name spares the one that cleans up behind them.
const GuardName = "lk-guard"

// GuardCommand is the subcommand that makes a guard of the program.
const GuardCommand = "guard"

// GuardFDs are the guard's descriptors, by the numbers that they have in the front: those that the front's
// user has opened keep theirs, because they are the child's.
type GuardFDs struct {
	Task    int // read: a Task; its end means that the front is dead
	Events  int // written: Events
	Cell    int
	Condemn int // read, from the engine: a byte means that the lock is gone
	Swept   int // never written; its end tells the engine that the guard is gone, and nothing left that it could kill
}

// All returns all of them.
func (f GuardFDs) All() []int { return []int{f.Task, f.Events, f.Cell, f.Condemn, f.Swept} }

// Args returns the guard's command line.
func (f GuardFDs) Args() []string { return []string{GuardName, GuardCommand, f.text()} }

func (f GuardFDs) text() string {
	return fmt.Sprintf("%d,%d,%d,%d,%d", f.Task, f.Events, f.Cell, f.Condemn, f.Swept)
}

// ParseGuardFDs reads the last word of the command line.
func ParseGuardFDs(s string) (f GuardFDs, err error) {
	_, err = fmt.Sscanf(s, "%d,%d,%d,%d,%d", &f.Task, &f.Events, &f.Cell, &f.Condemn, &f.Swept)
	if err == nil && (f.text() != s || slices.Min(f.All()) <= syscall.Stderr) {
		err = errors.New("not descriptors of a guard")
	}
	return f, err
}

// A Task is what the front tells the guard: to start the child. Names, arguments and variables are bytes,
// because they need not be text.
type Task struct {
	Program    []byte
	Argv, Env  [][]byte
	Foreground bool // the child's group gets the terminal
	Plan       Plan
	Watched    proc.Process // see Open
}

// taskBytesMax limits a task. Linux takes 6 MiB of arguments and variables at most, which are a third
// more as JSON.
const taskBytesMax = 16 << 20

// SendTask writes a task.
func SendTask(w io.Writer, t Task) error { return json.NewEncoder(w).Encode(t) }

// ReceiveTask reads the task. The error is io.EOF if the stream ended before there was one.
func ReceiveTask(r io.Reader) (t Task, err error) {
	err = json.NewDecoder(io.LimitReader(r, taskBytesMax)).Decode(&t)
	return t, err
}

// An Event is what the guard tells the front about the child.
type Event struct {
	Is     string             `json:"is"`               // one of the Child constants
	Pid    int                `json:"pid,omitempty"`    // for ChildStarted
	Errno  syscall.Errno      `json:"errno,omitempty"`  // for ChildRefused
	Status syscall.WaitStatus `json:"status,omitempty"` // for ChildStopped and ChildEnded
	Late   bool               `json:"late,omitempty"`   // for ChildEnded: the guard has killed it, because of the deadline
}

// What can become of a child. The first event is one of the first three; after ChildLate and
// ChildRefused there are no more.
const (
	ChildStarted = "started"
	ChildLate    = "late"    // the lock was over before it was started
	ChildRefused = "refused" // the system does not execute it
	ChildStopped = "stopped"
	ChildEnded   = "ended"
)
