package main

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// wantArgs checks that there are from min to max arguments.
func wantArgs(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		var wrong string
		switch {
		case len(args) < min:
			wrong = "an argument is missing"
		case len(args) > max:
			wrong = fmt.Sprintf("%q is one argument too many", args[max])
		default:
			return nil
		}
		return exit.Errorf(exit.Usage, "%s: %s; it is %s", commandName(cmd), wrong, strings.TrimPrefix(cmd.UseLine(), shellRoot+" "))
	}
}

// commandName is what the user calls cmd: the words behind the program's name.
func commandName(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// wantCommand says that parent has no such command, and which one may have been meant.
func wantCommand(parent *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + parent.CommandPath() + " --help"
	if parent.Root().Name() == shellRoot {
		hint = strings.TrimSpace("see help " + strings.TrimSpace(strings.TrimPrefix(parent.CommandPath(), shellRoot)))
	}
	similar := parent.SuggestionsFor(args[0])
	for _, topic := range parent.Commands() {
		if topic.IsAdditionalHelpTopicCommand() && strings.HasPrefix(topic.Name(), args[0]) {
			similar = append(similar, "help "+topic.Name())
		}
	}
	slices.Sort(similar)
	similar = slices.Compact(similar)
	if len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	for _, verb := range zVerbs() {
		if !parent.HasParent() && parent.Name() != shellRoot && (verb.Name() == args[0] || slices.Contains(verb.SuggestFor, args[0])) {
			hint = "did you mean z " + verb.Name() + "?"
		}
	}
	if word := zkcliWords[args[0]]; word != "" && (!parent.HasParent() && parent.Name() != shellRoot || parent.CommandPath() == "lockkeeper z") {
		hint = word
	}
	switch inShell := parent.Root().Name() == shellRoot; {
	case inShell && (args[0] == "z" || args[0] == "lockkeeper"):
		hint = "in the shell a verb stands alone, as in ls /"
	case parent.HasParent() && strings.HasPrefix(args[0], "/"):
		hint = "see " + strings.TrimPrefix(parent.CommandPath(), shellRoot+" ") + " get " + args[0]
	}
	words := strings.TrimSpace(strings.TrimPrefix(parent.CommandPath(), parent.Root().Name()) + " " + args[0])
	return exit.Errorf(exit.Usage, "there is no command %q (%s)", words, hint)
}

// similarFlags returns the flags that may have been meant where there is no such flag: with a longer or shorter name, or with one dash
// in place of two.
func similarFlags(cmd *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name, similar := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()), []string(nil)
	name, _, _ = strings.Cut(name, "=")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if min(len(name), len(f.Name)) > 2 && !f.Hidden && (strings.HasPrefix(f.Name, name) || strings.HasPrefix(name, f.Name)) {
			similar = append(similar, "--"+f.Name)
		}
	})
	return strings.Join(similar, " or ")
}

// durationForm is the form of a duration, of whatever length.
var durationForm = regexp.MustCompile(`^[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// wrongValue says what a flag wants whose value is no number or no duration; empty for other errors.
func wrongValue(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return ""
	}
	what := ""
	switch invalid.GetFlag().Value.Type() {
	case "duration":
		if durationForm.MatchString(invalid.GetValue()) {
			what = "longer than the longest duration, which is about 292 years"
			break
		}
		number := "10"
		if _, err := strconv.ParseFloat(invalid.GetValue(), 64); err == nil {
			number = invalid.GetValue()
		}
		what = fmt.Sprintf("not a duration: a duration has a unit: %[1]ss, %[1]sm or %[1]sh", number)
		if invalid.GetFlag().Name == "ttl" { // zkCli counts milliseconds
			what = fmt.Sprintf("not a duration: a duration has a unit: %[1]sms, %[1]ss or %[1]sm", number)
		}
	case "int", "int32", "int64", "uint", "uint32", "uint64":
		what = "not a whole number, or too large"
	default:
		return ""
	}
	return fmt.Sprintf("--%s %s: %s", invalid.GetFlag().Name, invalid.GetValue(), what)
}
