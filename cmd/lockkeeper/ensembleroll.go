package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ensemble"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/roll"
)

// rollFlags are the flags of ensemble roll.
type rollFlags struct {
	access         accessFlags
	restart, skip  string
	plan           bool
	timeout, pause time.Duration
}

func newEnsembleRoll() *cobra.Command {
	var f rollFlags
	cmd := &cobra.Command{
		Use:   "roll --restart COMMAND",
		Short: "Restart the members one after the other, without an outage",
		Long: `Restart the members of an ensemble one after the other: observers and followers first, the
leader last. COMMAND is run by a shell on this machine, without a terminal, for each member
with its {host}, {port} or {address} as in --servers, which has to name all members.

Before each step all members have to be well: each answers, gives a session (so it commits
transactions) and has the same configuration; one leads; all followers are in sync. After it
the member has to be seen to go away and come back, with all that the leader had before. At
the first doubt the roll ends: it says what was restarted, what was not, which member may have
been, and how to go on.

--plan shows the steps and restarts nothing; it needs no --restart.

Exit status: 0 all were restarted, 1 there was a doubt, 64 wrong usage, 130 interrupted
between or in a step.`,
		Example: `  lockkeeper ensemble roll --servers zk1:2181,zk2:2181,zk3:2181 --plan --restart 'ssh {host} sudo systemctl restart zookeeper'
  lockkeeper ensemble roll --servers zk1:2181,zk2:2181,zk3:2181 --restart 'ssh {host} sudo systemctl restart zookeeper'`,
		Args: wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.access.addTo(cmd, sessionFlags)
	flags := cmd.Flags()
	flags.StringVar(&f.restart, "restart", "", "shell `command` that restarts a member, with {host}, {port} or {address} in it")
	flags.StringVar(&f.skip, "skip", "", "`members` that were restarted already, \"host:port,host:port\"")
	flags.BoolVar(&f.plan, "plan", false, "show the steps, and restart nothing")
	flags.DurationVar(&f.timeout, "timeout", 2*time.Minute, "how long one member may take, until all are well again")
	flags.DurationVar(&f.pause, "pause", 0, "how long to wait between two members")
	return cmd
}

func (f *rollFlags) run(cmd *cobra.Command) error {
	o, w, err := f.settings()
	if err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	if f.plan {
		steps, doubt := roll.Plan(ctx, w, o)
		for i, s := range steps {
			how := ""
			if f.restart != "" {
				text, err := w.Command.For(s.Member)
				if err != nil {
					return err
				}
				how = ": " + text
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%d. %s (%s)%s\n", i+1, s.Member, s.Mode, how); err != nil {
				return err
			}
		}
		if doubt != nil {
			return orInterrupted(ctx, exit.Errorf(exit.Failure, "ensemble roll would not begin: %w", doubt))
		}
		return nil
	}
	o.Say = func(text string) { fmt.Fprintln(cmd.OutOrStdout(), text) }
	err = roll.Run(ctx, w, o)
	if err == nil {
		return nil
	}
	var how *roll.Error
	if errors.As(err, &how) && (how.Unknown != "" || len(how.Restarted) > 0 && len(how.Left) > 0) {
		notice("when all is well again, go on with: " + f.goOn(cmd.Flags(), o, how))
	}
	status := exit.Failure
	if ctx.Err() != nil {
		status = exit.StatusOf(orInterrupted(ctx, err), status)
	}
	return exit.Errorf(status, "ensemble roll: %s", err) // what was done is to be known also after an interrupt
}

// goOn returns the command that restarts the members that were not, and the one that may have been.
func (f *rollFlags) goOn(flags *pflag.FlagSet, o roll.Options, how *roll.Error) string {
	words := []string{"lockkeeper", "ensemble", "roll", "--servers", strings.Join(o.Members, ",")}
	flags.Visit(func(given *pflag.Flag) {
		if !slices.Contains([]string{"servers", "skip", "restart", "plan"}, given.Name) {
			words = append(words, "--"+given.Name, given.Value.String())
		}
	})
	if skip := append(slices.Clone(o.Skip), how.Restarted...); len(skip) > 0 {
		words = append(words, "--skip", strings.Join(skip, ","))
	}
	words = append(words, "--restart", f.restart)
	for i, w := range words {
		words[i] = ensemble.ShellWord(w)
	}
	return strings.Join(words, " ")
}

// settings puts together what the flags and the environment say.
func (f *rollFlags) settings() (o roll.Options, w *roll.Network, err error) {
	fail := func(format string, args ...any) (roll.Options, *roll.Network, error) {
		return o, nil, exit.Errorf(exit.Usage, "ensemble roll: "+format, args...)
	}
	to, err := f.access.settings()
	if err != nil {
		return o, nil, err
	}
	if to.Servers == access.Local {
		return fail("no servers are named: --servers has all members of the ensemble")
	}
	if f.timeout <= 0 || f.pause < 0 {
		return fail("--timeout is more than 0, and --pause is not negative")
	}
	o = roll.Options{Timeout: f.timeout, Pause: f.pause}
	if o.Members, err = memberList(to.Servers); err != nil {
		return fail("%s: %w", to.Servers, err)
	}
	if f.skip != "" {
		if o.Skip, err = memberList(f.skip); err != nil {
			return fail("--skip %s: %w", f.skip, err)
		}
	}
	for _, s := range o.Skip {
		if !slices.Contains(o.Members, s) {
			return fail("--skip %s: it is not in --servers", s)
		}
	}
	opt, err := to.ClientOptions(client.Options{ConnectTimeout: to.ConnectTimeout}, notice)
	if err != nil {
		return fail("%w", err)
	}
	w = &roll.Network{Dial: opt.Dial, Session: opt, Command: roll.Command(f.restart), Output: os.Stderr}
	switch {
	case f.restart != "":
	case f.plan:
		return o, w, nil // the order does not depend on it
	default:
		return fail("--restart is missing: the command that restarts a member")
	}
	for _, m := range o.Members {
		if _, err := w.Command.For(m); err != nil {
			return fail("--restart: %w", err)
		}
	}
	return o, w, nil
}

// memberList returns the members of a server list, each with its port.
func memberList(list string) (members []string, err error) {
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.Contains(name, "/") || strings.HasPrefix(name, "unix:") {
			return nil, fmt.Errorf("%q: a member is host:port, without a chroot", name)
		}
		if _, _, err := net.SplitHostPort(name); err != nil {
			name = net.JoinHostPort(strings.Trim(name, "[]"), defaultPort)
		}
		if slices.Contains(members, name) {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		members = append(members, name)
	}
	return members, nil
}
