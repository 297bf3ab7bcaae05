package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// lookingVerbs search and measure trees.
func (e *zEnv) lookingVerbs() []*cobra.Command {
	return []*cobra.Command{e.newFind(), e.newGrep(), e.newDu(), e.newTop(), e.newWatch()}
}

// walked runs a verb with one walk of a tree, and then show, which may be nil. The verb fails with exit.Failure if visit never returns
// true.
func (e *zEnv) walked(cmd *cobra.Command, args []string, opt ztree.WalkOptions, visit func(*ztree.Node) (bool, error), show func() error) error {
	paths, err := e.paths(args)
	if err != nil {
		return err
	}
	found := false
	err = e.do(cmd, func(ctx context.Context, s *client.Session) error {
		err := e.walk(ctx, s, paths[0], opt, func(n *ztree.Node) error {
			hit, err := visit(n)
			found = found || hit
			return err
		})
		if err != nil || show == nil {
			return err
		}
		return show()
	})
	if err != nil {
		return err
	}
	if !found {
		return exit.Errorf(exit.Failure, "%s %s: nothing was found", cmd.Name(), ztree.Escape(paths[0]))
	}
	return nil
}

// walk walks a tree to show it, and counts what of it cannot be read: that ends the verb with an error, after the answer.
func (e *zEnv) walk(ctx context.Context, s *client.Session, root string, opt ztree.WalkOptions, visit func(*ztree.Node) error) error {
	opt.Unlisted = func(string) { e.unreadable++ }
	return ztree.Walk(ctx, s, root, opt, func(n *ztree.Node) error {
		if n.Err != nil {
			e.unreadable++
		}
		return visit(n)
	})
}

func (e *zEnv) newFind() *cobra.Command {
	var glob, expr, kind string
	var larger int64
	var newer, older time.Duration
	var empty bool
	cmd := &cobra.Command{
		Use:     "find [PATH]",
		Short:   "List the znodes of a tree that fit",
		Example: "  lockkeeper z find / --name '*.json' --newer 1h\n  lockkeeper z find /services --kind ephemeral",
		Args:    wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			re, err := regexp.Compile(expr)
			if err != nil {
				return exit.Errorf(exit.Usage, "find: --path: %w", err)
			}
			if _, err := path.Match(glob, ""); err != nil {
				return exit.Errorf(exit.Usage, "find: --name %s: %w", glob, err)
			}
			if kind != "" && !slices.Contains([]string{"persistent", "ephemeral"}, kind) {
				return exit.Errorf(exit.Usage, "find: --kind %s: it is persistent or ephemeral", kind)
			}
			for flag, age := range map[string]time.Duration{"newer": newer, "older": older} {
				if cmd.Flags().Changed(flag) && age <= 0 { // it would leave nothing out
					return exit.Errorf(exit.Usage, "find: --%s %v is not a time ago: want one such as 10m or 24h", flag, age)
				}
			}
			now := time.Now()
			return e.walked(cmd, args, ztree.WalkOptions{}, func(n *ztree.Node) (bool, error) {
				age := now.Sub(ztree.Time(n.Stat.Mtime))
				named := true
				if glob != "" {
					named, _ = path.Match(glob, zk.Base(n.Path))
				}
				switch {
				case !named || !re.MatchString(n.Path):
					return false, nil
				case n.Err != nil && (kind != "" || larger > 0 || newer > 0 || older > 0 || empty):
					return false, nil
				case kind != "" && ztree.Kind(&n.Stat) != kind, int64(n.Stat.DataLength) < larger, empty && n.Stat.NumChildren+n.Stat.DataLength > 0:
					return false, nil
				case newer > 0 && age > newer, older > 0 && age < older:
					return false, nil
				case e.asJSON:
					return true, e.line(nodeJSON(n))
				}
				return true, e.printf("%s\n", e.name(n.Path))
			}, nil)
		},
	}
	cmd.Flags().StringVar(&glob, "name", "", "whose name fits this `pattern` (*, ?, [a-z])")
	cmd.Flags().StringVar(&expr, "path", "", "whose path has a match of this regular `expression`")
	cmd.Flags().StringVar(&kind, "kind", "", "that are persistent or ephemeral")
	cmd.Flags().Int64Var(&larger, "min-bytes", 0, "with so many bytes of data at least")
	cmd.Flags().DurationVar(&newer, "newer", 0, "whose data has changed in this time")
	cmd.Flags().DurationVar(&older, "older", 0, "whose data has not changed in this time")
	cmd.Flags().BoolVar(&empty, "empty", false, "without data and children")
	return cmd
}

