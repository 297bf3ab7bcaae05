package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/zk"
)

// groupsPath is where groups are that have a name.
const groupsPath = "/lockkeeper/groups"

// A memberLine is a member of a group as JSON shows it.
type memberLine struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Path  string    `json:"path"`
	dataJSON
}

func newMembers() *cobra.Command {
	var flags accessFlags
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "members GROUP",
		Short: "Print the members of a group",
		Long: `Print the members of a group. GROUP is a name below ` + groupsPath + `, or the
absolute path of a znode. Members of Curator's GroupMember and of kazoo's Party are
shown, too. With --watch the members are printed again each time they change; with
--json as well, each list is one line.

Exit status: 64 wrong usage, 66 the group has no member, 69 no server could be reached,
77 the servers refuse.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := pathOf(args[0], "group", groupsPath)
			if err != nil {
				return err
			}
			ctx, stop := interruptible()
			defer stop()
			err = flags.withKeeper(ctx, func(ctx context.Context, k *client.Keeper) error {
				opening, cancel := flags.opening(ctx)
				defer cancel()
				g, err := group.Open(opening, k, path, group.Options{})
				if err != nil {
					return err
				}
				defer g.Close(context.WithoutCancel(ctx))
				show := func(w io.Writer) error { return printMembers(w, g.Members(), asJSON, watch) }
				if watch {
					endWithReader(cmd.OutOrStdout())
					return follow(ctx, cmd.OutOrStdout(), k, g, show)
				}
				if len(g.Members()) == 0 {
					if asJSON {
						err := show(cmd.OutOrStdout())
						if err != nil {
							return err
						}
					}
					return exit.Errorf(exit.NoSuchLock, "members %s: the group has no member", path)
				}
				return show(cmd.OutOrStdout())
			})
			return orInterrupted(ctx, err)
		},
	}
	flags.addTo(cmd, sessionFlags)
	flags.completeNames(cmd, groupsPath, 1)
	addJSONFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the members again each time they change")
	return cmd
}

// follow writes what show shows, now and whenever that has changed, until ctx ends. It says when there is no server.
func follow(ctx context.Context, w io.Writer, k *client.Keeper, watched interface {
	Changed() <-chan struct{}
	Done() <-chan struct{}
	Err() error
}, show func(io.Writer) error) error {
	defer tellOutages(ctx, k, notice)()
	var shown []byte
	for first := true; ; first = false {
		changed := watched.Changed()
		var now bytes.Buffer
		err := show(&now)
		if err == nil && (first || !bytes.Equal(now.Bytes(), shown)) {
			shown = now.Bytes()
			_, err = w.Write(shown)
		}
		if err != nil {
			return err
		}
		select {
		case <-changed:
		case <-watched.Done():
			return watched.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func printMembers(w io.Writer, members []group.Info, asJSON, line bool) error {
	lines := make([]memberLine, len(members))
	rows := [][]string{{"MEMBER", "SINCE", "DATA"}}
	for i, m := range members {
		since := time.UnixMilli(m.Stat.Ctime)
		lines[i] = memberLine{ID: m.ID, Since: since, Path: m.Path}
		lines[i].setData(m.Data)
		rows = append(rows, []string{m.ID, since.Format(time.DateTime), string(m.Data)})
	}
	return printRole(w, lines, rows, asJSON, line)
}

// printRole prints a list as JSON, on one line if line is true, or as a table.
func printRole(w io.Writer, lines any, rows [][]string, asJSON, line bool) error {
	switch {
	case asJSON && line:
		return json.NewEncoder(printable.JSON(w)).Encode(lines)
	case asJSON:
		return printJSON(w, lines)
	}
	return printTable(w, rows)
}

func newJoin() *cobra.Command {
	var flags accessFlags
	var id, data string
	cmd := &cobra.Command{
		Use:   "join [flags] GROUP -- COMMAND [ARG…]",
		Short: "Be a member of a group while a command runs",
		Long: `Run COMMAND as a member of a group. GROUP is a name below ` + groupsPath + `, or the
absolute path of a znode. The member is an ephemeral znode, as Curator's GroupMember
makes it. It is made before COMMAND starts, comes back after an expired session, and is
deleted when COMMAND has ended. COMMAND goes on while no server can be reached.

INT, TERM, HUP, QUIT, USR1 and USR2 are passed on to COMMAND; INT and QUIT are not in
the foreground of a terminal, whose keys signal COMMAND, too. If lockkeeper is killed,
COMMAND goes on, and the member is gone when the session has expired.

Exit status: COMMAND's own, 128+n if signal n ended it, and
   64  wrong usage
   69  no server could be reached
   71  the operating system refused something
   77  the servers refuse
  126  COMMAND cannot be executed, 127 it cannot be found`,
		Args: jobArgs("group", 1),
		RunE: func(_ *cobra.Command, args []string) error {
			path, err := pathOf(args[0], "group", groupsPath)
			if err != nil {
				return err
			}
			if id == "" {
				host, err := os.Hostname()
				if err != nil {
					return fmt.Errorf("join: the machine has no name (give --id): %w", err)
				}
				id = fmt.Sprintf("%s-%d", host, os.Getpid())
			}
			err = checkID("join", path, id)
			if err != nil {
				return err
			}
			return flags.withRoleChild("group", args[1:], func(child *roleChild, k *client.Keeper, to access.Settings) error {
				return join(flags, path, id, data, child, k, to)
			})
		},
	}
	flags.addTo(cmd, makingFlags)
	flags.addLogTo(cmd)
	flags.completeNames(cmd, groupsPath, 1)
	cmd.Flags().StringVar(&id, "id", "", "name of the member (default HOST-PID)")
	cmd.Flags().StringVar(&data, "data", "", "what others read of the member")
	return cmd
}

// checkID refuses an id that cannot be the name of a znode below path.
func checkID(command, path, id string) error {
	if strings.Contains(id, "/") {
		return exit.Errorf(exit.Usage, "%s: --id %s: a name has no slash", command, id)
	}
	err := zk.ValidatePath(zk.Join(path, id))
	if err != nil {
		return exit.Errorf(exit.Usage, "%s: --id %q cannot be used: %w", command, id, err)
	}
	return nil
}

// takenNotice is how long join and register are silent while another session has their id.
const takenNotice = time.Second

// join runs the command of child as a member of the group at path.
func join(flags accessFlags, path, id, data string, child *roleChild, k *client.Keeper, to access.Settings) error {
	var m *group.Member
	err := child.before(func(ctx context.Context) error {
		hint := time.AfterFunc(takenNotice, func() {
			flags.log.notice("join " + path + ": " + id + " is not a member yet (another session may have that --id)")
		})
		defer hint.Stop()
		var err error
		m, err = group.Join(ctx, k, path, id, []byte(data), group.JoinOptions{ACL: to.MadeACL(), Logger: flags.log.client()})
		if err != nil {
			return explained(err, to)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = child.run()
	left := m.Close(context.Background()) // bounded by its CloseTimeout
	if left != nil {
		flags.log.notice(fmt.Sprintf("join %s: the member may stay until its session expires: %v", path, left))
	}
	return err
}
