package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/engine"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

// What rm names at most before it asks.
const (
	ephemeralsShownMax = 10
	locksLookedAtMax   = 100
)

// A removal is what rm is to do.
type removal struct {
	recursive, force, dryRun bool
	version                  int32
}

func (e *zEnv) newRm() *cobra.Command {
	r := removal{version: zk.AnyVersion}
	cmd := &cobra.Command{
		Use: "rm PATH…",
		Example: `  lockkeeper z rm /app/config
  lockkeeper z rm -r -n /app   # only say what would go
  lockkeeper z rm -r --force /app`,
		Short: "Delete znodes",
		Long: `Delete znodes. A tree (-r), and an ephemeral znode, is deleted only after a look at it:
rm says how many znodes go, which live sessions lose ephemerals and which locks lose their
holders, and asks at a terminal. Elsewhere it wants --force. The path - is a list of paths
on standard input, one a line, as find writes them; children go before their parents.
What cannot be deleted ends rm, which says how many of several paths remain.`,
		Args: wantArgs(1, pathsMax),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.removals(args)
			if err != nil {
				return err
			}
			if err := wantVersion("rm", r.version); err != nil {
				return err
			}
			if r.recursive && r.version != zk.AnyVersion {
				return exit.Errorf(exit.Usage, "rm: --version is for one znode, not for a tree")
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				for i, p := range paths {
					err := e.remove(ctx, s, p, r)
					if err != nil && len(paths) > 1 && !r.dryRun {
						e.notef("%d of %d paths are deleted, %d remain", i, len(paths), len(paths)-i)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&r.recursive, "recursive", "r", false, "with all below; of / what is below, but not /zookeeper")
	cmd.Flags().BoolVarP(&r.force, "force", "f", false, "do not ask, and take a znode that is missing for deleted")
	cmd.Flags().BoolVarP(&r.dryRun, "dry-run", "n", false, "only say what would go")
	cmd.Flags().Int32VarP(&r.version, "version", "v", zk.AnyVersion, "only if the data has this version")
	return cmd
}

// removals resolves the arguments of rm.
func (e *zEnv) removals(args []string) ([]string, error) {
	if len(args) != 1 || args[0] != "-" {
		return e.paths(args)
	}
	if e.lasting {
		return nil, exit.Errorf(exit.Usage, "rm -: in the shell the paths are arguments: standard input has the lines that follow")
	}
	var names []string
	lines := bufio.NewScanner(e.in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() != "" {
			names = append(names, lines.Text())
		}
	}
	if err := lines.Err(); err != nil {
		return nil, exit.Errorf(exit.OS, "standard input: %w", err)
	}
	if len(names) == 0 {
		return nil, nil
	}
	paths, err := e.paths(names)
	slices.SortStableFunc(paths, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") }) // children first
	return paths, err
}

func (e *zEnv) remove(ctx context.Context, s *client.Session, p string, r removal) error {
	shown := ztree.Escape(p)
	st, there, err := s.Exists(ctx, p)
	switch {
	case err != nil:
		return err
	case !there && r.force:
		return e.deleted(p, 0)
	case !there:
		return &client.OpError{Op: "delete", Path: p, Err: zk.ErrNoNode}
	case st.Czxid == 0 && p != "/": // no transaction has made it
		return exit.Errorf(exit.Usage, "rm %s: the znode is the servers' own and cannot be deleted", shown)
	case r.recursive: // after a look at it
	case st.NumChildren > 0:
		return exit.Errorf(exit.Failure, "delete %s: it has %d %s (rm -r deletes all below)", shown, st.NumChildren, plural(int(st.NumChildren), "child", "children"))
	case !ztree.Ephemeral(&st) && !r.dryRun:
		return e.deleteOne(ctx, s, p, r)
	}
	census, err := ztree.Count(ctx, s, p)
	if r.force && errors.Is(err, zk.ErrNoNode) {
		return e.deleted(p, 0)
	}
	if err != nil {
		return err
	}
	locks, err := locksOf(ctx, s, census)
	if err != nil {
		return err
	}
	if r.dryRun && e.asJSON {
		return e.line(lossJSON{p, census.Nodes, census.Bytes, census.Unreadable, append([]ztree.Owned{}, census.Ephemerals...), census.More, locks})
	}
	e.announce(p, census, locks)
	if r.dryRun {
		return nil
	}
	if !r.force && !e.keyboard {
		return exit.Errorf(exit.Usage, "rm %s: standard input is no terminal to ask at; use --force to do it without asking (nothing has been deleted)", shown)
	}
	if !r.force {
		fmt.Fprint(e.notes, "Delete? [y/N] ")
		asking := ctx
		if e.lasting { // the next line is read at the same terminal, unless a signal ends the shell
			var stop func()
			asking, stop = signal.NotifyContext(context.WithoutCancel(ctx), syscall.SIGTERM, syscall.SIGHUP)
			defer stop()
		}
		agreed := agrees(asking, e.in)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !agreed:
			return exit.Errorf(exit.Failure, "rm %s: not done", shown)
		}
	}
	if !r.recursive {
		return e.deleteOne(ctx, s, p, r)
	}
	done, err := ztree.Remove(ctx, s, p, e.progress("deleted", census.Nodes))
	switch {
	case r.force && errors.Is(err, zk.ErrNoNode):
		return e.deleted(p, 0)
	case err != nil:
		return err
	case e.asJSON:
		return e.deleted(p, done)
	}
	e.notef("%s deleted below and at %s", counted(done, "znode"), shown)
	return nil
}

// A deletedJSON is what rm has deleted, as --json shows it.
type deletedJSON struct {
	Path    string `json:"path"`
	Deleted int    `json:"deleted"` // znodes
}

func (e *zEnv) deleteOne(ctx context.Context, s *client.Session, p string, r removal) error {
	err := s.Delete(ctx, p, r.version)
	switch {
	case r.force && errors.Is(err, zk.ErrNoNode): // it has gone since it was looked at
		return e.deleted(p, 0)
	case err != nil:
		return err
	}
	return e.deleted(p, 1)
}

// deleted prints as JSON, if that is asked for, what was deleted.
func (e *zEnv) deleted(p string, znodes int) error {
	if !e.asJSON {
		return nil
	}
	return e.line(deletedJSON{p, znodes})
}

// A lossJSON is what would go with a tree, as rm --dry-run --json shows it.
type lossJSON struct {
	Path       string        `json:"path"`
	Znodes     int           `json:"znodes"`
	Bytes      int64         `json:"bytes"`
	Unreadable int           `json:"unreadable"`
	Ephemerals []ztree.Owned `json:"ephemerals"`
	More       int           `json:"more_ephemerals"` // that are not named
	Locks      []lockLoss    `json:"locks"`
}

// A lockLoss is a lock that would be taken from its holders.
type lockLoss struct {
	Path    string   `json:"path"`
	Holders []string `json:"holders"`
}

// announce says what goes with a tree.
func (e *zEnv) announce(p string, c ztree.Census, locks []lockLoss) {
	shown := ztree.Escape(p)
	e.notef("%s: %s, %s", shown, counted(c.Nodes, "znode"), counted(c.Bytes, "byte"))
	if c.Unreadable > 0 {
		e.notef("%s: %d of them, or what is below them, cannot be read", shown, c.Unreadable)
	}
	for _, o := range c.Ephemerals[:min(len(c.Ephemerals), ephemeralsShownMax)] {
		e.notef("%s: ephemeral %s of the live session %s would go", shown, ztree.Escape(o.Path), o.Session)
	}
	if more := len(c.Ephemerals) + c.More - ephemeralsShownMax; more > 0 {
		e.notef("%s: %d more ephemerals would go", shown, more)
	}
	for _, l := range locks {
		holders := make([]string, len(l.Holders))
		for i, h := range l.Holders {
			holders[i] = ztree.Escape(h)
		}
		e.notef("%s: the lock %s would be taken from its holder, %s", shown, ztree.Escape(l.Path), strings.Join(holders, ", "))
	}
}

// locksOf returns the locks that ephemerals of a tree hold, of the first locksLookedAtMax directories.
func locksOf(ctx context.Context, s *client.Session, c ztree.Census) ([]lockLoss, error) {
	losses, seen := []lockLoss{}, map[string]bool{}
	for _, o := range c.Ephemerals {
		dir := zk.Parent(o.Path)
		if seen[dir] || len(seen) == locksLookedAtMax {
			continue
		}
		seen[dir] = true
		snap, err := inspect.Look(ctx, s, dir)
		if errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) {
			continue
		}
		if err != nil {
			return nil, err
		}
		l := lockLoss{Path: dir}
		for _, h := range snap.Holders() {
			l.Holders = append(l.Holders, engine.Describe(h))
		}
		if len(l.Holders) > 0 {
			losses = append(losses, l)
		}
	}
	return losses, nil
}
