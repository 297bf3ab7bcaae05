package front

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// A child is the command that works under the lock, with what has become of it so far.
type child struct {
	pid    int // also its process group; 0 before it is started
	ended  bool
	status syscall.WaitStatus // once ended

	ending bool         // has been told to end, or what it left behind has
	killAt link.Instant // when ending: when the patience is over
	warned bool         // that we lack the permission to end it

	cutOff   string // why the session has no connection; empty if it has one
	lost     bool   // the lock was
	cutShort bool   // and the child still ran then
	lostWhy  string
	suspend  suspension
}

// start executes the child, if the lock is still ours at this moment.
func (f *front) start() (out Outcome, started bool) {
	var err error
	if f.plan, err = link.NewPlan(f.granted.Timeout, f.cfg.Open.Grace); err != nil {
		return Outcome{Kind: Failed, Status: exit.Usage, Text: err.Error()}, false
	}
	f.child.suspend.interactive = f.tty != nil && f.tty.isStdin() && !accompanied(f.self, f.group)
	handed := f.child.suspend.interactive && f.tty.foreground() == f.group
	task := link.Task{
		Program: []byte(f.cfg.Program), Argv: bytesOf(f.cfg.Argv), Env: bytesOf(lockEnv(f.cfg.Env, f.cfg.Open, f.granted, f.plan.Grace)),
		Foreground: handed, Plan: f.plan, Watched: f.cfg.Open.Watched,
	}

	// The last look before the child runs: from here on there is nothing but the guard's fork.
	if sig := f.pending(); sig != 0 {
		return signalled(sig), false
	}
	if f.plan.TermAt(f.cell.Load()).Until() <= 0 {
		return f.lateOutcome(), false
	}
	event := f.guard.begin(task, f.chld, f.reap)
	switch event.Is {
	case link.ChildStarted:
	case link.ChildLate:
		return f.lateOutcome(), false
	case link.ChildRefused:
		if handed { // the fork may have taken the terminal before the exec failed
			f.tty.give(f.group)
		}
		return Outcome{Kind: NotExecutable, Status: ExecStatus(event.Errno), Token: f.granted.Token,
			Text: fmt.Sprintf("%s: %v%s", f.cfg.Argv[0], event.Errno, missing(f.cfg.Program, event.Errno))}, false
	default:
		f.abandon()
		if f.cell.Begun() { // the guard was killed before it said what became of that
			f.endWatched()
			return Outcome{Kind: Lost, Status: f.cfg.LostStatus, Token: f.granted.Token,
				Text: fmt.Sprintf("%s, perhaps after it had started %s", guardDied, f.work())}, false
		}
		return Outcome{Kind: Failed, Status: exit.Internal, Token: f.granted.Token, Text: guardDied}, false
	}
	f.child.pid = event.Pid
	f.engine.tell(link.Order{Do: link.DoStarted, Group: event.Pid, Guard: f.guard.pid})
	f.child.suspend.handed = handed
	proc.DropStreams()
	f.heedsStop = !signal.Ignored(syscall.SIGTSTP)
	if f.heedsStop {
		f.tstp.catch(syscall.SIGTSTP)
	}
	f.cfg.Standing.begin(f.cell, f.plan, f.granted.Token)
	f.watchDeadline()
	return Outcome{}, true
}

// lateOutcome is for a lock that was lost before anything was done with it.
func (f *front) lateOutcome() Outcome {
	return Outcome{Kind: Lost, Status: f.cfg.LostStatus, Token: f.granted.Token,
		Text: fmt.Sprintf("the lock on %s was lost before %s was started", f.cfg.Name, f.work())}
}

// abandon kills a guard that does not say whether it has started the child, and with it whatever it has
// started.
func (f *front) abandon() {
	f.guard.kill()
	f.child.lost = true
	for sweeps := 0; ; sweeps++ {
		f.reap()
		live := f.live()
		if f.guard.pid == 0 && len(live) == 0 {
			return
		}
		for _, p := range live {
			proc.Signal(p, syscall.SIGKILL)
		}
		time.Sleep(proc.Pause(sweeps))
	}
}

func bytesOf(texts []string) (out [][]byte) {
	for _, s := range texts {
		out = append(out, []byte(s))
	}
	return out
}

// missing says what is not there if it is not the program: of the interpreter of a script, or the loader of a binary, the
// system says the same.
func missing(program string, err error) string {
	if !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if _, err := os.Stat(program); err != nil {
		return ""
	}
	return " (the file is there; its interpreter or loader is not)"
}

// ExecStatus returns what a shell returns when a program cannot be executed. If the system lacks what every program takes,
// such as a process, that is not the program's fault.
func ExecStatus(err error) int {
	short := func(e syscall.Errno) bool { return errors.Is(err, e) }
	switch {
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return exit.NotFound
	case slices.ContainsFunc([]syscall.Errno{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE}, short):
		return exit.OS
	}
	return exit.NotExecutable
}

