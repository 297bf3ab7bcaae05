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

// wantCommand says that there is no such command, and which one may have been meant.
func wantCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see lockkeeper --help"
	if similar := root.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "did you mean " + strings.Join(similar, " or ") + "?"
	}
	return exit.Errorf(exit.Usage, "there is no command %q (%s)", args[0], hint)
}
