package main

import (
	"errors"
	"fmt"
	"log/slog"
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

COMMAND is executed without a shell, with the arguments, streams and terminal that it
would have without lockkeeper. It finds the fencing token, a number that grows from
holder to holder, in LOCKKEEPER_TOKEN. When COMMAND has ended, what it has left
running is ended too, and the lock is given back; what has a session of its own (setsid)
stays, without the lock. If the lock is lost, all of them are ended in time.

With --shared any number of runs hold LOCK together, but none while a run without
--shared holds it. Runs are served in order, so none waits for ever. Read/write locks of
Curator wait for --exclusive, the write side, and not for a run without it; kazoo's only
if set up for it (docs/migrate.md). With --slots N up to N runs hold LOCK at once. N is
stored with the lock. A lock is used always with --slots, or always without: a run of
the other form is refused while the lock is held, and not noticed while it is free.
Several locks are taken all or none, in an order of their own: two such runs never wait
for each other.

More: lockkeeper help exit-codes, help signals, help environment.`

const runExamples = `  lockkeeper run nightly-backup -- ./backup.sh
  lockkeeper run --wait 0 --busy-code 0 report -- make report   # skip it if another runs
  lockkeeper run --servers zk1:2181,zk2:2181 --wait 10m deploy -- ./deploy.sh
  lockkeeper run --slots 3 gpu -- ./train.py`

// runFlags are the flags of run.
type runFlags struct {
	jobFlags
	shared     bool
	exclusive  bool
	slots      int
	wait       time.Duration
	statusFile string
	busyCode   int
	lostCode   int
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:        "run [flags] LOCK… -- COMMAND [ARG…]",
		SuggestFor: []string{"lock", "try", "with"},
		Short:      "Run a command while holding a lock",
		Long:       runHelp,
		Example:    runExamples,
		Args:       jobArgs("lock", locksMax),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			return run(f, cmd.Flags().Changed, args[:dash], args[dash:])
		},
	}
	f.add(cmd)
	f.addLog(cmd)
	f.addRevocable(cmd)
	f.completeNames(cmd, locksPath, locksMax)
	flags := cmd.Flags()
	flags.BoolVar(&f.shared, "shared", false, "hold the lock together with other --shared runs")
	flags.BoolVar(&f.exclusive, "exclusive", false, "hold the lock alone, as the write side of a read/write lock")
	flags.IntVar(&f.slots, "slots", 0, "hold one of `N` slots of the lock")
	flags.DurationVar(&f.wait, "wait", link.WaitForEver, "give up after this wait; 0 tries once")
	flags.Lookup("wait").DefValue = "for ever"
	flags.StringVar(&f.statusFile, "status-file", "", "write the outcome to this `file`, as JSON")
	flags.IntVar(&f.busyCode, "busy-code", exit.Busy, "exit `status` if the lock was busy; 0 says nothing")
	flags.IntVar(&f.lostCode, "lost-code", exit.Lost, "exit `status` if the lock was lost")
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
	case f.slots > 0 && (f.shared || f.exclusive), f.shared && f.exclusive:
		return exit.Errorf(exit.Usage, "--slots, --shared and --exclusive: it is one or the other")
	}
	return f.jobFlags.check(changed)
}

// locksMax is how many locks a run can hold at once.
const locksMax = 100

// signalOf returns the signal that the user calls name: TERM, SIGTERM or 15. It is one that a command can handle.
func signalOf(name string) (syscall.Signal, error) {
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	n, err := strconv.Atoi(name)
	if err == nil && unix.SignalName(syscall.Signal(n)) != "" {
		sig = syscall.Signal(n)
	}
	switch sig {
	case 0:
		return 0, exit.Errorf(exit.Usage, "--revocable %s: no such signal", name)
	case syscall.SIGKILL, syscall.SIGSTOP:
		return 0, exit.Errorf(exit.Usage, "--revocable %s: no command can handle that signal", name)
	}
	return sig, nil
}

func run(f runFlags, changed func(string) bool, names, argv []string) error {
	status, err := openStatusFile(f.statusFile) // first, so that it does not tell of an earlier run
	if err != nil {
		return err
	}
	cfg, err := f.config(changed, names, argv)
	if err != nil {
		out := front.Outcome{Kind: front.Failed, Status: exit.StatusOf(err, exit.Usage), Text: err.Error()}
		if out.Status == exit.NotExecutable || out.Status == exit.NotFound {
			out.Kind = front.NotExecutable
		}
		status.tell(out)
		return err
	}
	cfg.Granted = func(token int64) { f.log.inform(fmt.Sprintf("%s: the lock is held, token %d", cfg.Name, token)) }
	out := front.Run(cfg)
	f.log.informOfEnd(cfg.Name, out)
	status.tell(out)
	if out.Kind == front.Busy && out.Status == exit.OK {
		out.Text = "" // where that is a success, as in cron, there is nothing to tell
	}
	ran := &ranError{Outcome: out, log: f.log}
	ran.tell() // before the command of --on-lost, which may take a minute
	f.tellLost(out)
	return ran
}

// config says what to run under the locks that the user calls names.
func (f runFlags) config(changed func(string) bool, names, argv []string) (cfg front.Config, err error) {
	paths := make([]string, len(names))
	for i, name := range names {
		if paths[i], err = lockPath(name); err == nil {
			err = refuseHome(paths[i])
		}
		if err != nil {
			return cfg, err
		}
	}
	if err := f.check(changed); err != nil {
		return cfg, err
	}
	if cfg, err = f.jobFlags.config(changed, "lock", strings.Join(names, " and "), paths[0], argv); err != nil {
		return cfg, err
	}
	cfg.Open.Also, cfg.Open.Slots = paths[1:], f.slots
	cfg.Open.Shared, cfg.Open.Exclusive, cfg.Open.Wait = f.shared, f.exclusive, f.wait
	cfg.BusyStatus, cfg.LostStatus = f.busyCode, f.lostCode
	return cfg, nil
}

// A ranError is how run has ended, well or badly.
type ranError struct {
	front.Outcome
	log *roleLog // where to say why; nil is standard error
}

func (e *ranError) Error() string { return e.Text }

func asRan(err error, ran **ranError) bool { return errors.As(err, ran) }

// tell says, once, what the user has to know.
func (e *ranError) tell() {
	if e.Text != "" {
		e.log.say(slog.LevelError, e.Text)
		e.Text = ""
	}
}

// end says what the user has to know, and returns the exit status, unless the process is to end by
// a signal.
func (e *ranError) end() int {
	e.tell()
	switch {
	case e.Interrupted:
		interruptJob()
	case e.Kind == front.Signalled && e.Status == exit.SignalBase+int(syscall.SIGINT):
		interruptSelf()
	}
	return e.Status
}
