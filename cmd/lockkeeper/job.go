package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/engine"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// sessionTimeoutDefault outlasts a busy machine and a short break of the network. What it costs, that
// others wait so long after a holder's machine has died, is little to the jobs that run under a command:
// one that is merely killed gives its lock back at once.
const sessionTimeoutDefault = 30 * time.Second

// sessionTimeoutMin is where a plan to end the child in time stops making sense.
const sessionTimeoutMin = 300 * time.Millisecond

// jobFlags are the flags of every command that runs another one under a lock.
type jobFlags struct {
	accessFlags
	grace          time.Duration
	sessionTimeout time.Duration
	vouch          string
	label          string
	revocable      string
	onLost         string
	onLostDir      string // in which it runs; empty is the present one
}

// addRevocable adds --revocable to a command that passes signals on.
func (f *jobFlags) addRevocable(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.revocable, "revocable", "", "`signal` for the command when another contender asks for the lock")
	completeValues(cmd, "revocable", "TERM", "INT", "HUP", "USR1", "USR2")
}

func (f *jobFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addTo(cmd, makingFlags)
	flags.DurationVar(&f.grace, "grace", link.GraceAuto, "time from TERM to KILL when the command has to end")
	flags.Lookup("grace").DefValue = "5s, or less"
	flags.DurationVar(&f.sessionTimeout, "session-timeout", sessionTimeoutDefault, "how long a dead machine keeps the lock")
	flags.StringVar(&f.vouch, "vouch", "sync", "what proves that the lock is still held: an answer of the server (ping),\nof the leader (sync), or a write by a quorum (write)")
	flags.StringVar(&f.label, "label", "", "what lockkeeper locks shows (default the command's name)")
	flags.StringVar(&f.onLost, "on-lost", "", "shell command `CMD` to run when the lock is lost, after the command has ended")
	completeValues(cmd, "vouch", "ping", "sync", "write")
}

// addLog adds the flags about what is said on standard error.
func (f *jobFlags) addLog(cmd *cobra.Command) {
	f.addLogTo(cmd)
	for name, usage := range map[string]string{
		"log-format": "how lockkeeper's own messages are written: text, or json, one object a line",
		"log-level":  "the least `level` that is told: info (with when the lock is taken, and its token), warn or error",
		"quiet":      quietUsage,
	} {
		cmd.Flags().Lookup(name).Usage = usage
	}
}

const quietUsage = "say nothing about waiting, and about a missing server list"

// jobArgs checks that the arguments are a name, or up to so many, --, and a command. what is what the names
// are of.
func jobArgs(what string, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		var wrong string
		switch dash := cmd.ArgsLenAtDash(); {
		case len(args) == 0:
			wrong = fmt.Sprintf("no %s and no command", what)
		case dash < 0:
			wrong = "no -- in front of the command"
		case dash == 0:
			wrong = fmt.Sprintf("no %s in front of the --", what)
		case dash > most:
			wrong = fmt.Sprintf("%d %ss are more than %d", dash, what, most)
		case len(args) == dash:
			wrong = "no command behind the --"
		case args[dash] == "":
			wrong = "the name of the command behind the -- is empty"
		default:
			return nil
		}
		return exit.Errorf(exit.Usage, "%s: %s; it is lockkeeper %s", cmd.Name(), wrong, cmd.Use)
	}
}

// check refuses values that make no sense. changed reports whether a flag was given.
func (f *jobFlags) check(changed func(string) bool) error {
	_, err := engine.ParseVouch(f.vouch)
	if err == nil {
		err = f.log.check()
	}
	if changed("revocable") && err == nil {
		_, err = signalOf(f.revocable)
	}
	for _, err := range []error{
		atLeast(changed, "grace", f.grace, 0), atLeast(changed, "session-timeout", f.sessionTimeout, sessionTimeoutMin),
		err,
	} {
		if err != nil {
			return err
		}
	}
	if _, err := link.NewPlan(f.sessionTimeout, f.grace); err != nil { // and again with what the server grants
		return exit.Errorf(exit.Usage, "%w", err)
	}
	return nil
}

