package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

func newSlots() *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:   "slots LOCK [N]",
		Short: "Show or change how many hold a lock with slots at once",
		Long: `Print how many may hold a lock with slots at once, or change it to N. Runs that wait go
by the new number at once. If it is smaller, no run loses its slot: the next run gets in
when fewer than the new number hold the lock. From then on lockkeeper run has to ask for
that number. A lock gets its slots from the first lockkeeper run --slots.

Exit status: 0, 64 wrong usage, or the lock is in use without slots, 66 there is no such
lock with slots, 69 no server could be reached, 77 the servers refuse access, 130
interrupted.`,
		Args: wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := lockPath(args[0])
			if err != nil {
				return err
			}
			n := 0
			if len(args) == 2 {
				if n, err = strconv.Atoi(args[1]); err != nil || n < 1 || n > lock.PermitsMax {
					return exit.Errorf(exit.Usage, "slots %s %s: want a number of slots, 1 to %d", args[0], args[1], lock.PermitsMax)
				}
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withSession(ctx, func(ctx context.Context, s *client.Session) error {
				had, err := slotsOf(ctx, s, path)
				switch {
				case err != nil:
					return err
				case n == 0:
					_, err = fmt.Fprintln(cmd.OutOrStdout(), had)
					return err
				}
				m, err := lock.NewSemaphore(s, path, 0, lock.Options{})
				if err != nil {
					return err
				}
				if err := m.SetPermits(ctx, n); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.ErrOrStderr(), "lockkeeper: %s has %s, it had %d\n", lockName(path), counted(n, "slot"), had)
				return err
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, locksPath, 1)
	return cmd
}

// slotsOf returns how many slots are stored with a lock. Of a semaphore that only Curator uses, none are.
func slotsOf(ctx context.Context, s *client.Session, path string) (int, error) {
	if err := wantLock(ctx, s, path); err != nil {
		return 0, err
	}
	snap, err := inspect.Look(ctx, s, path)
	if err != nil {
		return 0, err
	}
	name := lockName(path)
	switch {
	case snap.Kind == inspect.KindNone:
		return 0, exit.Errorf(exit.NoSuchLock, "slots %s: it has no slots%s (lockkeeper run --slots N gives it some)", name, asked(s))
	case snap.Kind != inspect.KindSemaphore:
		return 0, exit.Errorf(exit.Usage, "slots %s: it is in use without slots, as a lock of the kind %s", name, snap.Kind)
	}
	return snap.Permits, nil
}
