// Package front is the process that the user started: it owns the child that works under the lock.
//
// Guarantees:
//
//  1. The child is started only while the lock is held, and only if no signal asked us to leave.
//  2. By the deadline of the lock, less a margin, no process of the child is alive: neither a
//     heartbeat that is not answered nor a frozen, dead or lying engine can change that, because the
//     deadline lies in shared memory and the front enforces it alone.
//  3. The lock is given back only after the last process that works under it has ended. What works
//     under it is the child and all its descendants (on Linux; elsewhere its process group), except
//     those that have started a session of their own: that is how to leave a daemon behind. When the
//     lock is lost, these are killed too.
//  4. Streams, arguments and the controlling terminal are the child's, untouched.
//
// The child is started by the guard, which lies between the front and the child and ends it when the
// front does not, because it is dead or frozen. What the front cannot do: kill a process that has
// changed its user, or one that hangs in the kernel. It then waits, and says so.
package front

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// Config says what to run under which lock.
type Config struct {
	Name    string    // of the lock, as the user knows it
	Open    link.Open // what the engine is to get, and how
	Program string    // path of the child's program
	Argv    []string  // the child's arguments, its name first
	Work    string    // what works under the lock, for the user; empty is the child's name
	Env     []string  // environment; that of the lock is added

	// TimeoutAsked is the session timeout that the user has asked for; the user is told if the servers grant less; 0 if
	// not.
	TimeoutAsked time.Duration

	BusyStatus int // when the lock was not got within the wait
	LostStatus int // when it was lost while the child ran

	// Engine runs the other processes: with EngineArgs, the program's name first, the engine, and with
	// link.GuardFDs.Args the guard.
	Engine     string
	EngineArgs []string
	Stderr     io.Writer
	Quiet      bool // nothing is said about waiting

	// RevokeSignal is what the child gets when the lock is asked for; 0 is nothing.
	RevokeSignal syscall.Signal

	// Standby: the process waits for the lock for as long as it lives, so USR1 and USR2, which ask
	// something of a child, do not make it leave while there is none.
	Standby bool

	// Early returns a signal that came before Run listened, and that ends the process; nil if none has. It is nil if none can have come
	// to another listener.
	Early func() os.Signal

	// Standing learns whether the lock is held, and which process holds it otherwise. It may be nil.
	Standing *Standing

	// Granted is called when the lock has been granted, with its token. It may be nil.
	Granted func(token int64)

	// Ended is called when the child has ended, and all that worked under the lock. Signals that come later are not the child's. It may
	// be nil.
	Ended func()

	// Awareness is told when the process of Open.Watched knows that the lock is held. Before that the process is left
	// alone, whatever ends. Nil: it knows.
	Awareness *Awareness

	// Spare tells which descendants are never the child's, besides engine and guard.
	Spare func(proc.Process) bool
}

// What became of it.
const (
	Ran           = "ran"            // the child has ended; Child says how
	Busy          = "busy"           // not got within the wait; nothing was run
	Lost          = "lost"           // the child was ended because the lock was lost
	Signalled     = "signalled"      // we were told to leave before the child was started
	NotExecutable = "not-executable" // the child could not be started
	Failed        = "failed"         // no lock, for another reason
)

// An Outcome is what became of it.
type Outcome struct {
	Kind   string    // one of the constants above
	Status int       // the process's exit status
	Text   string    // for the user; empty if there is nothing to add to the child's own words
	Token  int64     // of the hold, 0 if there was none; of several locks that of the first
	Unsure string    // of a lock that was granted: why it may not be free yet; empty if it is
	Child  *ChildEnd // if the child was started

	Tokens map[string]int64 // of several locks, by their paths; nil for one, or if there was no hold

	Env []string // for commands that are told of the end: that of the child; nil if the lock was not granted

	// Interrupted: ^C has ended the child. The key was pressed for the whole job, and would have reached
	// it had we not put the child in a group of its own.
	Interrupted bool
}

// ChildEnd is how the child's main process ended.
type ChildEnd struct {
	Exit   int    `json:"exit"`             // its exit status, 128+n for a signal
	Signal string `json:"signal,omitempty"` // the name of the signal that ended it
}

