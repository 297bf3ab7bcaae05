package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

// watchInterval is how often --watch looks.
const watchInterval = time.Second

func newLocks() *cobra.Command {
	var servers string
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "locks [LOCK|PATH]",
		Short: "Show who holds a lock and who waits for it",
		Long: `Show who holds a lock and who waits for it, in the order in which they will get
it. Without an argument, all locks that have a name and are in use.

With --watch the list is shown again whenever it changes (--json: one document
for each change), until it is interrupted.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list := listAll
			if len(args) == 1 {
				path, err := lockPath(args[0])
				if err != nil {
					return err
				}
				list = func(ctx context.Context, s *client.Session) ([]lockLine, error) {
					line, err := listOne(ctx, s, path)
					return []lockLine{line}, err
				}
			}
			ctx, stop := interruptible()
			defer stop()
			err := withSession(ctx, servers, func(ctx context.Context, s *client.Session) error {
				if watch {
					return watchLocks(ctx, s, list, cmd.OutOrStdout(), asJSON)
				}
				lines, err := list(ctx, s)
				if err != nil {
					return err
				}
				return printLocks(cmd.OutOrStdout(), lines, asJSON)
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

// orInterrupted returns err, or if a signal has ended ctx, the exit status that shells give to that.
func orInterrupted(ctx context.Context, err error) error {
	var i interrupt
	if errors.As(context.Cause(ctx), &i) {
		return exit.Errorf(exit.SignalBase+int(i.sig), "%v", i)
	}
	return err
}

// A lockLine is a lock with those who hold it and wait for it.
type lockLine struct {
	Lock       string      `json:"lock"`
	Path       string      `json:"path"`
	Contenders []contender `json:"contenders"` // in order, holders first
}

// A contender is somebody in line, as JSON shows it.
type contender struct {
	State   string    `json:"state"`            // held or waiting
	Shared  bool      `json:"shared,omitempty"` // with others who share the lock; else alone
	Place   int       `json:"place"`            // how many are ahead; a holder that shares the lock may have some, too
	Since   time.Time `json:"since"`            // by the server's clock
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Program string    `json:"program,omitempty"`
	Label   string    `json:"label,omitempty"`
	Data    string    `json:"data,omitempty"` // what another client has written into its node
	Token   int64     `json:"token"`
	Session string    `json:"session"`
	Node    string    `json:"node"`
}

// listAll returns the locks with a name that are in use.
func listAll(ctx context.Context, s *client.Session) ([]lockLine, error) {
	names, _, err := s.Children(ctx, locksPath)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var lines []lockLine
	for _, name := range names {
		line, err := listOne(ctx, s, zk.Join(locksPath, name))
		if err != nil {
			return nil, err
		}
		if len(line.Contenders) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func listOne(ctx context.Context, s *client.Session, path string) (lockLine, error) {
	found, err := lock.Inspect(ctx, s, path)
	l := lockLine{Lock: lockName(path), Path: path, Contenders: []contender{}}
	for i, c := range found {
		state := "waiting"
		if i < holding(found) {
			state = "held"
		}
		shown := contender{
			State: state, Shared: c.Shared, Place: i, Since: c.Since, Host: c.Owner.Host, PID: c.Owner.PID, Program: c.Owner.Program,
			Label: c.Owner.Label, Token: c.Token, Session: fmt.Sprintf("0x%x", c.Session), Node: c.Node,
		}
		if c.Owner == (lock.Owner{}) {
			shown.Data = readable(c.Data)
		}
		l.Contenders = append(l.Contenders, shown)
	}
	return l, err
}

// holding returns how many of a line hold the lock: the first, or all who share it until the first who
// wants it alone.
func holding(line []lock.Contender) int {
	sharing := slices.IndexFunc(line, func(c lock.Contender) bool { return !c.Shared })
	if sharing < 0 {
		return len(line)
	}
	return min(max(sharing, 1), len(line))
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
		if lines == nil {
			lines = []lockLine{}
		}
		return printJSON(w, lines)
	}
	rows := [][]string{{"LOCK", "STATE", "FOR", "HOST", "PID", "PROGRAM", "LABEL"}}
	for _, l := range lines {
		if len(l.Contenders) == 0 {
			rows = append(rows, []string{l.Lock, "free"})
		}
		for _, c := range l.Contenders {
			state, program, pid := "held", c.Program, ""
			if c.State != state {
				state = "waiting " + strconv.Itoa(c.Place)
			}
			if c.Shared {
				state += ", shared"
			}
			if c.PID != 0 {
				pid = strconv.Itoa(c.PID)
			}
			if program == "" {
				program = c.Data
			}
			rows = append(rows, []string{l.Lock, state, age(c.Since), c.Host, pid, program, c.Label})
		}
	}
	return printTable(w, rows)
}

// age says how long ago t was. Clocks may differ, so it is never negative.
func age(t time.Time) string { return max(time.Since(t), 0).Truncate(time.Second).String() }

// watchLocks shows the list whenever it changes, and on a terminal every second, because it shows ages.
func watchLocks(ctx context.Context, s *client.Session, list func(context.Context, *client.Session) ([]lockLine, error), w io.Writer, asJSON bool) error {
	f, ok := w.(*os.File)
	screen := ok && !asJSON && term.IsTerminal(int(f.Fd()))
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	var last []lockLine
	for first := true; ; first = false {
		lines, err := list(ctx, s)
		if err != nil {
			return err
		}
		if screen {
			fmt.Fprint(w, "\x1b[H\x1b[2J") // home, clear
		}
		if screen || first || !reflect.DeepEqual(lines, last) {
			if err := printLocks(w, lines, asJSON); err != nil {
				return err
			}
		}
		last = lines
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