func (e *zEnv) newGrep() *cobra.Command {
	var ignoreCase, fixed, names bool
	cmd := &cobra.Command{
		Use: "grep PATTERN [PATH]",
		Example: `  lockkeeper z grep 'db[0-9]+' /app
  lockkeeper z grep -l -F 10.0.0.7`,
		Short: "Search the data of a tree, line by line, for a regular expression",
		Args:  wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			expr := args[0]
			if fixed {
				expr = regexp.QuoteMeta(expr)
			}
			if ignoreCase {
				expr = "(?i)" + expr
			}
			re, err := regexp.Compile(expr)
			if err != nil {
				return exit.Errorf(exit.Usage, "grep: %w (-F takes the text as it is)", err)
			}
			return e.walked(cmd, args[1:], ztree.WalkOptions{Data: true}, func(n *ztree.Node) (bool, error) {
				hits := matches(re, n.Data)
				if n.Err != nil || len(hits) == 0 {
					return false, nil
				}
				shown := e.name(n.Path)
				switch {
				case e.asJSON:
					j := nodeJSON(n)
					j.setData(n.Data)
					return true, e.line(j)
				case names:
					return true, e.printf("%s\n", shown)
				case !ztree.IsText(bytes.ReplaceAll(n.Data, []byte("\r\n"), []byte("\n"))):
					return true, e.printf("%s: binary data matches\n", shown)
				}
				for _, line := range hits {
					if err := e.printf("%s:%s\n", shown, line); err != nil {
						return true, err
					}
				}
				return true, nil
			}, nil)
		},
	}
	cmd.Flags().BoolVarP(&ignoreCase, "ignore-case", "i", false, "upper and lower case are the same")
	cmd.Flags().BoolVarP(&fixed, "fixed", "F", false, "PATTERN is a text, not an expression")
	cmd.Flags().BoolVarP(&names, "names", "l", false, "only the paths")
	return cmd
}

// matches returns the lines of data with a match of re, without their ends. Empty data is an empty line.
func matches(re *regexp.Regexp, data []byte) (hits [][]byte) {
	for line := range bytes.Lines(data) {
		line = bytes.TrimRight(line, "\r\n")
		if re.Match(line) {
			hits = append(hits, line)
		}
	}
	if len(data) == 0 && re.Match(data) {
		hits = append(hits, data)
	}
	return hits
}

// A usage is what a tree takes.
type usage struct {
	Path   string `json:"path"`
	Znodes int64  `json:"znodes"`
	Bytes  int64  `json:"bytes"`
}

func (e *zEnv) newDu() *cobra.Command {
	depth := 1
	cmd := &cobra.Command{
		Use: "du [PATH]",
		Example: `  lockkeeper z du /app
  lockkeeper z du -L 2`,
		Short: "Count the znodes and the bytes of data of trees",
		Args:  wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			if depth < 0 {
				return exit.Errorf(exit.Usage, "du: --depth %d is none", depth)
			}
			var all []*usage
			var open []*usage // the trees that the walk is in, the root first
			return e.walked(cmd, args, ztree.WalkOptions{}, func(n *ztree.Node) (bool, error) {
				at := n.Depth(paths[0])
				if at <= depth {
					u := &usage{Path: n.Path}
					all, open = append(all, u), append(open[:at], u)
				}
				for _, u := range open[:min(at, depth)+1] {
					u.Znodes++
					u.Bytes += int64(n.Stat.DataLength)
				}
				return true, nil
			}, func() error { return e.usages(all) })
		},
	}
	cmd.Flags().IntVarP(&depth, "depth", "L", 1, "so many levels are shown")
	return cmd
}