// Limits on waiting for the engine.
const (
	releaseLimit     = 8 * time.Second // to give the lock back; the engine has less
	lostReleaseLimit = 2 * time.Second // the same when it was lost anyway
)

// insistAfter is when a second INT or TERM is meant as one. A sender that signals us and then our group, as timeout(1)
// does, says the first one twice.
const insistAfter = 200 * time.Millisecond

// sweepInterval is how often processes that should be gone are looked for.
const sweepInterval = 5 * time.Millisecond

// A front is the state of the process. One goroutine, that of Run, owns it all.
type front struct {
	cfg     Config
	self    int // process id
	group   int // process group
	session int // session

	engine  engine
	guard   guard
	cell    *link.Cell
	alarm   *link.Alarm
	signals chan os.Signal
	chld    chan os.Signal // a token: look for children that changed
	cont    jobSignal      // we have been continued
	tstp    jobSignal      // we are to stop, and the child with us
	tty     *terminal      // nil without a controlling terminal
	line    *waitLine      // nil without a terminal or -q
	granted link.Note
	plan    link.Plan
	child   child

	unsure    string    // see Outcome
	toldToEnd time.Time // when INT or TERM came first, or what made us leave the line

	heedsStop bool // we catch TSTP; the parent did not have it ignored

	// Processes below us that were here before us, of a shell that has executed us in its place.
	strangers []proc.Process
}

// Run gets the lock, runs the child under it and gives the lock back. It waits for all children of the
// process.
func Run(cfg Config) Outcome {
	f := &front{cfg: cfg, self: os.Getpid(), group: syscall.Getpgrp(), session: sessionID()}
	if err := f.open(); err != nil {
		return Outcome{Kind: Failed, Status: exit.StatusOf(err, exit.OS), Text: err.Error()}
	}
	defer f.close()
	out := f.run()
	if f.granted.Is == link.IsGranted {
		out.Unsure = f.unsure
		over := f.granted
		over.Claims = nil // they are of the past, and mark what the engine may have to kill
		out.Env = lockEnv(f.cfg.Env, f.cfg.Open, over, f.plan.Grace)
		if out.Token != 0 {
			out.Tokens = f.tokens()
		}
	}
	return out
}

// tokens returns the token of each of several locks.
func (f *front) tokens() map[string]int64 {
	if len(f.granted.Tokens) == 0 {
		return nil
	}
	all := map[string]int64{f.cfg.Open.Lock: f.granted.Token}
	for i, token := range f.granted.Tokens {
		all[f.cfg.Open.Also[i]] = token
	}
	return all
}

func (f *front) run() Outcome {
	out, granted := f.await()
	if !granted {
		f.finish(link.DoCancel, releaseLimit)
		return out
	}
	if out, started := f.start(); !started {
		f.finish(link.DoCancel, releaseLimit)
		return out
	}
	out = f.attend()
	if f.cfg.Ended != nil {
		f.cfg.Ended()
	}
	f.cfg.Standing.end()
	if f.child.lost || out.Child.Exit != 0 {
		f.endWatched()
	}
	limit := releaseLimit
	if f.child.lost {
		limit = lostReleaseLimit
	}
	if why, lost := f.finish(link.DoRelease, limit); lost && out.Child.Signal == unix.SignalName(syscall.SIGKILL) {
		// The engine was faster than we in killing the child.
		out = f.lostOutcome(out, why)
	}
	return out
}

// endWatched kills the process of Open.Watched, and returns when it is gone, so that the lock is not given back before. A child
// that ends with status 0 leaves it alone.
func (f *front) endWatched() {
	if !f.aware() {
		return
	}
	for n := 0; f.cfg.Open.Watched.Pid > 0 && proc.Lives(f.cfg.Open.Watched); n++ {
		err := proc.Signal(f.cfg.Open.Watched, syscall.SIGKILL)
		if err != nil {
			f.say("process %d works on without the lock: %v", f.cfg.Open.Watched.Pid, err)
			return
		}
		time.Sleep(proc.Pause(n))
	}
}

