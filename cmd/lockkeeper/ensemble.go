package main

import "github.com/spf13/cobra"

func newEnsemble() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ensemble",
		Short: "Set up and care for an ensemble of Apache ZooKeeper servers",
		Long: `Set up and care for an ensemble of Apache ZooKeeper servers. The ensemble has more than
one server, so that clients are served while one of them is down.`,
		Example:                    `  lockkeeper ensemble init zk1 zk2 zk3`,
		Args:                       wantCommand,
		SuggestionsMinimumDistance: suggestionsMax,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEnsembleInit(), newEnsembleGrow(), newEnsembleRoll())
	return cmd
}
