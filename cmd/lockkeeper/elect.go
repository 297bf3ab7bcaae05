package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

const electHelp = `Keep one instance of COMMAND running, on one of the machines that run this.

Each lockkeeper elect NAME is a candidate; NAME is the election below
/lockkeeper/elections, or an absolute path. The one that leads runs COMMAND, as
lockkeeper run does under a lock, with the same care: unless an operator puts the leader
out, the last process of COMMAND is dead before another candidate leads. COMMAND sees
the path of the election in LOCKKEEPER_LOCK, the fencing token, a number that grows from
leader to leader, in LOCKKEEPER_TOKEN, and the servers in LOCKKEEPER_SERVERS. What the
--tls flags, --auth-file and --acl say is in the variables that the list below names.

When COMMAND ends, another candidate leads at once, if there is one. This one pauses
for --backoff, twice as long each time COMMAND ends soon, and stands for election
again, unless --restart says otherwise:

  always       whatever COMMAND's exit status was
  on-failure   unless it was 0; then lockkeeper ends with 0
  never        lockkeeper ends, with COMMAND's exit status

If leadership is lost, because the servers cannot be reached or the session has expired,
COMMAND is ended in time. If an operator puts the leader out (lockkeeper break), another
candidate may lead at once, and COMMAND is killed as soon as lockkeeper learns of it.
Whatever --restart says, lockkeeper then stands for election again. It goes on looking
for servers until one can be reached.

With --revocable SIGNAL, COMMAND gets that signal, once, when it is asked to let
another candidate lead (lockkeeper revoke /lockkeeper/elections/NAME). It leads for as
long as it runs; when it has ended, --restart says whether it stands again.

With --http, GET /leader has status 200 while this candidate leads, and 503 otherwise,
as load balancers ask. Each answer looks at the deadline of the leadership, so a leader
without heartbeats stops in time. GET / says as JSON which candidate leads. At a
loopback address a request with another name than localhost as its Host gets 403.

INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to COMMAND. A second INT or TERM, if
it comes 0.2s after the first or later, kills it. These and the signal of --revocable
go to COMMAND's process group, as they do under lockkeeper run.
After an INT or TERM, lockkeeper ends when COMMAND has, and another candidate leads; so
it does if HUP, QUIT or ^C at the terminal (status 130) has ended COMMAND. A candidate
that waits or pauses ends at once, except on USR1 and USR2, which it ignores.

If lockkeeper is killed, so is COMMAND, and another candidate leads at once. If its
machine dies, another leads when --session-timeout has passed.

Candidates of Curator's LeaderLatch can stand for the same election, by its path. They
see the value of --id as the candidate's id if --id-only is given, and otherwise JSON.

Exit status: COMMAND's own, 128+n if signal n ended it, and
   64  wrong usage, or settings that cannot work
   71  the operating system refused something
   76  it was started under the election that it stands for, and would wait for itself
   77  the servers refuse access
   78  a client configuration file cannot be used
  126  COMMAND cannot be executed, 127 it cannot be found, when lockkeeper starts; it is
       looked for again in each term
128+n  signal n came while there was no COMMAND`

// electFlags are the flags of elect.
type electFlags struct {
	jobFlags
	restart    string
	backoff    time.Duration
	backoffMax time.Duration
	id         string
	idOnly     bool
	http       string
}

func newElect() *cobra.Command {
	var f electFlags
	cmd := &cobra.Command{
		Use:        "elect [flags] NAME -- COMMAND [ARG…]",
		SuggestFor: []string{"lead", "leader"},
		Short:      "Keep one instance of a command running, on one of several machines",
		Long:       electHelp,
		Args:       jobArgs("election", 1),
		RunE:       func(cmd *cobra.Command, args []string) error { return elect(f, cmd.Flags().Changed, args[0], args[1:]) },
	}
	f.add(cmd)
	f.addLog(cmd)
	f.addRevocable(cmd)
	f.completeNames(cmd, electionsPath, 1)
	flags := cmd.Flags()
	flags.StringVar(&f.restart, "restart", restartAlways, "whether to go on when the command has ended: always, on-failure or never")
	flags.DurationVar(&f.backoff, "backoff", time.Second, "pause before standing for election again; doubled each time the command ends soon (0: none at first, then 100ms)")
	flags.DurationVar(&f.backoffMax, "backoff-max", time.Minute, "longest pause; 0, with --backoff 0, for none at all; after a turn that took longer, waiting included, the pause is --backoff again")
	flags.StringVar(&f.id, "id", "", "what programs that look for the leader see as the candidate's id, such as an address")
	flags.BoolVar(&f.idOnly, "id-only", false, "store nothing but the id in the candidate's znode, as Curator's LeaderLatch does")
	flags.StringVar(&f.http, "http", "", "answer at `host:port`: GET /leader has status 200 while this candidate leads and\n503 otherwise, GET / names the leader, as JSON")
	return cmd
}

