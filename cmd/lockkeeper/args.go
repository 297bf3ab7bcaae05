package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
		return exit.Errorf(exit.Usage, "%s: %s; it is %s", commandName(cmd), wrong, cmd.UseLine())
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
	if similar := parent.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	words := strings.TrimSpace(strings.TrimPrefix(parent.CommandPath(), parent.Root().Name()) + " " + args[0])
	return exit.Errorf(exit.Usage, "there is no command %q (%s)", words, hint)
}

// withUnits shows how the number of a duration that lacks its unit is written.
func withUnits(err error) string {
	number := "10"
	if _, after, ok := strings.Cut(err.Error(), `missing unit in duration "`); ok {
		number, _, _ = strings.Cut(after, `"`)
	}
	return fmt.Sprintf("%[1]ss, %[1]sm or %[1]sh", number)
}
