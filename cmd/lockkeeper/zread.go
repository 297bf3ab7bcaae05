package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// pathsMax is how many paths a verb takes.
const pathsMax = 1000

// readingVerbs show znodes.
func (e *zEnv) readingVerbs() []*cobra.Command {
	return []*cobra.Command{e.newLs(), e.newTree(), e.newGet(), e.newStat(), e.newACL(), e.newWhoami(), e.newEphemerals(), e.newSessions()}
}

func (e *zEnv) newLs() *cobra.Command {
	var long, recursive bool
	cmd := &cobra.Command{
		Use: "ls [PATH…]",
		Example: `  lockkeeper z ls /app
  lockkeeper z ls -l /app /kafka`,
		Short: "List children, one a line",
		Args:  wantArgs(0, pathsMax),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				for i, p := range paths {
					var heading string
					if !recursive {
						heading = e.heading(paths, i)
					}
					if err := e.list(ctx, s, p, heading, long, recursive); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVarP(&long, "long", "l", false, "with kind, version, bytes, children and time of the last change")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "all below, as full paths")
	return cmd
}

// heading names one of several paths ahead of what is printed for it.
func (e *zEnv) heading(paths []string, i int) string {
	if len(paths) == 1 || e.asJSON {
		return ""
	}
	return strings.Repeat("\n", min(i, 1)) + e.name(paths[i]) + ":\n"
}

// list prints what is below a znode, after a heading. With long, or as JSON, it reads each child as well.
func (e *zEnv) list(ctx context.Context, s *client.Session, root, heading string, long, recursive bool) error {
	if !recursive && !long && !e.asJSON {
		names, _, err := s.Children(ctx, root)
		if err != nil {
			return err
		}
		slices.Sort(names)
		var b strings.Builder
		b.WriteString(heading)
		for _, name := range names {
			b.WriteString(e.name(name))
			b.WriteByte('\n')
		}
		return e.printf("%s", b.String())
	}
	opt := ztree.WalkOptions{}
	if !recursive {
		opt.Depth = 1
	}
	return e.walk(ctx, s, root, opt, func(n *ztree.Node) error {
		switch {
		case n.Path == root && !recursive:
			return e.printf("%s", heading)
		case e.asJSON:
			return e.line(nodeJSON(n))
		}
		name := n.Path
		if !recursive {
			name = zk.Base(n.Path)
		}
		if !long {
			return e.printf("%s\n", e.name(name))
		}
		if n.Err != nil {
			return e.printf("%-10s %6s %9s %7s  %-19s  %s\n", "?", "-", "-", "-", "not readable", e.name(name))
		}
		changed := ztree.Time(n.Stat.Mtime).Format("2006-01-02 15:04:05")
		return e.printf("%-10s %6d %9d %7d  %s  %s\n", ztree.Kind(&n.Stat), n.Stat.Version, n.Stat.DataLength, n.Stat.NumChildren, changed, e.name(name))
	})
}

func (e *zEnv) newTree() *cobra.Command {
	var depth int
	var data bool
	cmd := &cobra.Command{
		Use: "tree [PATH]",
		Example: `  lockkeeper z tree /app
  lockkeeper z tree -L 2 -d`,
		Short: "Draw a znode and all below it",
		Args:  wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if depth < 0 {
				return exit.Errorf(exit.Usage, "tree: --depth %d is negative", depth)
			}
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error { return e.tree(ctx, s, paths[0], depth, data) })
		},
	}
	cmd.Flags().IntVarP(&depth, "depth", "L", 0, "so many levels at most; 0 is all")
	cmd.Flags().BoolVarP(&data, "data", "d", false, "with the data, cut to a line")
	return cmd
}

func (e *zEnv) tree(ctx context.Context, s *client.Session, root string, depth int, data bool) error {
	return e.walk(ctx, s, root, ztree.WalkOptions{Depth: depth, Data: data}, func(n *ztree.Node) error {
		if e.asJSON {
			j := nodeJSON(n)
			if data && n.Err == nil {
				j.setData(n.Data)
			}
			return e.line(j)
		}
		name := zk.Base(n.Path)
		if n.Path == root {
			name = n.Path
		}
		line := strings.Repeat("  ", n.Depth(root)) + e.name(name)
		switch {
		case n.Err != nil:
			line += "  (not readable)"
		case ztree.Ephemeral(&n.Stat):
			line += "  (ephemeral of " + hexID(n.Stat.EphemeralOwner) + ")"
		}
		if data && len(n.Data) > 0 {
			line += " = " + ztree.Shown(n.Data, 60)
		}
		return e.printf("%s\n", line)
	})
}

