package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/lock"
)

const runHelp = `Run COMMAND while holding LOCK, or several locks at once.

COMMAND is executed without a shell, and has its arguments, standard streams and the
terminal as it would have them without lockkeeper. Its environment has the path of the
lock in LOCKKEEPER_LOCK, the fencing token, a number that grows from holder to holder,
in LOCKKEEPER_TOKEN, and the servers in LOCKKEEPER_SERVERS. What the --tls flags,
--auth-file and --acl say is in the variables that the list below names for them.
LOCKKEEPER_UNDER is for a run within COMMAND, so that lockkeeper locks can show runs
that wait for each other.

With --shared any number of runs hold LOCK together, but none while a run without
--shared holds it. Nobody overtakes: runs with --shared wait for those without that
came before them.

With --slots N up to N runs hold LOCK at once. All of them must ask for the same N,
which is stored with the lock. While runs without --slots hold LOCK or wait for it,
one with --slots is refused, and the other way round.

Several locks are taken all or none, in an order of their own, so that no two runs wait
for each other whatever order they name them in; --shared and --slots then hold for each
lock. The loss of one is the loss of all. LOCKKEEPER_LOCK and LOCKKEEPER_TOKEN have a
line for each, in the order in which they were named.

With --revocable SIGNAL, COMMAND gets that signal, once, when somebody asks for the lock
(lockkeeper revoke LOCK). It keeps the lock for as long as it runs.

The lock is given back when COMMAND and all that it has started are gone. Processes
that are left when its main process has ended are told to end (TERM), and killed after
--grace. Only a process with a session of its own (setsid) may stay: that is how to
leave a daemon behind. It is killed with the others when the lock is lost, or
when lockkeeper is killed before the main process has ended.

If the lock is lost, the command is told to end (TERM) and killed after --grace,
early enough to be dead before anybody else can get the lock. If the lock has
been given away already, because the session has expired or an operator has
broken the lock, it is killed at once. A command that becomes another user must
be the one that calls lockkeeper (lockkeeper run LOCK -- sudo … cannot be killed;
use sudo lockkeeper run LOCK -- …).

lockkeeper is three processes: this one, its engine, which keeps the session, and
its guard (lk-guard), which is COMMAND's parent. Any two of them may be killed or frozen:
the one that is left ends COMMAND and all that it has started in time. (If that is the
engine, it finds them by COMMAND's process group and by the variables above in their
environment.) If all three are killed at once, the system kills COMMAND's main process
and nothing else; what goes on then can be told by its token alone.

INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to COMMAND. A second INT or TERM, if it
comes 0.2s after the first or later, kills it. While lockkeeper waits for the lock, any
of them ends it. A run that is stopped (^Z) keeps its place in line and its lock.
These and the signal of --revocable go to COMMAND's process group, as a key does at a
terminal: what a script runs just then gets them too, and may end by them. It is spared
by (trap '' USR1; exec STEP).

Exit status: the command's own, 128+n if signal n ended it, and
   64  wrong usage, or settings that cannot work
   69  no server could be reached
   70  a process of lockkeeper died before the command ran
   71  the operating system refused something, 73 the status file
   74  the lock was lost, or a process of lockkeeper died, while the command ran
       (--lost-code)
   75  somebody else has the lock, or the wait is over (--busy-code)
   77  the servers do not let us
  126  the command cannot be executed, 127 it cannot be found
128+n  signal n came while waiting
COMMAND may use the same numbers. --status-file tells them apart: the file gets a line
of JSON with the outcome (ran, busy, lost, signalled, not-executable, failed), the
exit status, the token, and how COMMAND itself ended. It stays empty if lockkeeper is
killed. After a mistake in the names of flags it is left as it was. It may be an open
descriptor: /dev/fd/3.`

