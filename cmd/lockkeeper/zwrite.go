package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/zk"
)

// dataBytesMax is how much set and create read. Servers take less than a tenth of it, unless they are told otherwise.
const dataBytesMax = 16 << 20

// writingVerbs change znodes.
func (e *zEnv) writingVerbs() []*cobra.Command {
	return []*cobra.Command{e.newSet(), e.newEdit(), e.newCreate(), e.newRm(), e.newQuota(), e.newMulti()}
}

// wantVersion refuses what is no version.
func wantVersion(op string, version int32) error {
	if version < zk.AnyVersion {
		return exit.Errorf(exit.Usage, "%s: --version %d: a version is a number from 0, and -1 is any", op, version)
	}
	return nil
}

// readData reads the data for a znode from a file, or from standard input for "-".
func (e *zEnv) readData(name string) ([]byte, error) {
	in := e.in
	if name == "-" && e.lasting {
		return nil, exit.Errorf(exit.Usage, "in the shell the data is an argument, or in a file (--file): standard input has the lines that follow")
	}
	if name == "-" && e.keyboard {
		e.notef("the data is read from standard input (Ctrl-D ends it)")
	}
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, exit.Errorf(exit.OS, "%w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, dataBytesMax+1))
	if err != nil {
		return nil, exit.Errorf(exit.OS, "%w", err)
	}
	if len(data) > dataBytesMax {
		return nil, exit.Errorf(exit.Usage, "%s: more than %d bytes, which no server takes", name, dataBytesMax)
	}
	return data, nil
}

func (e *zEnv) newSet() *cobra.Command {
	var file string
	var create bool
	version := zk.AnyVersion
	cmd := &cobra.Command{
		Use: "set PATH [DATA]",
		Example: `  lockkeeper z set /app/config host=db1
  lockkeeper z set -p /app/config -f config.json
  lockkeeper z set -v 3 /app/config host=db1   # only if it is still version 3`,
		Short: "Replace the data of a znode, by default with standard input",
		Long:  "Replace the data of a znode. Without DATA, and with -, it is standard input.",
		Args:  wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			var data []byte
			switch {
			case len(args) == 2 && file != "":
				return exit.Errorf(exit.Usage, "set %s: there are data and --file; one of them will do", p)
			case len(args) == 2 && args[1] != "-":
				data = []byte(args[1])
			default:
				if file == "" {
					file = "-"
				}
				if data, err = e.readData(file); err != nil {
					return err
				}
			}
			if err := wantVersion("set "+p, version); err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				st, err := s.Set(ctx, p, data, version)
				if create && version == zk.AnyVersion && errors.Is(err, zk.ErrNoNode) {
					if err := s.EnsurePath(ctx, zk.Parent(p), nil); err != nil {
						return err
					}
					var made client.Created
					made, err = s.Create(ctx, p, data, zk.Persistent, nil)
					st = made.Stat
				}
				switch {
				case errors.Is(err, zk.ErrNoNode) && !create:
					return fmt.Errorf("%w (-p makes it)", err)
				case errors.Is(err, zk.ErrBadVersion):
					return fmt.Errorf("%w: it is not %d any more (read it again)", err, version)
				}
				if err != nil || !e.asJSON {
					return err
				}
				return e.line(newStatJSON(p, &st))
			})
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "take the data from this `file`; - is standard input")
	cmd.Flags().Int32VarP(&version, "version", "v", zk.AnyVersion, "only if the data has this version (compare and set)")
	cmd.Flags().BoolVarP(&create, "create", "p", false, "make the znode, and its parents, if they are missing (without --version)")
	return cmd
}

