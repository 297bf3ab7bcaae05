package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock"
)

// redrawInterval is how often --watch draws a terminal anew, because it shows ages.
const redrawInterval = time.Second

func newLocks() *cobra.Command {
	var servers string
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "locks [LOCK|PATH]",
		Short: "Show who holds a lock and who waits for it",
		Long: `Show who holds a lock and who waits for it, in the order in which they will get
it. Without an argument, all locks and elections that have a name and are in use.

Locks of all kinds are shown, also those that other programs have made with Curator,
kazoo or go-zookeeper: mutexes, read/write locks, semaphores, elections, and locks
without a line, of which only the holder is known. "revoked" is who has been asked
to give up (lockkeeper revoke). A process number is "gone" if it was of this machine
and there is no such process any more: its lock is free when its session expires.
Contenders that wait for each other in a circle are told below the list, as far as
they say what they hold while they wait.

IN LINE is the time since a contender came, by the servers' clock. Nothing tells when
it got the lock.

With --watch the list is shown again whenever it changes (--json: one document
for each change), until it is interrupted.`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			v := view{out: cmd.OutOrStdout(), asJSON: asJSON}
			if len(args) == 1 {
				path, err := lockPath(args[0])
				if err != nil {
					return err
				}
				v.path = path
			}
			ctx, stop := interruptible()
			defer stop()
			err := withSession(ctx, servers, func(ctx context.Context, s *client.Session) error {
				if watch {
					return v.watch(ctx, s)
				}
				return v.show(ctx, s)
			})
			return orInterrupted(ctx, err)
		},
	}
	addServersFlag(cmd, &servers)
	addJSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "go on and show changes")
	return cmd
}

// An interrupt is the cause of a context that a signal has ended.
type interrupt struct{ sig syscall.Signal }

func (i interrupt) Error() string { return i.sig.String() }

// interruptible returns a context that ends with INT or TERM.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM)
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

// orInterrupted returns err, or if a signal has ended ctx, the exit status that shells give to that. Who
// has pressed ^C need not be told so.
func orInterrupted(ctx context.Context, err error) error {
	var i interrupt
	if errors.As(context.Cause(ctx), &i) {
		return exit.Errorf(exit.SignalBase+int(i.sig), "%w", i)
	}
	return err
}

// A lockLine is a lock with those who hold it and wait for it.
type lockLine struct {
	Lock       string      `json:"lock"`
	Path       string      `json:"path"`
	Kind       string      `json:"kind,omitempty"`      // as lock.Kind has it
	Permits    int         `json:"permits,omitempty"`   // of a semaphore, if its znodes say
	Contenders []contender `json:"contenders"`          // in order, holders first
	Deadlocks  [][]wait    `json:"deadlocks,omitempty"` // circles of waits that go through the lock
}

// A contender is somebody in line, as JSON shows it.
type contender struct {
	State   string    `json:"state"`             // held or waiting
	Shared  bool      `json:"shared,omitempty"`  // with others who share the lock; else alone
	Revoked bool      `json:"revoked,omitempty"` // asked to give up
	Place   int       `json:"place"`             // how many are ahead; a holder that shares the lock may have some, too
	Since   time.Time `json:"since"`             // in line, by the server's clock
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Gone    bool      `json:"gone,omitempty"` // the process was of this machine, and is no more
	Program string    `json:"program,omitempty"`
	Label   string    `json:"label,omitempty"`
	Data    string    `json:"data,omitempty"` // what another client has written into its node
	Token   int64     `json:"token"`
	Session string    `json:"session"`
	Node    string    `json:"node"`
}

// lineOf makes of a snapshot what is shown of it.
func lineOf(snap lock.Snapshot) lockLine {
	l := lockLine{Lock: lockName(snap.Path), Path: snap.Path, Kind: string(snap.Kind), Permits: snap.Permits, Contenders: []contender{}}
	for _, c := range snap.Contenders {
		shown := contender{
			State: "waiting", Shared: c.Shared, Revoked: c.Revoked, Place: c.Place, Since: c.Since,
			Host: c.Owner.Host, PID: c.Owner.PID, Gone: gone(c.Owner), Program: c.Owner.Program, Label: c.Owner.Label,
			Token: c.Token, Session: fmt.Sprintf("0x%x", c.Session), Node: c.Node,
		}
		if c.Held {
			shown.State = "held"
		}
		if c.Owner == (lock.Owner{}) {
			shown.Data = readable(c.Data)
		}
		l.Contenders = append(l.Contenders, shown)
	}
	return l
}

// gone reports whether a contender's process was one of this machine and has ended.
func gone(o lock.Owner) bool {
	host, err := os.Hostname()
	return err == nil && o.Host == host && o.PID > 0 && errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH)
}

// dataShownMax is how much of foreign data is shown.
const dataShownMax = 60

