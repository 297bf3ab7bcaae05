package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// redrawInterval is how often --watch draws a terminal anew, because it shows ages.
	redrawInterval = time.Second
	// watchPatience is how long there may be no server before --watch says so.
	watchPatience = time.Second
)

func newLocks() *cobra.Command {
	var flags accessFlags
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "locks [LOCK|PATH]",
		Short: "Show which process holds a lock and which ones wait for it",
		Long: `Show which process holds a lock and which ones wait for it, in the order in which
they will get it. Without an argument, all locks and elections that have a name and are in use. With
a path, also all locks below it that are in use; / has them all. An election is asked for by its path,
/lockkeeper/elections/NAME.

Locks of all kinds are shown, also those that other programs have made with Curator,
kazoo or go-zookeeper: mutexes, read/write locks, semaphores, elections, and unfair
locks, where only the holder is known. "revoked" means that the contender has been
asked to give the lock up (lockkeeper revoke). "gone" means that the process was one of
this machine and has ended: its lock is free when its session has expired. Below the
list are cycles of contenders that wait for each other, if there are any and they say
what they hold while they wait.

IN QUEUE is the time since a contender joined the queue, by the servers' clock. When it
got the lock is not recorded.

With --watch the list is shown again whenever it changes (--json: one line with an
object for each change), until it is interrupted or, on Linux, the reader of a pipe has
ended; with a path it has that lock alone. On a terminal, arrows, PgUp and PgDn move
through a long list, and q ends it. It goes on while no server is there, and says so on
standard error. Locks that may not be read are named there, too, and the others are shown.

Exit status: 0, 64 wrong usage, 66 there is no such lock, 69 no server could be reached,
77 the servers refuse access, also to a part of the list, 130 interrupted.`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := view{out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr(), asJSON: asJSON, stream: asJSON && watch}
			if len(args) == 1 {
				path, err := locksPathOf(args[0], watch)
				if err != nil {
					return err
				}
				v.path = path
			}
			ctx, stop := interruptible()
			defer stop()
			if watch {
				endWithReader(v.out)
			}
			for {
				err := flags.withSession(ctx, func(served context.Context, s *client.Session) error {
					if watch {
						if err := v.noteMissing(served, s); err != nil {
							return err
						}
						return v.watch(ctx, s) // also without a server, until there is one again
					}
					return v.show(served, s)
				})
				if watch && errors.Is(err, zk.ErrSessionExpired) {
					continue // there has been no server for long, and now there is
				}
				return orInterrupted(ctx, err)
			}
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, locksPath, 1)
	addJSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "show the list again whenever it changes")
	return cmd
}

// An interrupt is the cause of a context that a signal has ended.
type interrupt struct{ sig syscall.Signal }

func (i interrupt) Error() string { return i.sig.String() }

// interruptible returns a context that ends with INT, TERM or, unless they are ignored, as under nohup, HUP and QUIT.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-c:
			cancel(interrupt{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(c)
		cancel(nil)
		<-done
	}
}

// orInterrupted returns err, or if a signal has ended ctx, the exit status that shells give to that; with INT the process dies
// by the signal in the end (execute). A user that has pressed ^C need not be told so.
func orInterrupted(ctx context.Context, err error) error {
	var i interrupt
	if errors.As(context.Cause(ctx), &i) {
		return exit.Errorf(exit.SignalBase+int(i.sig), "%w", i)
	}
	return err
}

// A view is how the locks are to be shown.
type view struct {
	path   string // of the one lock, empty for all that have a name
	out    io.Writer
	notes  io.Writer // what is not part of it
	asJSON bool
	stream bool      // one JSON object for each change, on a line of its own
	screen *scroller // shows them again and again, if out is a terminal; otherwise nil
}

// homes are where the locks are that have a name.
var homes = []string{locksPath, electionsPath}