func (e *zEnv) newCreate() *cobra.Command {
	var ephemeral, sequential, container, parents bool
	var ttl time.Duration
	var file, aclText string
	cmd := &cobra.Command{
		Use: "create PATH [DATA]",
		Example: `  lockkeeper z create -p /app/config host=db1
  lockkeeper z create -s /queue/item-`,
		Short: "Make a znode, and print its path",
		Long: `Make a znode, and print its path. DATA is the data itself; - is standard input. Without
DATA the data is null, which is not the same as empty data: that is ''. An ephemeral znode
lives as long as the session that made it: the command keeps it until it is interrupted,
and ends with status 1 when another client has deleted it; in the shell it lives until the
connection is closed.`,
		Args: wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			mode, err := createMode(ephemeral, sequential, container, ttl)
			if err != nil {
				return err
			}
			name := args[0]
			suffix := ""
			if sequential && strings.HasSuffix(name, "/") && name != "/" { // only the counter is the name
				suffix = "/"
			}
			p, err := e.path(name)
			if err != nil {
				return err
			}
			p += suffix
			var acl []zk.ACL
			if aclText != "" {
				if acl, err = ztree.ParseACL(aclText); err != nil {
					return exit.Errorf(exit.Usage, "create %s: %w", p, err)
				}
			}
			var data []byte
			switch {
			case len(args) == 2 && file != "":
				return exit.Errorf(exit.Usage, "create %s: there are data and --file; one of them will do", p)
			case len(args) == 2 && args[1] == "-":
				if data, err = e.readData("-"); err != nil {
					return err
				}
			case len(args) == 2:
				data = []byte(args[1])
			case file != "":
				if data, err = e.readData(file); err != nil {
					return err
				}
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				return e.create(ctx, s, p, data, mode, acl, ttl, parents)
			})
		},
	}
	cmd.Flags().BoolVarP(&ephemeral, "ephemeral", "e", false, "it goes with the session")
	cmd.Flags().BoolVarP(&sequential, "sequential", "s", false, "the server appends a counter to the name")
	cmd.Flags().BoolVarP(&container, "container", "c", false, "it goes some time after its last child")
	cmd.Flags().DurationVarP(&ttl, "ttl", "t", 0, "it goes after so long without a change or a child; servers allow it with extendedTypesEnabled=true")
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents too, with the same ACL; a znode that is there already is no error")
	cmd.Flags().StringVarP(&file, "file", "f", "", "take the data from this `file`; - is standard input")
	cmd.Flags().StringVar(&aclText, "with-acl", "", "access control list, `scheme:id:cdrwa`,… (default: open to all)")
	return cmd
}

func createMode(ephemeral, sequential, container bool, ttl time.Duration) (zk.Mode, error) {
	switch {
	case ttl < 0 || ttl > 0 && ttl < time.Millisecond:
		return 0, exit.Errorf(exit.Usage, "create: --ttl %v is no time to live (at least 1ms)", ttl)
	case container && (ephemeral || sequential || ttl > 0):
		return 0, exit.Errorf(exit.Usage, "create: a container is neither ephemeral nor sequential, and has no --ttl")
	case ttl > 0 && ephemeral:
		return 0, exit.Errorf(exit.Usage, "create: an ephemeral znode has no --ttl; it goes with its session")
	case container:
		return zk.Container, nil
	case ttl > 0 && sequential:
		return zk.PersistentSequentialTTL, nil
	case ttl > 0:
		return zk.PersistentTTL, nil
	case ephemeral && sequential:
		return zk.EphemeralSequential, nil
	case ephemeral:
		return zk.Ephemeral, nil
	case sequential:
		return zk.PersistentSequential, nil
	}
	return zk.Persistent, nil
}

func (e *zEnv) create(ctx context.Context, s *client.Session, p string, data []byte, mode zk.Mode, acl []zk.ACL, ttl time.Duration, parents bool) error {
	if parents {
		if err := s.EnsurePath(ctx, zk.Parent(p), acl); err != nil {
			return err
		}
	}
	var made client.Created
	var err error
	if mode.TTL() {
		made, err = s.CreateTTL(ctx, p, data, mode, acl, ttl)
	} else {
		made, err = s.Create(ctx, p, data, mode, acl)
	}
	if parents && mode == zk.Persistent && (errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoAuth)) {
		// A server checks the permission first: also then the znode may be there.
		st, there, lookErr := s.Exists(ctx, p)
		if lookErr != nil {
			return lookErr
		}
		if there {
			made, err = client.Created{Path: p, Stat: st}, nil
		}
	}
	switch {
	case errors.Is(err, zk.ErrNoNode) && !parents:
		return fmt.Errorf("%w: its parent is missing (-p makes it)", err)
	case errors.Is(err, zk.ErrUnimplemented) && mode.TTL():
		return fmt.Errorf("%w (times to live need extendedTypesEnabled=true in the configuration of each server)", err)
	case err != nil:
		return err
	}
	if e.asJSON {
		err = e.line(newStatJSON(made.Path, &made.Stat))
	} else {
		err = e.printf("%s\n", e.name(made.Path))
	}
	switch ends := mode.Ephemeral() && !e.lasting; {
	case err != nil && !ends: // the name of a sequential znode would be lost
		return exit.Errorf(exit.OS, "create: %s is there, but its path cannot be printed: %w", ztree.Escape(made.Path), err)
	case err != nil || !ends:
		return err
	}
	e.notef("%s lives until this command ends", ztree.Escape(made.Path))
	return stayWith(ctx, s, made.Path)
}