// lockEnv adds what the child may know about its lock. Variables of the same name, which an outer
// lock may have set, are overridden.
func lockEnv(env []string, o link.Open, granted link.Note, grace time.Duration) []string {
	ours := append(link.LockEnv(o, granted), link.GraceVariable+"="+grace.String())
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return slices.ContainsFunc(ours, func(o string) bool {
			return strings.HasPrefix(v, o[:strings.IndexByte(o, '=')+1])
		})
	})
	return append(env, ours...)
}

// attend looks after the child until the last process that works under the lock is gone.
func (f *front) attend() Outcome {
	sweep := time.NewTicker(sweepInterval)
	sweep.Stop()
	defer sweep.Stop()
	sweeping := false
	notes, events := f.engine.notes, f.guard.events
	for {
		if events == nil {
			f.inherit()
		}
		if f.child.ended {
			live := f.live()
			if len(live) == 0 {
				return f.childOutcome()
			}
			f.end(f.plan.Grace, live) // what it left behind
			if !sweeping {
				sweeping = true
				sweep.Reset(sweepInterval)
			}
		}
		select {
		case <-f.chld:
			f.reap()
		case n, ok := <-notes:
			if ok {
				f.heed(n)
				break
			}
			notes = nil
			f.lose(fmt.Sprintf("the process that keeps the session has died (the lock is free when the session has expired, after %v)",
				f.granted.Timeout), f.plan.Grace)
		case e, ok := <-events:
			if ok {
				f.heedGuard(e)
				break
			}
			events = nil
			f.lose(guardDied, f.plan.Grace)
		case s := <-f.signals:
			f.pass(s.(syscall.Signal))
		case <-f.tstp:
			f.child.suspend.asked = true
			f.forward(syscall.SIGTSTP)
		case <-f.cont:
			f.resume()
		case <-f.alarm.C:
			f.watchDeadline()
		case <-sweep.C:
			f.watchDeadline()
		}
	}
}

// heed does what a note of the engine asks for while the child runs.
func (f *front) heed(n link.Note) {
	switch {
	case n.Is == link.IsNotice:
		f.say("%s", n.Text)
	case n.Is == link.IsRevoked:
		f.revoke()
	case n.Is == link.IsCutOff:
		f.child.cutOff = n.Text
	case n.Is == link.IsLost && n.Gone:
		f.lose(n.Text, 0) // another may be working already
	case n.Is == link.IsLost:
		f.lose(n.Text, f.plan.Grace)
	}
}

// heedGuard notes what the guard has seen of the child.
func (f *front) heedGuard(e link.Event) {
	switch e.Is {
	case link.ChildStopped:
		f.childStopped(e.Status.StopSignal())
	case link.ChildEnded:
		f.child.ended, f.child.status = true, e.Status
		if e.Late && !f.child.lost { // it was ended while we were stopped
			f.child.cutShort, f.child.lostWhy = true, f.lateness()
			f.lose(f.child.lostWhy, f.plan.Grace)
		}
	}
}

// inherit takes the place of a guard that has died: the child, which the kernel has killed, is ours to
// wait for. If it is not there, the guard had done that and could not tell us.
func (f *front) inherit() {
	if f.guard.pid != 0 || f.child.ended {
		return // it is still dying, or there is nothing to inherit
	}
	var status syscall.WaitStatus
	switch pid, err := syscall.Wait4(f.child.pid, &status, syscall.WNOHANG, nil); {
	case err == syscall.ECHILD:
		f.child.ended, f.child.status = true, syscall.WaitStatus(syscall.SIGKILL)
	case pid == f.child.pid:
		f.child.ended, f.child.status = true, status
	}
}

// watchDeadline does what is due, and sets the alarm for what is due next.
func (f *front) watchDeadline() {
	deadline := f.cell.Load()
	if !f.child.lost && f.plan.TermAt(deadline).Until() <= 0 {
		f.lose(f.lateness(), f.plan.Grace)
	}
	next := f.plan.TermAt(deadline)
	if f.child.ending {
		next = f.child.killAt
		if next.Until() <= 0 {
			f.kill()
			next = link.Now().Add(sweepInterval) // and again, until nothing is left to kill
		}
	}
	f.alarm.Set(next)
}

// lateness says why the deadline has passed.
func (f *front) lateness() string {
	why := "no heartbeat was answered in time"
	if f.child.cutOff != "" {
		why += " (no connection: " + f.child.cutOff + ")"
	}
	return why
}

// lose notes that the lock is lost, and gives the child so long to end.
func (f *front) lose(why string, grace time.Duration) {
	if f.child.lost && grace > 0 {
		return
	}
	if !f.child.lost && !f.child.ended {
		f.child.cutShort, f.child.lostWhy = true, why
	}
	f.child.lost = true
	f.cfg.Standing.end()
	f.end(grace, f.live())
}

// end tells the processes to end, once, and sees to it that they are killed after the grace, or when
// the deadline demands it.
func (f *front) end(grace time.Duration, live []proc.Process) {
	killAt := min(link.Now().Add(grace), f.plan.KillAt(f.cell.Load()))
	if f.child.ending && f.child.killAt <= killAt {
		return
	}
	first := !f.child.ending
	f.child.ending, f.child.killAt = true, killAt
	if first && grace > 0 {
		f.signal(syscall.SIGTERM, live)
		f.signal(syscall.SIGCONT, live) // a stopped process does not hear
	}
	f.watchDeadline()
}