// locksPathOf is lockPath, and takes a path that is no lock for all locks below it. A watch is of a lock.
func locksPathOf(name string, watch bool) (string, error) {
	if path := "/" + strings.Trim(name, "/"); strings.HasPrefix(name, "/") {
		name = path
	}
	switch {
	case name != "/" && name != zk.Parent(locksPath) && !slices.Contains(homes, name):
		return lockPath(name)
	case watch:
		return "", exit.Errorf(exit.Usage, "locks --watch %s: it is no lock (name one, or leave the path out for all that have a name)", name)
	}
	return name, nil
}

// show shows them as they are.
func (v view) show(ctx context.Context, s *client.Session) error {
	var all []inspect.Snapshot
	if v.path != "" {
		return v.showOne(ctx, s)
	}
	var hidden error
	for _, home := range homes {
		some, err := inspect.LookAll(ctx, s, home)
		if err != nil && !errors.Is(err, zk.ErrNoAuth) {
			return err
		}
		all, hidden = append(all, some...), ending.Join(hidden, err)
	}
	if err := v.print(ctx, s, all); err != nil {
		return err
	}
	v.noteNone(s, len(all) == 0 && hidden == nil && !v.asJSON)
	return notShown(hidden)
}

// showOne shows the lock at a path, and all locks below it that are in use.
func (v view) showOne(ctx context.Context, s *client.Session) error {
	snap, err := inspect.Look(ctx, s, v.path)
	if err != nil {
		return err
	}
	var below []inspect.Snapshot
	var hidden error
	if len(snap.Contenders) == 0 {
		if err := wantLock(ctx, s, v.path); err != nil {
			if v.asJSON {
				return errors.Join(printJSON(v.out, []lockLine{}), err)
			}
			return err
		}
	}
	if below, err = locksBelow(ctx, s, v.path); errors.Is(err, zk.ErrNoAuth) {
		hidden, err = err, nil
	}
	if err != nil {
		return err
	}
	if len(snap.Contenders) > 0 || len(below) == 0 && !slices.Contains(homes, v.path) && v.path != "/" { // a home is no lock
		below = append([]inspect.Snapshot{snap}, below...)
	}
	below = withoutParts(below)
	if err := v.print(ctx, s, below); err != nil {
		return err
	}
	v.noteNone(s, len(below) == 0 && hidden == nil && !v.asJSON)
	return notShown(hidden)
}

// noteNone tells that there are no locks, if there are none.
func (v view) noteNone(s *client.Session, none bool) {
	if none {
		where := " (lockkeeper locks / shows those of other paths)"
		if v.path != "" {
			where = ""
		}
		fmt.Fprintf(v.notes, "lockkeeper: no lock is in use%s%s\n", asked(s), where)
	}
}

// noteMissing tells that there is no lock at the path that is going to be watched: the name may be wrong.
func (v view) noteMissing(ctx context.Context, s *client.Session) error {
	if v.path == "" {
		return nil
	}
	err := wantLock(ctx, s, v.path)
	if exit.StatusOf(err, 0) != exit.NoSuchLock {
		return err
	}
	fmt.Fprintf(v.notes, "lockkeeper: %v; it is shown as free until it is used\n", err)
	return nil
}

// notShown is the error of locks that may not be read, when the others have been shown.
func notShown(hidden error) error {
	if hidden == nil {
		return nil
	}
	return fmt.Errorf("not shown: %w", hidden)
}

func (v view) print(ctx context.Context, s *client.Session, all []inspect.Snapshot) error {
	cycles, err := cyclesThrough(ctx, s, all)
	if err != nil {
		return err
	}
	lines := make([]lockLine, len(all))
	for i, snap := range all {
		lines[i] = lineOf(snap)
		lines[i].Deadlocks = waitsThrough(snap.Path, cycles)
	}
	if v.stream {
		return json.NewEncoder(printable.JSON(v.out)).Encode(locksChange{Time: time.Now(), Locks: lines})
	}
	out := v.out
	var text strings.Builder
	if v.screen != nil {
		out = &text
	}
	if err := printLocks(out, lines, v.asJSON); err != nil || v.asJSON {
		return err
	}
	if err := printCycles(out, cycles); err != nil || v.screen == nil {
		return err
	}
	return v.screen.show(text.String())
}

