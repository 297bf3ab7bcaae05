package main

import (
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/guard"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// newGuard makes the command that run starts for itself, to stand between it and its child.
func newGuard() *cobra.Command {
	return &cobra.Command{
		Use:    link.GuardCommand + " FDS",
		Short:  "The process behind run that is the command's parent",
		Hidden: true,
		Args:   wantArgs(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			fds, err := link.ParseGuardFDs(args[0])
			if err != nil {
				return exit.Errorf(exit.Usage, "guard: %w (this command is started by lockkeeper run)", err)
			}
			for _, fd := range fds.All() {
				syscall.CloseOnExec(fd)
			}
			proc.Rename(link.GuardName)
			cell, err := link.OpenCell(os.NewFile(uintptr(fds.Cell), "deadline"))
			if err != nil {
				return exit.Errorf(exit.OS, "guard: %w", err)
			}
			// The descriptor for Swept just stays open.
			err = guard.Run(guard.Pipes{
				Task: os.NewFile(uintptr(fds.Task), "task"), Events: os.NewFile(uintptr(fds.Events), "events"),
				Condemn: os.NewFile(uintptr(fds.Condemn), "condemn"),
			}, cell, ownProcess)
			if err != nil {
				return exit.Errorf(exit.OS, "guard: %w", err)
			}
			return nil
		},
	}
}