func (e *zEnv) newGet() *cobra.Command {
	var withStat, inHex bool
	cmd := &cobra.Command{
		Use: "get PATH",
		Example: `  lockkeeper z get /app/config
  lockkeeper z get /app/logo > logo.png`,
		Short: "Write the data of a znode to standard output, byte for byte",
		Long: `Write the data of a znode to standard output, byte for byte. At a terminal, data
that is not text is shown as a hex dump, and a newline is added.

With --json the data is in "text", or in "data", in base64, if it is not UTF-8. "null":true
is data that is null.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				data, st, err := s.Get(ctx, p)
				if err != nil {
					return err
				}
				if e.asJSON {
					j := newStatJSON(p, &st)
					j.setData(data)
					return e.line(j)
				}
				switch {
				case inHex || e.screen && !ztree.IsText(data):
					err = e.printf("%s", hex.Dump(data))
				case e.screen || withStat:
					err = e.printf("%s\n", data)
				default:
					_, err = e.out.Write(data)
				}
				if err == nil && withStat {
					err = e.printf("%s", ztree.StatLines(&st))
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&withStat, "stat", "s", false, "with the stat behind the data")
	cmd.Flags().BoolVarP(&inHex, "hex", "x", false, "as a hex dump")
	return cmd
}

func (e *zEnv) newStat() *cobra.Command {
	return &cobra.Command{
		Use:     "stat PATH…",
		Example: `  lockkeeper z stat /app/config`,
		Short:   "Show what ZooKeeper knows of a znode besides its data",
		Args:    wantArgs(1, pathsMax),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				for i, p := range paths {
					st, there, err := s.Exists(ctx, p)
					switch {
					case err != nil:
						return err
					case !there:
						return &client.OpError{Op: "stat", Path: p, Err: zk.ErrNoNode}
					case e.asJSON:
						err = e.line(newStatJSON(p, &st))
					default:
						err = e.printf("%s%skind = %s\n", e.heading(paths, i), ztree.StatLines(&st), ztree.Kind(&st))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (e *zEnv) newACL() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "acl get|set",
		Short: "Show or change the access control list of a znode",
		Args:  wantCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var below bool
	get := &cobra.Command{
		Use:     "get PATH",
		Example: `  lockkeeper z acl get /app`,
		Short:   "Show an access control list",
		Args:    wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				show := func(n *ztree.Node) error {
					switch {
					case n.Err != nil && n.Path == p:
						return n.Err
					case e.asJSON:
						j := nodeJSON(n)
						j.ACL = aclJSON(n.ACL)
						return e.line(j)
					case !below:
						return e.printf("%s\n", ztree.FormatACL(n.ACL))
					case n.Err != nil:
						return e.printf("%s\t(not readable)\n", e.name(n.Path))
					}
					return e.printf("%s\t%s\n", e.name(n.Path), ztree.FormatACL(n.ACL))
				}
				if !below {
					acl, st, err := s.ACL(ctx, p)
					if err != nil {
						return err
					}
					return show(&ztree.Node{Path: p, ACL: acl, Stat: st})
				}
				return e.walk(ctx, s, p, ztree.WalkOptions{ACL: true}, show)
			})
		},
	}
	get.Flags().BoolVarP(&below, "recursive", "R", false, "of all below as well")
	get.Flags().BoolVar(&e.asJSON, "json", false, "print JSON")
	set := e.newSetACL()
	cmd.AddCommand(get, set)
	return cmd
}

func (e *zEnv) newSetACL() *cobra.Command {
	var below bool
	version := zk.AnyVersion
	set := &cobra.Command{
		Use:   "set PATH ACL",
		Short: "Change an access control list: scheme:id:cdrwa,…",
		Example: `  lockkeeper z acl set /app world:anyone:r,digest:ops:J3yWlZr1LkwgEN4mCmjcnHIHnQ8=:cdrwa
  lockkeeper z acl set -R /app auth::cdrwa   # what the session has authenticated as`,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			acl, err := ztree.ParseACL(args[1])
			if err != nil {
				return exit.Errorf(exit.Usage, "acl set %s: %w", p, err)
			}
			if err := wantVersion("acl set "+p, version); err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				if !below {
					st, err := s.SetACL(ctx, p, acl, version)
					if err != nil || !e.asJSON {
						return err
					}
					return e.line(newStatJSON(p, &st))
				}
				done, err := ztree.SetACLs(ctx, s, p, acl)
				switch {
				case err != nil:
					return err
				case e.asJSON:
					return e.line(map[string]any{"path": p, "acls_set": done})
				}
				e.notef("%s set", counted(done, "ACL"))
				return nil
			})
		},
	}
	set.Flags().BoolVarP(&below, "recursive", "R", false, "of all below as well")
	set.Flags().Int32VarP(&version, "version", "v", zk.AnyVersion, "only if the list has this version (aversion)")
	return set
}

