// Package guard is the process between the front and the child that works under the lock: the child's
// parent, which ends it when no other process does.
//
// Guarantees:
//
//  1. The child is started only while the lock is held.
//  2. When the front is dead, or the deadline of the lock has passed, or the engine says that the lock is
//     gone, the guard kills the child and everything that descends from it, whatever group, session or
//     environment it has made for itself: what its parent has left behind comes back to the guard (on
//     Linux; elsewhere it knows the child's group only). It needs neither front nor engine for that.
//     With them it kills the process of Task.Watched, which is no descendant, if that knows of the lock.
//  3. It ends only when the front says so, by killing it, or when the front is dead and nothing is left.
//
// If the guard itself is killed, the kernel kills the child (on Linux), and all that it has started comes
// back to the front, which ends it.
package guard

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// headStart is for the front to end the child itself, and to say why.
const headStart = 20 * time.Millisecond

// eventsMax is how many events may wait for a front that is stopped. All but the last place are for
// stops of the child, which are dropped while others wait.
const eventsMax = 8

// Pipes are the guard's ends of them; see link.GuardFDs.
type Pipes struct {
	Task    io.Reader
	Events  io.Writer
	Condemn io.Reader
}

// A guard is the state of the process. The goroutine of Run owns it.
type guard struct {
	self   int
	spare  func(proc.Process) bool
	cell   *link.Cell
	events chan link.Event // received by the goroutine that writes them to the front
	plan   link.Plan
	child  int // 0 before it is started

	watched proc.Process // ended with the child; with the Pid 0 there is none

	front    <-chan struct{} // closed when the front is dead
	condemn  <-chan struct{} // a token: the lock is gone
	frontEnd bool
	late     bool // the deadline has passed; it may have moved on since
	lost     bool // the lock is; nothing may be left
	sweeps   int  // since something was found that must not be there
}

// Run serves one front, and returns when there is nothing left to do. It takes the calling goroutine's
// thread for itself, because the kernel ties the child's life to the thread that started it, and it waits
// for all children of the process.
//
// Processes that spare accepts are never ended, nor are those below them.
func Run(p Pipes, cell *link.Cell, spare func(proc.Process) bool) error {
	runtime.LockOSThread()
	if err := proc.Adopt(); err != nil {
		return err
	}
	// A signal to all of a service's processes is meant for the front. They are caught and not
	// ignored, because what is ignored is inherited. An INT or HUP that was ignored before us the child is to ignore. Go does not tell of
	// others, such as PIPE: the child has them with their default action.
	drop := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
	} {
		if !signal.Ignored(sig) {
			signal.Notify(drop, sig)
		}
	}
	chld := make(chan os.Signal, 1)
	signal.Notify(chld, syscall.SIGCHLD)

	task, err := link.ReceiveTask(p.Task)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil // the front has left before it had the lock, or has died
	}
	if err != nil {
		return err
	}
	alarm, err := link.NewAlarm()
	if err != nil {
		return err
	}
	g := &guard{
		self: os.Getpid(), spare: spare, cell: cell, plan: task.Plan, events: make(chan link.Event, eventsMax),
		front: ended(p.Task), condemn: condemned(p.Condemn),
	}
	go report(p.Events, g.events) // until the process ends
	g.watched = task.Watched
	g.start(task)
	if g.child != 0 {
		proc.DropStreams()
	}
	g.attend(chld, alarm)
	return nil
}

// ended returns a channel that is closed at the end of a stream.
func ended(r io.Reader) <-chan struct{} {
	c := make(chan struct{})
	go func() { // ends with the stream
		defer close(c)
		io.Copy(io.Discard, r)
	}()
	return c
}

// condemned returns a channel that has a token when a byte has arrived, and the front had time to act on
// what the engine has told it, too.
func condemned(r io.Reader) <-chan struct{} {
	c := make(chan struct{}, 1)
	go func() { // ends with the stream
		var b [1]byte
		if _, err := io.ReadFull(r, b[:]); err == nil {
			time.Sleep(headStart)
			c <- struct{}{}
		}
	}()
	return c
}

