package front

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// A terminal is our controlling terminal.
type terminal struct{ *os.File }

// openTerminal returns the controlling terminal, or nil if there is none.
func openTerminal() *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{f}
}

// HasTerminal reports whether our process group has the controlling terminal, which sends the signals of its keys to the whole group.
func HasTerminal() bool {
	t := openTerminal()
	if t == nil {
		return false
	}
	defer t.Close()
	return t.foreground() == syscall.Getpgrp()
}

func (t *terminal) fd() int { return int(t.Fd()) }

// foreground returns the process group that has the terminal, or 0 if that cannot be told.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// give makes group the foreground group. Without ignoring TTOU we would be stopped for asking.
func (t *terminal) give(group int) {
	ignored := signal.Ignored(syscall.SIGTTOU)
	signal.Ignore(syscall.SIGTTOU)
	unix.IoctlSetPointerInt(t.fd(), unix.TIOCSPGRP, group) // it may have gone away; so be it
	if !ignored {
		signal.Reset(syscall.SIGTTOU)
	}
}

// isStdin reports whether standard input is this terminal.
func (t *terminal) isStdin() bool {
	group, err := unix.IoctlGetInt(syscall.Stdin, unix.TIOCGPGRP) // fails on any but the controlling one
	return err == nil && group == t.foreground()
}

// accompanied reports whether there is more in our process group than we and the processes that wait for us: the rest of a
// pipeline, which would be stopped when it uses the terminal, had we given that away. The child gets it when it
// asks for it.
func accompanied(self, group int) bool {
	table, err := proc.Table()
	if err != nil {
		return false // as if we had not been asked
	}
	parents := make(map[int]int)
	for _, p := range table {
		parents[p.Pid] = p.Parent
	}
	forUs := map[int]bool{}
	for pid := self; pid != 0 && !forUs[pid]; pid = parents[pid] {
		forUs[pid] = true
	}
	return slices.ContainsFunc(table, func(p proc.Process) bool { return p.Group == group && !p.Dead() && !forUs[p.Pid] })
}

// A suspension is what ^Z and its kin are doing to us.
type suspension struct {
	interactive bool // the child's standard input is our terminal, and no other process is in our group

	asked  bool // we were told to stop, and have passed it on to the child
	handed bool // the child has had the terminal from us
}

// childStopped follows a child that has stopped: as far as the shell is concerned, the child and we
// are one job.
func (f *front) childStopped(by syscall.Signal) {
	s := &f.child.suspend
	wantsTerminal := by == syscall.SIGTTIN || by == syscall.SIGTTOU
	switch {
	case f.child.ending:
		f.signal(syscall.SIGCONT, nil)
	case f.tty == nil:
		// The process that stopped it will continue it.
	case wantsTerminal && f.tty.foreground() == f.group:
		s.handed = true
		f.tty.give(f.child.pid)
		f.signal(syscall.SIGCONT, nil)
	case wantsTerminal && f.tty.foreground() == f.child.pid:
		f.signal(syscall.SIGCONT, nil) // it has got it while it was being stopped
	case f.tty.foreground() == f.child.pid:
		// The whole job would have been stopped had we not put the child in a group of its own.
		f.tty.give(f.group)
		f.stop(true)
	case wantsTerminal || s.asked:
		f.stop(false)
	}
}

// stop stops us, or our whole process group, until it is continued. A group that no shell could
// continue is not stopped, as the kernel does not stop one: the child is just continued.
func (f *front) stop(whole bool) {
	f.child.suspend.asked = false
	if !proc.Orphaned(f.group, f.session) {
		f.tstp.forget()
		f.cont.forget()
		if whole {
			syscall.Kill(0, syscall.SIGTSTP)
			if f.heedsStop { // it comes to us, too
				f.tstp.await()
			}
		}
		syscall.Kill(f.self, syscall.SIGSTOP) // TSTP is caught; this returns when we have been continued
		f.cont.await()
		f.tstp.forget()
	}
	f.resume()
}

// resume continues the child after we have been continued, in the foreground if that is where we are.
func (f *front) resume() {
	// Being continued is the moment at which deadlines are found to have passed.
	f.watchDeadline()
	s := &f.child.suspend
	if s.interactive && !f.child.ended && f.tty.foreground() == f.group {
		s.handed = true
		f.tty.give(f.child.pid)
	}
	f.signalGroup(syscall.SIGCONT, f.live())
}

// sessionID returns the session we are in.
func sessionID() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return 0 // cannot happen for ourselves
	}
	return sid
}