func (e *zEnv) newWhoami() *cobra.Command {
	return &cobra.Command{
		Use:     "whoami",
		Example: `  lockkeeper z whoami --auth-file admin.auth`,
		Short:   "Show the identities of the session, and its server",
		Args:    wantArgs(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				ids, err := s.WhoAmI(ctx)
				if err != nil {
					return err
				}
				st, _ := s.State()
				if e.asJSON {
					list := []zACLJSON{}
					for _, id := range ids {
						list = append(list, zACLJSON{Scheme: id.Scheme, ID: id.ID})
					}
					return e.line(map[string]any{"server": st.Server, "session": hexID(s.ID()), "timeout_ms": s.Timeout().Milliseconds(), "identities": list})
				}
				for _, id := range ids {
					e.printf("%s:%s\n", ztree.Escape(id.Scheme), ztree.Escape(id.ID))
				}
				return e.printf("session %s on %s, timeout %v\n", hexID(s.ID()), ztree.Escape(st.Server), s.Timeout())
			})
		},
	}
}

func (e *zEnv) newEphemerals() *cobra.Command {
	return &cobra.Command{
		Use:     "ephemerals [PATH]",
		Example: `  lockkeeper z ephemerals /app`,
		Short:   "List ephemeral znodes with their sessions",
		Args:    wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				return e.walk(ctx, s, paths[0], ztree.WalkOptions{}, func(n *ztree.Node) error {
					switch {
					case n.Err != nil || !ztree.Ephemeral(&n.Stat):
						return nil
					case e.asJSON:
						return e.line(nodeJSON(n))
					}
					return e.printf("%s\t%s\n", hexID(n.Stat.EphemeralOwner), e.name(n.Path))
				})
			})
		},
	}
}

func (e *zEnv) newSessions() *cobra.Command {
	return &cobra.Command{
		Use:     "sessions [PATH]",
		Example: `  lockkeeper z sessions`,
		Short:   "List the sessions that own ephemeral znodes",
		Long: `List the sessions that own ephemeral znodes: how many, since when, and one of them.
Sessions that own none are known to the servers alone: see lockkeeper status.`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error { return e.sessions(ctx, s, paths[0]) })
		},
	}
}

func (e *zEnv) sessions(ctx context.Context, s *client.Session, root string) error {
	type owner struct {
		Session string `json:"session"`
		Znodes  int    `json:"znodes"`
		Since   int64  `json:"since_ms"`
		Example string `json:"example"`
	}
	owners := map[int64]*owner{}
	err := e.walk(ctx, s, root, ztree.WalkOptions{}, func(n *ztree.Node) error {
		if n.Err != nil || !ztree.Ephemeral(&n.Stat) {
			return nil
		}
		o := owners[n.Stat.EphemeralOwner]
		if o == nil {
			o = &owner{Session: hexID(n.Stat.EphemeralOwner), Since: n.Stat.Ctime, Example: n.Path}
			owners[n.Stat.EphemeralOwner] = o
		}
		o.Znodes++
		o.Since = min(o.Since, n.Stat.Ctime)
		return nil
	})
	if err != nil {
		return err
	}
	all := make([]*owner, 0, len(owners))
	for _, o := range owners {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b *owner) int { return strings.Compare(a.Session, b.Session) })
	if e.asJSON {
		for _, o := range all {
			if err := e.line(o); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"SESSION", "ZNODES", "SINCE", "FOR EXAMPLE"}}
	for _, o := range all {
		rows = append(rows, []string{o.Session, fmt.Sprint(o.Znodes), ztree.Time(o.Since).Format(time.DateTime), e.name(o.Example)})
	}
	return printTable(e.out, rows)
}