// check refuses values that make no sense.
func (f electFlags) check(changed func(string) bool) error {
	switch {
	case !slices.Contains([]string{restartAlways, restartOnFailure, restartNever}, f.restart):
		return exit.Errorf(exit.Usage, "--restart %s: not one of %s, %s and %s", f.restart, restartAlways, restartOnFailure, restartNever)
	case f.backoff < 0:
		return exit.Errorf(exit.Usage, "--backoff %v: is negative", f.backoff)
	case f.backoffMax < f.backoff:
		return exit.Errorf(exit.Usage, "--backoff-max %v: is less than --backoff %v", f.backoffMax, f.backoff)
	case f.idOnly && f.id == "":
		return exit.Errorf(exit.Usage, "--id-only: needs --id")
	}
	return f.jobFlags.check(changed)
}

func elect(f electFlags, changed func(string) bool, name string, argv []string) error {
	path, err := electionPath(name)
	if err == nil {
		err = f.check(changed)
	}
	if err != nil {
		return err
	}
	cfg, err := f.config(changed, "election", name, path, argv)
	if err != nil {
		return err
	}
	cfg.Open.Election = &link.Election{ID: f.id, Only: f.idOnly}
	cfg.Standby = true
	cfg.Granted = func(token int64) {
		f.log.inform(fmt.Sprintf("%s: this candidate leads, token %d", name, token))
	}
	if f.http != "" {
		cfg.Standing = &front.Standing{}
		err := serveElection(f.http, path, candidateName(f.id, cfg.Open.Label), cfg.Standing, f.log)
		if err != nil {
			return err
		}
	}
	streams, err := keepStreams()
	if err != nil {
		return exit.Errorf(exit.OS, "%w", err)
	}
	ears := newEars()
	cfg.Early = ears.early
	var passed []syscall.Signal // on to the command
	cfg.Ended = func() { passed = ears.heard(ears.hup, ears.quit) }
	pauses := pacer{min: f.backoff, max: f.backoffMax}
	for {
		began := time.Now()
		passed = nil
		cfg.Engine = self() // the program may have been replaced meanwhile
		out := front.Run(cfg)
		f.log.informOfEnd(name, out)
		if out.Token != 0 {
			cfg.TimeoutAsked = 0 // it was said
		}
		if err := streams.restore(); err != nil {
			return exit.Errorf(exit.OS, "%w", err)
		}
		f.tellLost(out)
		heard := append(passed, ears.heard(ears.end, ears.user)...) // a later HUP or QUIT ends the pause
		if !standsAgain(f.restart, out, heard) {
			return &ranError{Outcome: told(out, heard), log: f.log}
		}
		pause := pauses.next(time.Since(began))
		when := "at once"
		if pause > 0 {
			when = "in " + pause.String()
		}
		f.log.say(slog.LevelWarn, electOutcome(out, name, argv[0])+"; standing for election again "+when)
		if sig := ears.waitOr(pause); sig != 0 {
			return &ranError{Outcome: front.Outcome{Kind: front.Signalled, Status: exit.SignalBase + int(sig)}}
		}
	}
}

// ears hear the signals that the front passes on or that end it. elect looks at them when the front has done its
// part. Each remembers one signal: a second one would change nothing.
type ears struct{ end, hup, quit, user chan os.Signal }

func newEars() ears {
	e := ears{end: make(chan os.Signal, 1), hup: make(chan os.Signal, 1), quit: make(chan os.Signal, 1), user: make(chan os.Signal, 1)}
	for ear, sigs := range map[chan os.Signal][]os.Signal{
		e.end: {syscall.SIGINT, syscall.SIGTERM}, e.hup: {syscall.SIGHUP}, e.quit: {syscall.SIGQUIT}, e.user: {syscall.SIGUSR1, syscall.SIGUSR2},
	} {
		for _, sig := range sigs {
			if !signal.Ignored(sig) { // the front does the same
				signal.Notify(ear, sig)
			}
		}
	}
	return e
}