// aware reports, once the lock is not held any more, whether the process of Open.Watched may know of it.
func (f *front) aware() bool { return f.cfg.Awareness == nil || f.cfg.Awareness.Decided() }

// open starts the engine and whatever we listen to.
func (f *front) open() (err error) {
	if err := proc.Adopt(); err != nil {
		return err
	}
	if f.cell, err = link.NewCell(); err != nil {
		return err
	}
	if f.cfg.Awareness == nil {
		f.cell.SetAware()
	}
	f.cfg.Awareness.use(f.cell)
	if f.alarm, err = link.NewAlarm(); err != nil {
		return err
	}
	f.signals = make(chan os.Signal, 16) // more at once are more of the same
	f.chld = make(chan os.Signal, 1)
	signal.Notify(f.chld, syscall.SIGCHLD)
	f.cont, f.tstp = newJobSignal(), newJobSignal()
	f.cont.catch(syscall.SIGCONT)
	for _, sig := range []os.Signal{
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGWINCH,
	} {
		if !signal.Ignored(sig) { // HUP under nohup, INT in background jobs: the child is to ignore it too. Go tells of no others
			signal.Notify(f.signals, sig)
		}
	}
	if f.cfg.Early != nil {
		if sig := f.cfg.Early(); sig != nil {
			f.signals <- sig
		}
	}
	if f.strangers, err = existing(f.self); err != nil {
		return err
	}
	f.tty = openTerminal()
	if !f.cfg.Quiet {
		f.line = newWaitLine(f.cfg.Name, f.cfg.Stderr)
	}
	f.cfg.Open.Report = f.line != nil || f.cfg.Standing != nil
	between, err := newPipes()
	if err != nil {
		return err
	}
	defer between.close()
	if err := f.engine.start(f.cfg.Engine, f.cfg.EngineArgs, f.cell, between, f.cfg.Open); err != nil {
		return err
	}
	if err := f.guard.start(f.cfg.Engine, f.cell, between); err != nil {
		f.engine.close()
		return err
	}
	return nil
}

func (f *front) close() {
	f.guard.close()
	f.engine.close()
	f.alarm.Close()
	f.cfg.Awareness.use(nil)
	f.cell.Close()
	if f.tty != nil {
		f.tty.Close()
	}
	signal.Stop(f.signals)
	signal.Stop(f.chld)
	f.cont.stop()
	f.tstp.stop()
}

// await waits for the lock. The outcome counts if it was not granted.
func (f *front) await() (Outcome, bool) {
	defer f.line.clear()
	var leaving syscall.Signal // the signal that told us to
	for {
		select {
		case n, ok := <-f.engine.notes:
			switch {
			case !ok || n.Is == link.IsReleased:
				if leaving != 0 {
					return signalled(leaving), false
				}
				return Outcome{Kind: Failed, Status: exit.Internal, Text: "the process that keeps the session ended unexpectedly"}, false
			case n.Is == link.IsNotice:
				f.say("%s", n.Text)
			case n.Is == link.IsWaiting:
				f.line.update(n)
				f.cfg.Standing.waits(cmp.Or(n.ID, n.Holder))
			case n.Is == link.IsCutOff:
				f.line.cutOff(n.Text)
			case leaving != 0:
				// Whatever it says has crossed our order to leave; the answer to that comes.
			case n.Is == link.IsGranted:
				f.granted = n
				if f.cfg.Granted != nil {
					f.line.clear()
					f.cfg.Granted(n.Token)
				}
				if asked := f.cfg.TimeoutAsked; n.Timeout < asked {
					f.say("the servers grant a session timeout of %v, less than the %v of --session-timeout", n.Timeout, asked)
				}
				if sig := f.pending(); sig != 0 {
					return signalled(sig), false
				}
				return Outcome{}, true
			case n.Is == link.IsBusy:
				return Outcome{Kind: Busy, Status: f.cfg.BusyStatus, Text: n.Text}, false
			case n.Is == link.IsFailed:
				return Outcome{Kind: Failed, Status: n.Status, Text: n.Text}, false
			}
		case s := <-f.signals:
			sig := s.(syscall.Signal)
			if !f.leaves(sig) {
				f.line.draw()
				continue
			}
			insists := f.insists()
			switch {
			case leaving == 0:
				leaving = sig
				f.engine.tell(link.Order{Do: link.DoCancel})
			case insists && (sig == syscall.SIGINT || sig == syscall.SIGTERM):
				f.engine.kill()
				return signalled(leaving), false
			}
		case <-f.guard.events: // there is nothing to tell yet, so this is its end
			return Outcome{Kind: Failed, Status: exit.Internal, Text: guardDied}, false
		case <-f.line.tick():
			f.line.draw()
		case <-f.cont:
			f.line.draw()
		case <-f.chld:
			f.reap()
		}
	}
}