// atLeast refuses a duration that was given and is too short.
func atLeast(changed func(string) bool, flag string, d, least time.Duration) error {
	if changed(flag) && d < least {
		return exit.Errorf(exit.Usage, "--%s %v: not a duration of at least %v", flag, d, least)
	}
	return nil
}

// config says what to run under the lock at path, which the user calls name, and how to wait for it. changed
// reports whether a flag was given; what is "lock" or "election", or empty if the user has been told.
func (f *jobFlags) config(changed func(string) bool, what, name, path string, argv []string) (front.Config, error) {
	if err := refuseHome(path); err != nil {
		return front.Config{}, err
	}
	program, err := exec.LookPath(argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) { // no waiting in line for what cannot run
		return front.Config{}, notRunnable(argv, err)
	}
	var revoke syscall.Signal
	if f.revocable != "" {
		if revoke, err = signalOf(f.revocable); err != nil {
			return front.Config{}, err
		}
	}
	to, err := f.settings()
	if err != nil {
		return front.Config{}, err
	}
	for _, name := range []string{to.Servers, to.CA, to.Cert, to.Key, to.AuthFile} {
		if !utf8.ValidString(name) { // the engine is told in JSON
			return front.Config{}, exit.Errorf(exit.Usage, "the name %q is not UTF-8 (a link to it can have another)", name)
		}
	}
	label := f.label
	if label == "" {
		label = programOf(argv)
	}
	var timeoutAsked time.Duration
	if changed("session-timeout") {
		timeoutAsked = f.sessionTimeout
	}
	outlivePipes()
	to.Quiet = f.log.silent()
	if what != "" {
		f.noticeLocal(what)
	}
	return front.Config{
		Name: name,
		Open: link.Open{
			Access: to, Lock: path, Label: label, PID: os.Getpid(), User: userName(),
			SessionTimeout: f.sessionTimeout, ConnectTimeout: f.connectTimeout,
			Wait: link.WaitForEver, Grace: f.grace, Vouch: f.vouch,
			Claims: link.ClaimsOf(os.Getenv),
		},
		TimeoutAsked: timeoutAsked,
		Program:      program, Argv: argv, Env: f.passOn(os.Environ(), to),
		RevokeSignal: revoke,
		BusyStatus:   exit.Busy, LostStatus: exit.Lost,
		Engine: self(), EngineArgs: []string{"lockkeeper", "engine", "--", name},
		Stderr: f.log.lines(), Quiet: f.log.silent(),
		Spare: ownProcess,
	}, nil
}

// outlivePipes keeps the process from being ended by a write to standard error that is not read any more: the
// command would end with it, and its lock, and the exit status would be lost. The command is not concerned:
// what is caught is not inherited.
func outlivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// notRunnable is the error for a command that LookPath refuses.
func notRunnable(argv []string, err error) error {
	hint := ""
	if len(argv) == 1 && strings.Contains(argv[0], " ") {
		hint = " (there is no shell: write the command and its arguments one by one, or -- sh -c '…')"
	}
	return exit.Errorf(notFoundStatus(err), "%s: %w%s", argv[0], errors.Unwrap(err), hint)
}

// notFoundStatus tells a program that is not there from one that cannot be executed.
func notFoundStatus(err error) int {
	if errors.Is(err, exec.ErrNotFound) {
		return exit.NotFound
	}
	return front.ExecStatus(err)
}

// ownProcess reports whether p, somewhere below the child, is one that looks after itself: the local
// keeper, or the engine of a lock that is held inside of this one.
func ownProcess(p proc.Process) bool {
	if !proc.SameProgram(p) {
		return false
	}
	args := proc.Args(p)
	return len(args) >= 2 && args[1] == "engine" || len(args) >= 3 && args[1] == "server" && args[2] == "--local"
}
