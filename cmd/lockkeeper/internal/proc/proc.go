// Package proc finds and signals the processes that descend from this one.
//
// On Linux it reads /proc, and the processes whose parent has died come back to us (Adopt), so that
// nothing a command starts can get away by forking. Elsewhere only process groups are seen.
package proc

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Process is a line of the process table.
type Process struct {
	Pid, Parent, Group, Session int

	State   byte   // of the first thread, as in /proc: R, S, D, T, Z, X, …
	Threads int    // the first one included, also if it has ended
	Start   uint64 // when it was started, in ticks since boot: tells it from a later one of the same number
}

// Dead reports whether p has ended and only waits for its parent to take notice. A process whose first thread
// has ended goes on with the others.
func (p Process) Dead() bool {
	return (p.State == 'Z' || p.State == 'X' || p.State == 'x') && p.Threads <= 1
}

// Below returns the live processes of table that descend from root, leaving out those that spare
// wants left alone, together with their descendants.
func Below(table []Process, root int, spare func(Process) bool) []Process {
	children := make(map[int][]Process)
	for _, p := range table {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var below []Process
	for next := []int{root}; len(next) > 0; {
		parent := next[len(next)-1]
		next = next[:len(next)-1]
		for _, p := range children[parent] {
			if spare(p) {
				continue
			}
			if !p.Dead() {
				below = append(below, p)
			}
			next = append(next, p.Pid)
		}
		delete(children, parent) // a table that is not a tree must not keep us for ever
	}
	return below
}

// Reap tells f of each child of this process that has ended or stopped and was not told of yet. It does
// not wait. Nothing else may wait for children: the number of one that has been reaped may be another's.
func Reap(f func(pid int, status syscall.WaitStatus)) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || pid <= 0:
			return
		default:
			f(pid, status)
		}
	}
}

// SignalGroup sends a signal to a process group. A group without members is no error: the process that was to
// be signalled has ended.
func SignalGroup(group int, sig syscall.Signal) error {
	if err := syscall.Kill(-group, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// GroupAlive reports whether a process group has a member that has not ended.
func GroupAlive(group int) bool {
	if err := syscall.Kill(-group, 0); errors.Is(err, syscall.ESRCH) {
		return false
	}
	table, err := Table()
	if err != nil {
		return true // there are members, and no way to tell whether they are dead already
	}
	for _, p := range table {
		if p.Group == group && !p.Dead() {
			return true
		}
	}
	return false
}

// Orphaned reports whether a process group has no member whose parent, in another group of the same
// session, could continue it: the kernel does not let the keyboard stop such a group.
func Orphaned(group, session int) bool {
	table, err := Table()
	if err != nil { // our own parent is the one we can ask about
		parent := syscall.Getppid()
		theirs, err := syscall.Getpgid(parent)
		sid, sidErr := unix.Getsid(parent)
		return err != nil || sidErr != nil || theirs == group || sid != session
	}
	byPid := make(map[int]Process)
	for _, p := range table {
		byPid[p.Pid] = p
	}
	for _, p := range table {
		if p.Group != group {
			continue
		}
		if parent, ok := byPid[p.Parent]; ok && parent.Group != group && parent.Session == session {
			return false
		}
	}
	return true
}