// usages prints what trees take, the most first.
func (e *zEnv) usages(all []*usage) error {
	slices.SortStableFunc(all, func(a, b *usage) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, u := range all {
		var err error
		if e.asJSON {
			err = e.line(u)
		} else {
			err = e.printf("%12d %9d  %s\n", u.Bytes, u.Znodes, e.name(u.Path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *zEnv) newTop() *cobra.Command {
	count := 10
	cmd := &cobra.Command{
		Use: "top [PATH]",
		Example: `  lockkeeper z top
  lockkeeper z top -c 3 /kafka`,
		Short: "Show the widest and the largest znodes of a tree",
		Long: `Show the znodes of a tree that have the most children, and those with the most data. A
listing or an answer beyond jute.maxbuffer, 1 MiB by default, cannot be read by every
client.`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 {
				return exit.Errorf(exit.Usage, "top: --count %d shows nothing", count)
			}
			widest := ranking{max: count, of: func(n *ztree.Node) int32 { return n.Stat.NumChildren }}
			largest := ranking{max: count, of: func(n *ztree.Node) int32 { return n.Stat.DataLength }}
			return e.walked(cmd, args, ztree.WalkOptions{}, func(n *ztree.Node) (bool, error) {
				widest.add(n)
				largest.add(n)
				return true, nil
			}, func() error { return e.rankings(widest, largest) })
		},
	}
	cmd.Flags().IntVarP(&count, "count", "c", 10, "how many of each")
	return cmd
}

// rankings prints what top has found.
func (e *zEnv) rankings(widest, largest ranking) error {
	if e.asJSON {
		return e.line(map[string][]statJSON{"widest": widest.json(), "largest": largest.json()})
	}
	e.printf("%12s  WIDEST\n", "CHILDREN")
	for _, n := range widest.nodes {
		e.printf("%12d  %s\n", n.Stat.NumChildren, e.name(n.Path))
	}
	e.printf("%12s  LARGEST\n", "BYTES")
	for _, n := range largest.nodes {
		err := e.printf("%12d  %s\n", n.Stat.DataLength, e.name(n.Path))
		if err != nil {
			return err
		}
	}
	return nil
}

// A ranking keeps the nodes that have the most of something.
type ranking struct {
	max   int
	of    func(*ztree.Node) int32
	nodes []*ztree.Node // the one with the most first
}

func (r *ranking) add(n *ztree.Node) {
	if r.of(n) == 0 || len(r.nodes) == r.max && r.of(n) <= r.of(r.nodes[r.max-1]) {
		return
	}
	at, _ := slices.BinarySearchFunc(r.nodes, n, func(a, b *ztree.Node) int {
		if r.of(a) >= r.of(b) {
			return -1
		}
		return 1
	})
	r.nodes = slices.Insert(r.nodes, at, n)
	if len(r.nodes) > r.max {
		r.nodes = r.nodes[:r.max]
	}
}

func (r *ranking) json() []statJSON {
	all := []statJSON{}
	for _, n := range r.nodes {
		all = append(all, nodeJSON(n))
	}
	return all
}

func (e *zEnv) newWatch() *cobra.Command {
	var below, data bool
	var count int
	cmd := &cobra.Command{
		Use: "watch PATH",
		Example: `  lockkeeper z watch -d /app/config
  lockkeeper z watch -R -c 1 /app   # until the first change`,
		Short: "Print a line for each change of a znode",
		Long: `Print a line for each change of a znode, or of all below it as well (-R), until it is
interrupted: the time, what happened (created, deleted, changed, children) and the path.
A line with "gap" means that changes may have been missed: read the znodes again. It ends
with status 69 when no server has been there for as long as --connect-timeout says. Wants
servers of version 3.6 or later.`,
		Args: wantArgs(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := e.path(args[0])
			if err != nil {
				return err
			}
			if count < 0 {
				return exit.Errorf(exit.Usage, "watch: --count %d is none", count)
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				if e.background != nil && count == 0 {
					return e.background(ctx, s, p, func(ctx context.Context, ready func()) error {
						return ztree.Watch(ctx, s, p, below, data, ready, e.change)
					})
				}
				if e.background == nil {
					endWithReader(e.out)
				}
				seen := 0
				ready := func() { e.notef("watching %s", ztree.Escape(p)) }
				err := ztree.Watch(ctx, s, p, below, data, ready, func(c ztree.Change) error {
					if err := e.change(c); err != nil {
						return err
					}
					seen++
					if seen == count {
						return errWatchedEnough
					}
					return nil
				})
				if err == errWatchedEnough {
					return nil
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVarP(&below, "recursive", "R", false, "all below as well")
	cmd.Flags().BoolVarP(&data, "data", "d", false, "with the data after the change, cut to a line")
	cmd.Flags().IntVarP(&count, "count", "c", 0, "end after so many changes")
	return cmd
}

// errWatchedEnough ends a watch with --count.
var errWatchedEnough = fmt.Errorf("seen enough")

// A changeJSON is a change as --json shows it.
type changeJSON struct {
	Time string    `json:"time"`
	Type string    `json:"type"`
	Path string    `json:"path"`
	Zxid string    `json:"zxid,omitempty"`
	Node *statJSON `json:"node,omitempty"`
}

// change prints a change.
func (e *zEnv) change(c ztree.Change) error {
	now := time.Now()
	if e.asJSON {
		j := changeJSON{Time: now.Format(time.RFC3339Nano), Type: c.Type, Path: c.Path}
		if c.Zxid != 0 {
			j.Zxid = hexID(c.Zxid)
		}
		if c.Node != nil {
			node := nodeJSON(c.Node)
			node.setData(c.Node.Data)
			j.Node = &node
		}
		return e.line(j)
	}
	line := now.Format("15:04:05.000") + " " + fmt.Sprintf("%-8s", c.Type) + " " + e.name(c.Path)
	if c.Node != nil {
		line += " = " + ztree.Shown(c.Node.Data, 60)
	}
	return e.printf("%s\n", line)
}