// report writes events to the front.
func report(w io.Writer, events <-chan link.Event) {
	out := link.NewWriter(w)
	for e := range events {
		out.Send(e) // that the front is dead shows elsewhere
	}
}

// start executes the child, if the lock is ours at this moment.
func (g *guard) start(t link.Task) {
	if g.plan.TermAt(g.cell.Load()).Until() <= 0 {
		g.events <- link.Event{Is: link.ChildLate}
		return
	}
	attr := &syscall.ProcAttr{
		Env:   texts(t.Env),
		Files: []uintptr{uintptr(syscall.Stdin), uintptr(syscall.Stdout), uintptr(syscall.Stderr)},
		Sys:   childAttr(),
	}
	attr.Sys.Setpgid = true
	if t.Foreground {
		if tty, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0); err == nil {
			defer tty.Close()
			attr.Sys.Setpgid, attr.Sys.Foreground, attr.Sys.Ctty = false, true, int(tty.Fd())
		}
	}
	g.cell.Begin()
	pid, err := syscall.ForkExec(string(t.Program), texts(t.Argv), attr)
	if err != nil {
		var errno syscall.Errno
		if !errors.As(err, &errno) {
			errno = syscall.EINVAL // a zero byte in a name
		}
		g.events <- link.Event{Is: link.ChildRefused, Errno: errno}
		return
	}
	g.child = pid
	g.events <- link.Event{Is: link.ChildStarted, Pid: pid}
}

func texts(list [][]byte) (out []string) {
	for _, b := range list {
		out = append(out, string(b))
	}
	return out
}

// attend waits for what may happen to the child and to the others, and returns when the front is dead
// and nothing is left.
func (g *guard) attend(chld <-chan os.Signal, alarm *link.Alarm) {
	sweep := time.NewTimer(0) // one look too many
	defer sweep.Stop()
	for {
		g.late = g.late || !g.lost && g.killAt().Until() <= 0
		g.lost = g.lost || g.late
		if g.frontEnd || g.lost {
			left := g.kill()
			switch {
			case left:
				sweep.Reset(proc.Pause(g.sweeps))
				g.sweeps++
			case g.frontEnd:
				return
			default:
				g.sweeps = 0
			}
		}
		if !g.lost {
			alarm.Set(g.killAt())
		}
		select {
		case <-chld:
			g.reap()
		case <-g.front:
			g.frontEnd, g.front = true, nil
		case <-g.condemn:
			g.lost = true
		case <-alarm.C:
		case <-sweep.C:
		}
	}
}

// killAt is when the front should have killed the child.
func (g *guard) killAt() link.Instant { return g.plan.KillAt(g.cell.Load()).Add(headStart) }

// kill kills what works under the lock, and reports whether there was anything.
func (g *guard) kill() bool {
	table, err := proc.Table()
	if err != nil {
		if g.child == 0 || !proc.GroupAlive(g.child) {
			return false
		}
		proc.SignalGroup(g.child, syscall.SIGKILL)
		return true
	}
	live := proc.Below(table, g.self, g.spare)
	if slices.ContainsFunc(live, func(p proc.Process) bool { return p.Group == g.child }) {
		proc.SignalGroup(g.child, syscall.SIGKILL) // all at once, so that none of them can fork away
	}
	if g.watched.Pid > 0 && g.cell.Aware() && proc.Lives(g.watched) {
		live = append(live, g.watched)
	}
	for _, p := range live {
		proc.Signal(p, syscall.SIGKILL) // what we may not kill we cannot help
	}
	return len(live) > 0
}

// reap takes notice of children that have ended or stopped.
func (g *guard) reap() {
	proc.Reap(func(pid int, status syscall.WaitStatus) {
		switch {
		case pid != g.child:
		case !status.Stopped():
			killed := status.Signaled() && status.Signal() == syscall.SIGKILL
			g.events <- link.Event{Is: link.ChildEnded, Status: status, Late: killed && g.late}
		case len(g.events) < eventsMax-1:
			g.events <- link.Event{Is: link.ChildStopped, Status: status}
		}
	})
}