// heard returns the signals that some of the ears have heard since it was last called.
func (e ears) heard(some ...chan os.Signal) (all []syscall.Signal) {
	for _, ear := range some {
		select {
		case s := <-ear:
			all = append(all, s.(syscall.Signal))
		default:
		}
	}
	return all
}

// early returns a signal that ends us, if one has been heard.
func (e ears) early() os.Signal {
	select {
	case s := <-e.end:
		return s
	case s := <-e.hup:
		return s
	case s := <-e.quit:
		return s
	default:
		return nil
	}
}

// waitOr waits for a while, or for a signal that ends us, which it returns.
func (e ears) waitOr(d time.Duration) syscall.Signal {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var s os.Signal
	select {
	case <-timer.C:
		return 0
	case s = <-e.end:
	case s = <-e.hup:
	case s = <-e.quit:
	}
	return s.(syscall.Signal)
}

// electOutcome says what has become of one term.
func electOutcome(out front.Outcome, name, command string) string {
	switch {
	case out.Text != "":
		return out.Text
	case out.Child == nil:
		return name + ": " + out.Kind
	case out.Child.Signal != "":
		return fmt.Sprintf("%s: %s was ended by %s", name, command, out.Child.Signal)
	}
	return fmt.Sprintf("%s: %s has ended with exit status %d", name, command, out.Child.Exit)
}

// What --restart can say.
const (
	restartAlways    = "always"
	restartOnFailure = "on-failure"
	restartNever     = "never"
)

// standsAgain decides whether a candidate goes on after an outcome, given the signals that it has heard.
func standsAgain(restart string, out front.Outcome, heard []syscall.Signal) bool {
	if slices.Contains(heard, syscall.SIGINT) || slices.Contains(heard, syscall.SIGTERM) || out.Kind == front.Signalled || out.Interrupted {
		return false
	}
	failed := out.Status != 0
	switch out.Kind {
	case front.Lost:
		return true
	case front.Failed:
		return out.Status == exit.Unreachable || out.Status == exit.Internal
	case front.Ran:
		// The user's ^C, which reaches a command at a terminal without us, or the end of the terminal.
		if out.Child.Exit == exit.SignalBase+int(syscall.SIGINT) || slices.ContainsFunc(heard, func(sig syscall.Signal) bool {
			return (sig == syscall.SIGHUP || sig == syscall.SIGQUIT) && out.Child.Signal == unix.SignalName(sig)
		}) {
			return false
		}
	}
	return restart == restartAlways || restart == restartOnFailure && failed
}

// told returns the outcome for a candidate that goes on no more: that it was told to end says more than what
// else befell it in that moment, but for the end of its command.
func told(out front.Outcome, heard []syscall.Signal) front.Outcome {
	for _, sig := range heard {
		if (sig == syscall.SIGINT || sig == syscall.SIGTERM) && out.Kind != front.Ran {
			return front.Outcome{Kind: front.Signalled, Status: exit.SignalBase + int(sig), Text: out.Text, Token: out.Token, Child: out.Child}
		}
	}
	return out
}

// backoffAfterNone is what the second pause is if the first is none: a command that ends at once is not to be
// begun again as fast as the servers can.
const backoffAfterNone = 100 * time.Millisecond

// A pacer says how long to pause before the next term.
type pacer struct {
	min, max time.Duration
	now      time.Duration // 0 at the beginning
}

// next returns the pause after a term that has lasted so long, waiting included.
func (p *pacer) next(lasted time.Duration) time.Duration {
	if p.now == 0 || lasted > p.max {
		p.now = p.min
	}
	d := p.now
	p.now *= 2
	if p.now == 0 {
		p.now = backoffAfterNone
	}
	p.now = min(p.now, p.max)
	return d
}

// streams are copies of standard input and output, which the front lets go of when its child has them. The
// next child is to have them, too.
type streams [2]int

func keepStreams() (s streams, err error) {
	for fd := range s {
		if s[fd], err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, syscall.Stderr+1); err != nil {
			return s, fmt.Errorf("keep standard stream %d: %w", fd, err)
		}
	}
	return s, nil
}

func (s streams) restore() error {
	for fd, kept := range s {
		if err := unix.Dup2(kept, fd); err != nil {
			return fmt.Errorf("take back standard stream %d: %w", fd, err)
		}
	}
	return nil
}