// runFlags are the flags of run.
type runFlags struct {
	jobFlags
	shared     bool
	slots      int
	wait       time.Duration
	statusFile string
	busyCode   int
	lostCode   int
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] LOCK… -- COMMAND [ARG…]",
		Short: "Run a command while holding a lock",
		Long:  runHelp,
		Args:  jobArgs("lock", locksMax),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			return run(f, cmd.Flags().Changed, args[:dash], args[dash:])
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.shared, "shared", false, "hold the lock together with other runs that have this flag")
	flags.IntVar(&f.slots, "slots", 0, "hold one of that many slots of the lock, instead of the lock alone")
	flags.DurationVar(&f.wait, "wait", link.WaitForEver, "give up after waiting for that long; 0 tries once")
	flags.Lookup("wait").DefValue = "for ever"
	flags.StringVar(&f.statusFile, "status-file", "", "write the outcome to this file, as JSON")
	flags.IntVar(&f.busyCode, "busy-code", exit.Busy, "exit status if the lock was busy, or the wait was over; with 0 nothing is said of it")
	flags.IntVar(&f.lostCode, "lost-code", exit.Lost, "exit status if the lock was lost")
	return cmd
}

// check refuses values that make no sense. changed reports whether a flag was given.
func (f runFlags) check(changed func(string) bool) error {
	if err := atLeast(changed, "wait", f.wait, 0); err != nil {
		return err
	}
	for flag, code := range map[string]int{"busy-code": f.busyCode, "lost-code": f.lostCode} {
		if code < 0 || code > 255 {
			return exit.Errorf(exit.Usage, "--%s %d: an exit status is a number from 0 to 255", flag, code)
		}
	}
	switch {
	case changed("slots") && (f.slots < 1 || f.slots > lock.PermitsMax):
		return exit.Errorf(exit.Usage, "--slots %d: not a number from 1 to %d", f.slots, lock.PermitsMax)
	case f.slots > 0 && f.shared:
		return exit.Errorf(exit.Usage, "--slots and --shared: it is one or the other")
	}
	return f.jobFlags.check(changed)
}

// locksMax is how many locks a run can hold at once.
const locksMax = 100

// signalOf returns the signal that the user calls name: TERM, SIGTERM or 15.
func signalOf(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && unix.SignalName(syscall.Signal(n)) != "" {
		return syscall.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, exit.Errorf(exit.Usage, "--revocable %s: no such signal", name)
}

func run(f runFlags, changed func(string) bool, names, argv []string) error {
	status, err := openStatusFile(f.statusFile) // first, so that it does not tell of an earlier run
	if err != nil {
		return err
	}
	cfg, err := f.config(changed, names, argv)
	if err != nil {
		out := front.Outcome{Kind: front.NotExecutable, Status: exit.StatusOf(err, exit.Usage), Text: err.Error()}
		if out.Status == exit.Usage {
			out.Kind = front.Failed
		}
		status.tell(out)
		return err
	}
	out := front.Run(cfg)
	status.tell(out)
	if out.Kind == front.Busy && out.Status == exit.OK {
		out.Text = "" // to whom that is a success, cron for one, there is nothing to tell
	}
	return &ranError{out}
}

// config says what to run under the locks that the user calls names.
func (f runFlags) config(changed func(string) bool, names, argv []string) (cfg front.Config, err error) {
	paths := make([]string, len(names))
	for i, name := range names {
		if paths[i], err = lockPath(name); err != nil {
			return cfg, err
		}
	}
	if err := f.check(changed); err != nil {
		return cfg, err
	}
	if cfg, err = f.jobFlags.config(changed, strings.Join(names, " and "), paths[0], argv); err != nil {
		return cfg, err
	}
	cfg.Open.Also, cfg.Open.Slots = paths[1:], f.slots
	cfg.Open.Shared, cfg.Open.Wait = f.shared, f.wait
	cfg.BusyStatus, cfg.LostStatus = f.busyCode, f.lostCode
	return cfg, nil
}

// A ranError is how run has ended, well or badly.
type ranError struct{ front.Outcome }

func (e *ranError) Error() string { return e.Text }

func asRan(err error, ran **ranError) bool { return errors.As(err, ran) }

// end tells the user what is to be told, and returns the exit status, unless the process is to end by
// a signal.
func (e *ranError) end() int {
	if e.Text != "" {
		fmt.Fprintf(os.Stderr, "lockkeeper: %s\n", e.Text)
	}
	switch {
	case e.Interrupted:
		interruptJob()
	case e.Kind == front.Signalled && e.Status == exit.SignalBase+int(syscall.SIGINT):
		interruptSelf()
	}
	return e.Status
}