// stayWith returns when ctx or the session ends, or when the session's ephemeral znode is not there any more.
func stayWith(ctx context.Context, s *client.Session, p string) error {
	for {
		var gone <-chan struct{}
		st, there, w, err := s.WatchExists(ctx, p)
		switch {
		case errors.Is(err, zk.ErrNoAuth): // its ACL leaves the session out, and there is no way to know
		case err != nil:
			return err
		case !there || st.EphemeralOwner != s.ID():
			return exit.Errorf(exit.Failure, "%s is gone: another client has deleted it", ztree.Escape(p))
		default:
			gone = w.Done()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.Done():
			return s.Err()
		case <-gone: // or changed
		}
	}
}

// amount is a number of a quota; -1 stands for none.
func amount(n int64) string {
	if n < 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

// doQuota is do for a quota, of which servers look for the limits outside of any chroot.
func (e *zEnv) doQuota(cmd *cobra.Command, p string, verb func(context.Context, *client.Session) error) error {
	return e.do(cmd, func(ctx context.Context, s *client.Session) error {
		if full := bridge.ServerPath(s, p); full != p {
			return exit.Errorf(exit.Usage, "quota %s %s: name the servers without a chroot, and the znode %s: servers read no quota below a chroot", cmd.Name(), ztree.Escape(p), ztree.Escape(full))
		}
		return verb(ctx, s)
	})
}

func (e *zEnv) newQuota() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quota get|set|rm",
		Short: "Show, set or remove the limits of a tree",
		Args:  wantCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	get := &cobra.Command{
		Use: "get PATH", Example: "  lockkeeper z quota get /app", Short: "Show the limits of a tree and what is used of them", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.doQuota(cmd, p, func(ctx context.Context, s *client.Session) error {
				limits, used, err := ztree.ReadQuota(ctx, s, p)
				switch {
				case errors.Is(err, zk.ErrNoNode):
					return exit.Errorf(exit.Failure, "quota %s: there is none", ztree.Escape(p))
				case err != nil:
					return err
				case e.asJSON:
					return e.line(map[string]any{"path": p, "limits": limits, "used": usedJSON{used.Count, used.Bytes}})
				}
				row := "%-6s  %10s  %10s  %10s\n"
				text := fmt.Sprintf(row, "", "LIMIT", "HARD", "USED") +
					fmt.Sprintf(row, "znodes", amount(limits.Count), amount(limits.CountHard), amount(used.Count)) +
					fmt.Sprintf(row, "bytes", amount(limits.Bytes), amount(limits.BytesHard), amount(used.Bytes))
				return e.printf("%s", text)
			})
		},
	}
	var given ztree.Quota
	set := &cobra.Command{
		Use: "set PATH", Example: "  lockkeeper z quota set /app --count 10000 --bytes 1000000", Short: "Limit a tree; limits that are not named stay, and -1 removes one", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			if p == "/" || p == "/zookeeper" || strings.HasPrefix(p, "/zookeeper/") {
				return exit.Errorf(exit.Usage, "quota set %s: the root and /zookeeper can have no quota", p)
			}
			if given == ztree.NoQuota() && !cmd.Flags().Changed("count") && !cmd.Flags().Changed("bytes") && !cmd.Flags().Changed("hard-count") && !cmd.Flags().Changed("hard-bytes") {
				return exit.Errorf(exit.Usage, "quota set %s: there is no limit (--count, --bytes, --hard-count, --hard-bytes)", p)
			}
			if least := min(given.Count, given.Bytes, given.CountHard, given.BytesHard); least < -1 {
				return exit.Errorf(exit.Usage, "quota set %s: a limit is a number from 0, or -1 for none; %d is neither", p, least)
			}
			return e.doQuota(cmd, p, func(ctx context.Context, s *client.Session) error {
				if _, there, err := s.Exists(ctx, p); err != nil {
					return err
				} else if !there {
					return &client.OpError{Op: "quota", Path: p, Err: zk.ErrNoNode}
				}
				switch dir, err := ztree.QuotaAbove(ctx, s, p); {
				case err != nil:
					return err
				case dir != "":
					return exit.Errorf(exit.Failure, "quota set %s: %s has a quota, and quotas are not nested", ztree.Escape(p), ztree.Escape(dir))
				}
				switch below, err := ztree.QuotaBelow(ctx, s, p); {
				case err != nil:
					return err
				case below != "":
					return exit.Errorf(exit.Failure, "quota set %s: %s has a quota, and quotas are not nested", ztree.Escape(p), ztree.Escape(below))
				}
				q, _, err := ztree.ReadQuota(ctx, s, p)
				if errors.Is(err, zk.ErrNoNode) {
					q, err = ztree.NoQuota(), nil
				}
				if err != nil {
					return err
				}
				for name, limit := range map[string]struct{ now, given *int64 }{
					"count": {&q.Count, &given.Count}, "bytes": {&q.Bytes, &given.Bytes},
					"hard-count": {&q.CountHard, &given.CountHard}, "hard-bytes": {&q.BytesHard, &given.BytesHard},
				} {
					if cmd.Flags().Changed(name) {
						*limit.now = *limit.given
					}
				}
				if err := ztree.SetQuota(ctx, s, p, q); err != nil || !e.asJSON {
					return err
				}
				return e.line(quotaJSON{p, q})
			})
		},
	}
	set.Flags().Int64Var(&given.Count, "count", -1, "znodes above which the server warns in its log")
	set.Flags().Int64Var(&given.Bytes, "bytes", -1, "bytes of data, likewise")
	set.Flags().Int64Var(&given.CountHard, "hard-count", -1, "znodes above which the server refuses, if it enforces quotas")
	set.Flags().Int64Var(&given.BytesHard, "hard-bytes", -1, "bytes of data, likewise")
	rm := &cobra.Command{
		Use: "rm PATH", Example: "  lockkeeper z quota rm /app", Short: "Remove the limits of a tree", Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.doQuota(cmd, p, func(ctx context.Context, s *client.Session) error {
				err := ztree.DeleteQuota(ctx, s, p)
				if errors.Is(err, zk.ErrNoNode) {
					return exit.Errorf(exit.Failure, "quota %s: there is none", ztree.Escape(p))
				}
				if err != nil || !e.asJSON {
					return err
				}
				return e.line(quotaJSON{p, ztree.NoQuota()})
			})
		},
	}
	get.Flags().BoolVar(&e.asJSON, "json", false, "print JSON")
	cmd.AddCommand(get, set, rm)
	return cmd
}

