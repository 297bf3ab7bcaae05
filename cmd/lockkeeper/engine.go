package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/engine"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// newEngine makes the command that run starts for itself. Its argument is only for users that look at
// the list of processes.
func newEngine() *cobra.Command {
	return &cobra.Command{
		Use:    "engine LOCK",
		Short:  "The process behind run that keeps the session",
		Hidden: true,
		Args:   wantArgs(1, 1),
		RunE: func(*cobra.Command, []string) error {
			if err := proc.CloseInherited(link.FDOrders, link.FDNotes, link.FDCell, link.FDSwept, link.FDCondemn); err != nil {
				return exit.Errorf(exit.OS, "engine: %w", err)
			}
			// A signal to all of a service's processes is meant for the front, which decides
			// what becomes of the child and then of us. They are caught and not ignored, because what
			// is ignored is inherited, and the keeper may be our child.
			drop := make(chan os.Signal, 1)
			signal.Notify(drop, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
			cell, err := link.OpenCell(os.NewFile(link.FDCell, "deadline"))
			if err != nil {
				return exit.Errorf(exit.OS, "engine: %w (this command is started by lockkeeper run)", err)
			}
			guard := engine.Guard{Swept: os.NewFile(link.FDSwept, "swept"), Condemn: os.NewFile(link.FDCondemn, "condemn")}
			engine.Run(os.NewFile(link.FDOrders, "orders"), os.NewFile(link.FDNotes, "notes"), cell, guard, connectEngine, ownProcess)
			return nil
		},
	}
}

func connectEngine(ctx context.Context, o link.Open, notice func(string)) (*client.Session, string, error) {
	return openSession(ctx, o.Access, client.Options{SessionTimeout: o.SessionTimeout}, o.ConnectTimeout, notice)
}