// kill ends every process that works under the lock.
func (f *front) kill() { f.signal(syscall.SIGKILL, f.live()) }

// signal sends a signal to the child's group and to those of the live processes that have left it.
func (f *front) signal(sig syscall.Signal, live []proc.Process) {
	err := f.signalGroup(sig, live)
	for _, p := range live {
		if p.Group != f.child.pid {
			err = errors.Join(err, proc.Signal(p, sig))
		}
	}
	if err != nil && !f.child.warned {
		f.child.warned = true
		f.say("cannot send %s to %s: %v (a command that changes its user must be the one that calls lockkeeper)",
			unix.SignalName(sig), f.cfg.Argv[0], err)
	}
}

// signalGroup sends a signal to the child's group. One that has no process of ours any more may have given its number to another.
func (f *front) signalGroup(sig syscall.Signal, live []proc.Process) error {
	if f.child.ended && !slices.ContainsFunc(live, func(p proc.Process) bool { return p.Group == f.child.pid }) {
		return nil
	}
	return proc.SignalGroup(f.child.pid, sig)
}

// live returns the processes that work under the lock. Those in a session of their own belong to it
// only when it is lost. Where there is no process table the child's group stands for all.
func (f *front) live() []proc.Process {
	table, err := proc.Table()
	if err != nil {
		if f.child.pid != 0 && proc.GroupAlive(f.child.pid) {
			return []proc.Process{{Pid: f.child.pid, Group: f.child.pid}}
		}
		return nil
	}
	spare := func(p proc.Process) bool {
		return p.Pid == f.engine.pid || p.Pid == f.guard.pid ||
			!f.child.lost && p.Session != f.session && p.Group != f.child.pid ||
			slices.ContainsFunc(f.strangers, func(s proc.Process) bool { return s.Pid == p.Pid && s.Start == p.Start }) ||
			f.cfg.Spare != nil && f.cfg.Spare(p)
	}
	// All that descends from the child is below the guard while that lives. What else is below us has come from strangers.
	if f.guard.pid != 0 {
		if _, err := proc.Find(f.guard.pid); err == nil { // also when the table was read
			return proc.Below(table, f.guard.pid, spare)
		}
	}
	live := proc.Below(table, f.self, spare)
	if f.guard.pid != 0 { // else what it had is ours
		live = append(live, proc.Below(table, f.guard.pid, spare)...)
	}
	return live
}

// pass forwards a signal to the child's group.
func (f *front) pass(sig syscall.Signal) {
	if (sig == syscall.SIGINT || sig == syscall.SIGTERM) && f.insists() {
		f.end(0, nil)
		return
	}
	f.forward(sig)
}

// revoke tells the child that another contender asks for the lock, if it wants to know. What becomes of that is up to
// the child: the lock is its own until it ends.
func (f *front) revoke() {
	if sig := f.cfg.RevokeSignal; sig != 0 && !f.child.ended {
		f.forward(sig)
	}
}

// forward sends a signal to the child's group.
func (f *front) forward(sig syscall.Signal) {
	if err := f.signalGroup(sig, f.live()); err != nil {
		f.say("cannot send %s to %s: %v", unix.SignalName(sig), f.cfg.Argv[0], err)
	}
}

// childOutcome says what became of it, once nothing is left.
func (f *front) childOutcome() Outcome {
	if f.tty != nil && f.child.leaves(f.tty.foreground()) {
		f.tty.give(f.group)
	}
	status := f.child.status
	end := &ChildEnd{Exit: status.ExitStatus()}
	out := Outcome{Kind: Ran, Token: f.granted.Token, Child: end}
	if status.Signaled() {
		end.Exit, end.Signal = exit.SignalBase+int(status.Signal()), unix.SignalName(status.Signal())
	}
	out.Status = end.Exit
	switch {
	case f.child.cutShort:
		out = f.lostOutcome(out, f.child.lostWhy)
	case f.child.suspend.handed && status.Signaled() && status.Signal() == syscall.SIGINT:
		out.Interrupted = true
	}
	return out
}

// leaves reports whether a group that has the terminal, once the child has ended, has it from the child: the child's own, or a
// job of the child that is dead.
func (c *child) leaves(group int) bool {
	return group == c.pid || c.suspend.handed && group > 0 && !proc.GroupAlive(group)
}

// work returns what works under the lock, for the user.
func (f *front) work() string { return cmp.Or(f.cfg.Work, f.cfg.Argv[0]) }

// lostOutcome makes of out the outcome of a child that was ended because the lock was lost.
func (f *front) lostOutcome(out Outcome, why string) Outcome {
	out.Kind, out.Status = Lost, f.cfg.LostStatus
	ended := fmt.Sprintf(", and %s was ended", f.work())
	if !f.aware() {
		ended = "" // it works on, as if there had been no lock
	}
	out.Text = fmt.Sprintf("the lock on %s was lost%s: %s", f.cfg.Name, ended, why)
	return out
}
