package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/engine"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
)

func newBreak() *cobra.Command {
	var flags accessFlags
	var force bool
	cmd := &cobra.Command{
		Use:        "break LOCK",
		SuggestFor: []string{"kick", "steal"},
		Short:      "Put the holder of a lock out",
		Long: `Put the holder of a lock out by deleting its znode; of a lock that several
hold, all of them. The next in line gets the lock at once. A holder that is a
lockkeeper run kills its command as soon as it learns of it; a holder that does
not listen goes on, and only its fencing token gives it away. To ask the holder
first, there is lockkeeper revoke.

On a terminal it shows the holder and asks first.

Exit status: 0 if none of the holders shown holds the lock any more, 1 if the answer
was no, 64 wrong usage, or no terminal to ask at and no --force, 66 there is no such
lock, 69 no server could be reached, 77 the servers refuse access, 130 interrupted.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := lockPath(args[0])
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withSession(ctx, func(ctx context.Context, s *client.Session) error {
				return breakLock(ctx, s, path, cmd.InOrStdin(), cmd.ErrOrStderr(), force)
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, locksPath, 1)
	cmd.Flags().BoolVar(&force, "force", false, "do not ask")
	return cmd
}

// breakLock takes the lock from the holders that it has shown, and from no others.
func breakLock(ctx context.Context, s *client.Session, path string, in io.Reader, out io.Writer, force bool) error {
	snap, err := lookForHolders(ctx, s, path, out)
	if err != nil {
		return err
	}
	name, holders := lockName(path), snap.Holders()
	if len(holders) > 0 && !force {
		if f, ok := in.(*os.File); ok && !term.IsTerminal(int(f.Fd())) {
			return exit.Errorf(exit.Usage, "break %s: standard input is no terminal to ask at; use --force to do it without asking", name)
		}
		var who []string
		for _, c := range holders {
			who = append(who, engine.Describe(c)+" (in the queue for "+age(c.Since)+")")
		}
		fmt.Fprintf(out, "%s is held by %s; %s. Put %s out? [y/N] ",
			name, strings.Join(who, ", by "), waiters(len(snap.Waiters())), plural(len(holders), "the holder", "all holders"))
		if !agrees(ctx, in) {
			if ctx.Err() != nil {
				fmt.Fprintln(out) // the question has not been answered with one
				return context.Cause(ctx)
			}
			return exit.Errorf(exit.Failure, "break %s: not done", name)
		}
	}
	for _, c := range holders {
		who := engine.Describe(c)
		gone, err := inspect.Break(ctx, s, c)
		switch {
		case err != nil:
			return err
		case !gone:
			fmt.Fprintf(out, "lockkeeper: %s had left %s by itself\n", who, name)
		default:
			fmt.Fprintf(out, "lockkeeper: put %s out of %s\n", who, name)
		}
	}
	return nil
}

// lookForHolders looks at the lock at path, and says so if it is free. A lock that does not exist is an error.
func lookForHolders(ctx context.Context, s *client.Session, path string, out io.Writer) (inspect.Snapshot, error) {
	snap, err := inspect.Look(ctx, s, path)
	if err != nil || len(snap.Holders()) > 0 {
		return snap, err
	}
	if len(snap.Contenders) == 0 {
		if err := wantLock(ctx, s, path); err != nil {
			return snap, err
		}
	}
	fmt.Fprintf(out, "lockkeeper: %s is free%s\n", lockName(path), asked(s))
	return snap, nil
}

func waiters(n int) string {
	if n == 0 {
		return "none waits"
	}
	return fmt.Sprintf("%d %s", n, plural(n, "waits", "wait"))
}

// counted returns a number of things whose plural has an s: "1 znode", "2 znodes".
func counted[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// agrees reads an answer. The reader is left behind when ctx ends; so does the process.
func agrees(ctx context.Context, in io.Reader) bool {
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // the end of the input is no agreement
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case a := <-answer:
		return a == "y" || a == "yes"
	case <-ctx.Done():
		return false
	}
}