// readable shows the data of a node that another client has made: as text if it is text, as it is with
// Curator, which writes an address.
func readable(data []byte) string {
	if !utf8.Valid(data) {
		return fmt.Sprintf("%d bytes", len(data))
	}
	if runes := []rune(string(data)); len(runes) > dataShownMax {
		return string(runes[:dataShownMax-1]) + "…"
	}
	return string(data)
}

func printLocks(w io.Writer, lines []lockLine, asJSON bool) error {
	if asJSON {
		return printJSON(w, lines)
	}
	rows := [][]string{{"LOCK", "KIND", "STATE", "IN LINE", "HOST", "PID", "PROGRAM", "LABEL"}}
	for _, l := range lines {
		kind := l.Kind
		if l.Permits > 0 {
			kind += " of " + strconv.Itoa(l.Permits)
		}
		if len(l.Contenders) == 0 {
			rows = append(rows, []string{l.Lock, kind, "free"})
		}
		for _, c := range l.Contenders {
			rows = append(rows, append([]string{l.Lock, kind}, c.row()...))
		}
	}
	return printTable(w, rows)
}

// row returns the columns about a contender.
func (c contender) row() []string {
	state, program, pid := c.State, c.Program, ""
	if c.State == "waiting" {
		state += " " + strconv.Itoa(c.Place)
	}
	if c.Shared {
		state += ", shared"
	}
	if c.Revoked {
		state += ", revoked"
	}
	if c.PID != 0 {
		pid = strconv.Itoa(c.PID)
	}
	if c.Gone {
		pid += " (gone)"
	}
	if program == "" {
		program = c.Data
	}
	return []string{state, age(c.Since), c.Host, pid, program, c.Label}
}

// age says how long ago t was. Clocks may differ, so it is never negative.
func age(t time.Time) string { return max(time.Since(t), 0).Truncate(time.Second).String() }

// A view is how the locks are to be shown.
type view struct {
	path   string // of the one lock, empty for all that have a name
	out    io.Writer
	asJSON bool
}

// homes are where the locks are that have a name.
var homes = []string{locksPath, electionsPath}

// show shows them as they are.
func (v view) show(ctx context.Context, s *client.Session) error {
	var all []lock.Snapshot
	if v.path != "" {
		snap, err := lock.Look(ctx, s, v.path)
		if err != nil {
			return err
		}
		return v.print(ctx, s, append(all, snap))
	}
	for _, home := range homes {
		some, err := lock.LookAll(ctx, s, home)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	return v.print(ctx, s, all)
}

func (v view) print(ctx context.Context, s *client.Session, all []lock.Snapshot) error {
	circles, err := circlesThrough(ctx, s, all)
	if err != nil {
		return err
	}
	lines := make([]lockLine, len(all))
	for i, snap := range all {
		lines[i] = lineOf(snap)
		lines[i].Deadlocks = waitsThrough(snap.Path, circles)
	}
	if err := printLocks(v.out, lines, v.asJSON); err != nil || v.asJSON {
		return err
	}
	return printCircles(v.out, circles)
}

// streams yield the locks whenever they have changed, each its own part of them.
func (v view) streams(ctx context.Context, s *client.Session) (parts []iter.Seq2[[]lock.Snapshot, error]) {
	if v.path != "" {
		return append(parts, func(yield func([]lock.Snapshot, error) bool) {
			for snap, err := range lock.Watch(ctx, s, v.path) {
				if !yield([]lock.Snapshot{snap}, err) {
					return
				}
			}
		})
	}
	for _, home := range homes {
		parts = append(parts, lock.WatchAll(ctx, s, home))
	}
	return parts
}

// A change is what one of the streams has yielded.
type change struct {
	part int
	now  []lock.Snapshot
}

// watch shows them whenever they change, and on a terminal every second.
func (v view) watch(ctx context.Context, s *client.Session) error {
	f, ok := v.out.(*os.File)
	screen := ok && !v.asJSON && term.IsTerminal(int(f.Fd()))
	ctx, cancel := context.WithCancelCause(ctx)
	changes := make(chan change)
	var wg sync.WaitGroup
	parts := v.streams(ctx, s)
	for i, stream := range parts {
		wg.Go(func() {
			for now, err := range stream {
				if err != nil {
					cancel(err)
					return
				}
				select {
				case changes <- change{i, now}:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	defer wg.Wait()
	defer cancel(nil)
	var redraw <-chan time.Time
	if screen {
		tick := time.NewTicker(redrawInterval)
		defer tick.Stop()
		redraw = tick.C
	}
	shown := map[int][]lock.Snapshot{}
	for {
		select {
		case c := <-changes:
			shown[c.part] = c.now
		case <-redraw:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if len(shown) < len(parts) {
			continue
		}
		if screen {
			fmt.Fprint(v.out, "\x1b[H\x1b[2J") // home, clear
		}
		var all []lock.Snapshot
		for i := range parts {
			all = append(all, shown[i]...)
		}
		if err := v.print(ctx, s, all); err != nil {
			return err
		}
	}
}