// insists takes note of a signal to end, and reports whether it is one more than the first.
func (f *front) insists() bool {
	if f.toldToEnd.IsZero() {
		f.toldToEnd = time.Now()
	}
	return time.Since(f.toldToEnd) >= insistAfter
}

// leaves reports whether a signal that arrives before there is a child makes us leave.
func (f *front) leaves(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGWINCH:
		return false
	case syscall.SIGUSR1, syscall.SIGUSR2:
		return !f.cfg.Standby
	}
	return true
}

// pending returns a signal to leave that has arrived and has not been looked at, or 0.
func (f *front) pending() syscall.Signal {
	for {
		select {
		case s := <-f.signals:
			if sig := s.(syscall.Signal); f.leaves(sig) {
				return sig
			}
		default:
			return 0
		}
	}
}

// finish gives the last order to the engine and waits until it has ended, but not for ever: what it
// did not manage in time it does alone, or the session's end does it. It reports a loss of the lock that
// the engine had told us about before it heard the order.
func (f *front) finish(order string, limit time.Duration) (why string, lost bool) {
	f.engine.tell(link.Order{Do: order})
	f.guard.kill() // what lives now may live on: the deadline, if it passes meanwhile, is that of no child
	f.unsure = fmt.Sprintf("could not make sure that %s is free again; it is when the session has expired", f.cfg.Name)
	patience := time.NewTimer(limit)
	defer patience.Stop()
	for {
		select {
		case n, ok := <-f.engine.notes:
			if !ok {
				f.reap()
				return why, lost
			}
			switch {
			case n.Is == link.IsLost:
				why, lost = n.Text, true
			case n.Is == link.IsReleased:
				f.unsure = n.Text
				if n.Text != "" {
					f.say("%s", n.Text)
				}
			}
		case s := <-f.signals:
			if s == syscall.SIGINT || s == syscall.SIGTERM {
				return why, lost // in a hurry: the engine goes on alone
			}
		case <-f.chld:
			f.reap()
		case <-patience.C:
			f.engine.kill()
			if !f.child.lost {
				f.say("%s", f.unsure)
			}
			return why, lost
		}
	}
}

// reap takes notice of children that have ended: the guard, and once it is dead what it had. A guard that
// was stopped is made to go on: without it the end of the child is not heard.
func (f *front) reap() {
	proc.Reap(func(pid int, status syscall.WaitStatus) {
		switch {
		case status.Stopped():
			if pid == f.guard.pid {
				syscall.Kill(pid, syscall.SIGCONT)
			}
		case pid == f.guard.pid:
			f.guard.pid = 0
		case pid == f.child.pid:
			f.lose(guardDied, f.plan.Grace)
			f.child.ended, f.child.status = true, status
		}
	})
}

// existing returns what is below this process before it has started anything.
func existing(self int) ([]proc.Process, error) {
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err == syscall.ECHILD {
		return nil, nil // as nearly always, and cheaper than looking
	}
	table, err := proc.Table()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	return proc.Below(table, self, func(proc.Process) bool { return false }), err
}

func (f *front) say(format string, args ...any) {
	f.line.clear()
	fmt.Fprintf(f.cfg.Stderr, "lockkeeper: "+format+"\n", args...)
}

func signalled(sig syscall.Signal) Outcome {
	return Outcome{Kind: Signalled, Status: exit.SignalBase + int(sig)}
}
