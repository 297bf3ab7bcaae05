package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/engine"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

func newRevoke() *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:   "revoke LOCK",
		Short: "Ask the holder of a lock to give it up",
		Long: `Ask the holder of a lock to give it up; of a lock that several hold, all of them. It
is a request and no more: the lock is held until its holder gives it back. A
lockkeeper run with --revocable SIGNAL sends its command that signal, and one without
does nothing. Programs that use the library hear of it if they listen, and so do
Curator's locks that were made revocable.

To put the holder out, there is lockkeeper break.

Exit status: 0 if all holders have been asked, or there was none, 1 if one is kazoo's,
which cannot be asked, 64 wrong usage, 66 there is no such lock, 69 no server could be
reached, 77 the servers refuse access, 130 interrupted.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := lockPath(args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withSession(ctx, func(ctx context.Context, s *client.Session) error {
				return revokeLock(ctx, s, path, cmd.ErrOrStderr())
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, locksPath, 1)
	return cmd
}

// revokeLock asks all holders of the lock.
func revokeLock(ctx context.Context, s *client.Session, path string, out io.Writer) error {
	snap, err := lookForHolders(ctx, s, path, out)
	if err != nil {
		return err
	}
	name := lockName(path)
	var deaf error
	for _, c := range snap.Holders() {
		who := engine.Describe(c)
		there, err := inspect.Revoke(ctx, s, c)
		switch {
		case errors.Is(err, inspect.ErrCannotHear):
			deaf = exit.Errorf(exit.Failure, "revoke %s: held by %s: %w", name, who, inspect.ErrCannotHear)
		case err != nil:
			return err
		case !there:
			fmt.Fprintf(out, "lockkeeper: %s had left %s by itself\n", who, name)
		default:
			fmt.Fprintf(out, "lockkeeper: asked %s to give %s up\n", who, name)
		}
	}
	return deaf
}
