package main

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// connectTimeoutDefault is how long a command looks for a server before it says that there is none.
const connectTimeoutDefault = 10 * time.Second

// suggestionsMax is in how many letters a command may differ from what it is suggested for.
const suggestionsMax = 2

// dashedNumber matches what is said of an argument such as -5.
var dashedNumber = regexp.MustCompile(`^unknown shorthand flag: '\d' in -`)

// maybeEmpty are the flags whose value may be empty: what others read (run --label, join --data), and the members that roll has done.
var maybeEmpty = []string{"label", "data", "skip"}

// refuseEmptyValues refuses flags with an empty value, as where a script has not set its variable: the command would do as if the flag
// had not been given.
func refuseEmptyValues(cmd *cobra.Command, _ []string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && f.Value.Type() == "string" && f.Value.String() == "" && !slices.Contains(maybeEmpty, f.Name) {
			err = exit.Errorf(exit.Usage, "%s: --%s: is empty", commandName(cmd), f.Name)
		}
	})
	return err
}

// newRoot makes the command with its subcommands. Every call makes a new one, without state shared
// between them.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lockkeeper",
		Short: "Distributed locks on ZooKeeper, for people at a shell",
		Long: `Lockkeeper runs programs under distributed locks.

    lockkeeper run nightly-backup -- ./backup.sh

runs the script on one machine at a time. Locks live on ZooKeeper servers, which
are named with --servers or LOCKKEEPER_SERVERS. Without them they live on this
machine: a small server of your own is started in the background.

LOCK is a name, or the absolute path of a znode, which is used as it is.`,
		Version:                    readVersion().String(),
		Args:                       wantCommand,
		SuggestionsMinimumDistance: suggestionsMax,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		PersistentPreRunE: refuseEmptyValues,

		SilenceUsage:  true, // a page of flags hides the one line that says what is wrong
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root {
			return exit.Errorf(exit.Usage, "%w (see lockkeeper --help)", err)
		}
		name := commandName(cmd)
		hint := "see lockkeeper " + name + " --help"
		switch wrong := wrongValue(err); {
		case wrong != "":
			return exit.Errorf(exit.Usage, "%s: %s", name, wrong)
		case strings.HasPrefix(name, "z ") && strings.HasSuffix(err.Error(), " in -w"): // zkCli's
			hint = "lockkeeper z watch PATH shows changes"
		case strings.HasPrefix(name, "z ") && strings.HasSuffix(err.Error(), " in -s"):
			hint = "lockkeeper z stat PATH shows the stat"
		case similarFlags(cmd, err) != "":
			hint = "did you mean " + similarFlags(cmd, err) + "?"
		case dashedNumber.MatchString(err.Error()):
			hint += "; a value that begins with a dash stands behind --"
		case cmd.Name() == "run" || cmd.Name() == "elect":
			hint += "; the command to run, with its own flags, stands behind --"
		}
		return exit.Errorf(exit.Usage, "%s: %w (%s)", name, err, hint)
	})
	for _, g := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Locks:", []*cobra.Command{newRun(), newElect(), newHold(), newRenew(), newRelease(), newLocks(), newBreak(), newRevoke(), newSlots()}},
		{"Znodes:", []*cobra.Command{newZ(), newShell(), newZkcli()}},
		{"Configuration, naming and membership:", []*cobra.Command{newConfig(), newRegister(), newDiscover(), newJoin(), newMembers()}},
		{"Servers:", []*cobra.Command{newServer(), newStatus(), newDoctor(), newEnsemble(), newBackup(), newRestore(), newBench()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newVersion(), newGuard(), newHolder(), newStay(), newEngine())
	root.SetVersionTemplate("{{.Version}}\n")
	addExamples(root)
	root.AddCommand(newTopics()...)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help": // which would show the page of all commands instead
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, _ := root.Find(args)
				return wantCommand(found, rest)
			}
		case "completion": // which would show help for a shell that it does not know
			cmd.Args = wantCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
	return root
}