// A usedJSON is what is used of a quota, as quota get --json shows it; -1 is not known.
type usedJSON struct {
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// A quotaJSON is the quota that a tree has now, as quota set and rm --json show it.
type quotaJSON struct {
	Path   string      `json:"path"`
	Limits ztree.Quota `json:"limits"`
}

// A resultJSON is what an operation of a multi has done, as --json shows it.
type resultJSON struct {
	Operation int    `json:"operation"`      // from 1
	Path      string `json:"path,omitempty"` // created
}

func (e *zEnv) newMulti() *cobra.Command {
	return &cobra.Command{
		Use:     "multi FILE",
		Example: `  lockkeeper z multi changes.txt`,
		Short:   "Do all operations of a file in one transaction, or none",
		Long: `Do all operations of a file in one transaction, or none. A line of the file is one of

    create [-e] [-s] [-c] PATH [DATA [ACL]]
    set PATH DATA [VERSION]
    delete PATH [VERSION]
    check PATH VERSION

with quotes as in a shell; # begins a comment. In double quotes a backslash stands for
itself, except before " and another one. The file - is standard input.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := e.readData(args[0])
			if err != nil {
				return err
			}
			ops, lines, err := readOps(args[0], text)
			if err != nil {
				return err
			}
			if len(ops) == 0 {
				return exit.Errorf(exit.Usage, "multi %s: there is no operation in it", args[0])
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				results, err := s.Multi(ctx, ops...)
				var failed *client.MultiError
				if errors.As(err, &failed) {
					return fmt.Errorf("multi %s, line %d: %s %s: %w", args[0], lines[failed.Index], failed.Op, ztree.Escape(failed.Path), failed.Err)
				}
				if err != nil {
					return err
				}
				for i, r := range results {
					if e.asJSON {
						if err := e.line(resultJSON{i + 1, r.Path}); err != nil {
							return err
						}
						continue
					}
					if r.Path == "" {
						continue
					}
					if err := e.printf("%s\n", e.name(r.Path)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// readOps reads the operations of a multi from the text of a file, with the line that each is in.
func readOps(file string, text []byte) (ops []client.Op, lines []int, err error) {
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, dataBytesMax+1)
	for n := 1; scan.Scan(); n++ {
		words, err := ztree.Words(scan.Text())
		if err == nil && len(words) > 0 {
			var op client.Op
			op, err = ztree.ParseOp(words)
			ops, lines = append(ops, op), append(lines, n)
		}
		if err != nil {
			return nil, nil, exit.Errorf(exit.Usage, "multi %s, line %d: %w (nothing has been done)", file, n, err)
		}
	}
	return ops, lines, nil
}