// A locksChange is what --watch --json prints for each change.
type locksChange struct {
	Time  time.Time  `json:"time"`
	Locks []lockLine `json:"locks"`
}

// streams yield the locks whenever they have changed, each its own part of them.
func (v view) streams(ctx context.Context, s *client.Session) (parts []iter.Seq2[[]inspect.Snapshot, error]) {
	if v.path != "" {
		return append(parts, func(yield func([]inspect.Snapshot, error) bool) {
			for snap, err := range inspect.Watch(ctx, s, v.path) {
				if !yield([]inspect.Snapshot{snap}, err) {
					return
				}
			}
		})
	}
	for _, home := range homes {
		parts = append(parts, inspect.WatchAll(ctx, s, home))
	}
	return parts
}

// A change is what one of the streams has yielded.
type change struct {
	part   int
	now    []inspect.Snapshot
	hidden error // those that may not be read
}

// watch shows them whenever they change, and on a terminal every second. While there is no server, what it has shown
// stays as it is.
func (v view) watch(ctx context.Context, s *client.Session) error {
	ctx, cancel := context.WithCancelCause(ctx)
	changes := make(chan change)
	var wg sync.WaitGroup
	parts := v.streams(ctx, s)
	for i, stream := range parts {
		wg.Go(func() {
			for now, err := range stream {
				if err != nil && (v.path != "" || !errors.Is(err, zk.ErrNoAuth)) {
					cancel(err)
					return
				}
				select {
				case changes <- change{i, now, err}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel(nil)
	var redraw <-chan time.Time
	var keys <-chan string
	if out, ok := v.out.(*output); ok && !v.asJSON && term.IsTerminal(int(out.file.Fd())) {
		var done func()
		v.screen, done = newScroller(ctx, out.file)
		defer done()
		keys = v.screen.keys
		tick := time.NewTicker(redrawInterval)
		defer tick.Stop()
		redraw = tick.C
	}
	served, stop := whileServed(ctx, s, watchPatience)
	defer func() { stop() }()
	shown := map[int]change{}
	due := false // there is something to show
	told := ""
	for {
		select {
		case c := <-changes:
			shown[c.part], due = c, true
		case <-redraw:
			due = true
		case key := <-keys:
			end, err := v.screen.press(key)
			if end || err != nil {
				return err
			}
			continue
		case <-served.Done():
			if err := v.awaitServer(ctx, s); err != nil {
				return err
			}
			stop()
			served, stop = whileServed(ctx, s, watchPatience)
		}
		if !due || len(shown) < len(parts) {
			continue
		}
		var all []inspect.Snapshot
		var hidden error
		for i := range parts {
			all, hidden = append(all, shown[i].now...), errors.Join(hidden, shown[i].hidden)
		}
		if err := v.print(served, s, all); err != nil {
			if served.Err() != nil {
				continue
			}
			return err
		}
		due = false
		v.noteNone(s, v.screen != nil && len(all) == 0 && hidden == nil)
		if hidden != nil && (v.screen != nil || hidden.Error() != told) {
			told = hidden.Error()
			fmt.Fprintf(v.notes, "lockkeeper: %s\n", escaped(told))
		}
	}
}

// awaitServer says that there is no server, and waits until there is one again, or the session is over. The error is the
// cause of the end of ctx.
func (v view) awaitServer(ctx context.Context, s *client.Session) error {
	told := false
	for {
		st, changed := s.State()
		switch {
		case st.Phase == client.Connected || st.Phase.Final():
			if told && v.screen == nil {
				fmt.Fprintln(v.notes, "lockkeeper: "+serverAgain)
			}
			return context.Cause(ctx)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case st.Phase == client.Disconnected && !told:
			told = true
			fmt.Fprintln(v.notes, "lockkeeper: "+noServer(st))
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
