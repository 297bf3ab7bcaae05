package main

import (
	"context"
	"fmt"
	"io"
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
		Use:   "slots LOCK N",
		Short: "Change how many hold a lock with slots at once",
		Long: `Change how many may hold a lock with slots at once. Runs that wait go by the new number
at once. If it is smaller, no run loses its slot: the next run gets in when fewer than
the new number hold the lock. From then on lockkeeper run has to ask for that number.
A lock gets its slots from the first lockkeeper run --slots.

Exit status: 0, 64 wrong usage, or no lock with slots, 69 no server could be
reached, 77 the servers refuse access, 130 interrupted.`,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := lockPath(args[0])
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(args[1])
			if err != nil || n < 1 || n > lock.PermitsMax {
				return exit.Errorf(exit.Usage, "slots %s %s: want a number of slots, 1 to %d", args[0], args[1], lock.PermitsMax)
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withSession(ctx, func(ctx context.Context, s *client.Session) error {
				return setSlots(ctx, s, path, n, cmd.ErrOrStderr())
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, locksPath, 1)
	return cmd
}

// setSlots stores another number of slots with a lock that has some.
func setSlots(ctx context.Context, s *client.Session, path string, n int, out io.Writer) error {
	snap, err := inspect.Look(ctx, s, path)
	if err != nil {
		return err
	}
	name := lockName(path)
	switch {
	case snap.Kind == inspect.KindNone:
		return exit.Errorf(exit.Usage, "slots %s: there is no lock with slots%s (lockkeeper run --slots N makes one)", name, asked(s))
	case snap.Kind != inspect.KindSemaphore:
		return exit.Errorf(exit.Usage, "slots %s: it is in use without slots, as a lock of the kind %s", name, snap.Kind)
	}
	if err := lock.SetPermits(ctx, s, path, n); err != nil {
		return err
	}
	was := ""
	if snap.Permits > 0 {
		was = fmt.Sprintf(", it had %d", snap.Permits)
	}
	fmt.Fprintf(out, "lockkeeper: %s has %s%s\n", name, counted(n, "slot"), was)
	return nil
}
