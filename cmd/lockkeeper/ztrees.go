package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// treeVerbs work on two trees, or on a tree and a file.
func (e *zEnv) treeVerbs() []*cobra.Command {
	return []*cobra.Command{e.newCp(), e.newMv(), e.newDiff(), e.newMirror(), e.newExport(), e.newImport()}
}

const placeHelp = `A tree on other servers is named as in zk1:2181,zk2:2181:/app, or as in prod:/app if the
user's file of connections has a line for prod (see lockkeeper help environment). TLS and
credentials are the same for all. Ephemeral znodes, and with them the queues of locks,
are left out, and their number is shown.`

// madeHelp says what copies do not keep.
const madeHelp = `
Containers, and znodes with a time to live, become persistent: servers show them like
persistent ones. The counters for sequential znodes begin anew.`

// rootHelp says what becomes of the root of a copy or an import that is there already.
const rootHelp = `

A root that is there already, as / is, gets data and ACL if it is empty: no data, no ACL
of its own, no children but /zookeeper. Otherwise it is a znode like others that are there.
If the root to write has neither data nor an ACL, / stays as it is.`

func (e *zEnv) newCp() *cobra.Command {
	var existing string
	var rate rateFlag
	var openACL bool
	cmd := &cobra.Command{
		Use: "cp FROM TO",
		Example: `  lockkeeper z cp /app /app-copy
  lockkeeper z cp zk1:2181:/app zk9:2181:/`,
		Short: "Copy a tree, also between servers",
		Long: "Copy a tree, with data and ACLs. If TO ends with a slash, the copy is made below it.\n" +
			placeHelp + madeHelp + rootHelp,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			places, err := e.places(args)
			if err != nil {
				return err
			}
			mode, err := existingMode(existing)
			if err != nil {
				return err
			}
			to := intoOrAs(places[0], places[1], strings.HasSuffix(args[1], "/"))
			if within(places[0], to) {
				return exit.Errorf(exit.Usage, "cp %v %v: one is within the other", places[0], to)
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				return e.at(ctx, s, places, func(ctx context.Context, a, b *client.Session) error {
					err := e.apart(ctx, "cp", places[0], to, a, b)
					if err != nil {
						return err
					}
					target := &ztree.Importer{Root: to.path, OpenACL: openACL,
						Writer: ztree.Writer{S: b, Existing: mode, Rate: float64(rate), Progress: e.progress("copied", 0)}}
					left, err := ztree.Copy(ctx, a, places[0].path, target)
					return e.report("copied", target, left, err)
				})
			})
		},
	}
	addExistingFlag(cmd, &existing)
	addRateFlag(cmd, &rate)
	cmd.Flags().BoolVar(&openACL, "open-acl", false, "let all do all with the copy, instead of copying ACLs")
	cmd.Flags().BoolP("recursive", "r", true, "as in cp of a file system: here it is always so")
	cmd.Flags().MarkHidden("recursive")
	return cmd
}

func addExistingFlag(cmd *cobra.Command, existing *string) {
	cmd.Flags().StringVar(existing, "existing", "fail", "what to do with a znode that is there: fail, skip or overwrite")
}

// A rateFlag is a number of znodes a second; 0 is no limit.
type rateFlag float64

func addRateFlag(cmd *cobra.Command, rate *rateFlag) {
	cmd.Flags().Var(rate, "rate", "at most this `number` of znodes a second; 0 is no limit")
}

// Set implements pflag.Value.
func (r *rateFlag) Set(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 0) {
		return errors.New("it is a number of znodes a second, and 0 is no limit")
	}
	*r = rateFlag(n)
	return nil
}

func (r *rateFlag) String() string { return strconv.FormatFloat(float64(*r), 'g', -1, 64) }

// Type implements pflag.Value.
func (r *rateFlag) Type() string { return "number" }

func existingMode(name string) (ztree.Existing, error) {
	modes := map[string]ztree.Existing{"fail": ztree.Fail, "skip": ztree.Skip, "overwrite": ztree.Overwrite}
	mode, ok := modes[name]
	if !ok {
		return mode, exit.Errorf(exit.Usage, "--existing %s: it is fail, skip or overwrite", name)
	}
	return mode, nil
}

// report says what has been written, also by work that failed.
func (e *zEnv) report(did string, to *ztree.Importer, left ztree.LeftOut, err error) error {
	if to.Done+to.Skipped == 0 && !client.MaybeApplied(err) && (errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNoAuth) || exit.StatusOf(err, 0) == exit.Usage) {
		return fmt.Errorf("%w; nothing has been %s", err, did)
	}
	if err != nil {
		hint := "--existing skip goes on"
		if errors.Is(err, zk.ErrNodeExists) {
			hint = "--existing skip or overwrite goes on"
		}
		if to.Existing == ztree.Overwrite {
			hint = "the same command goes on"
		}
		if errors.Is(err, zk.ErrNoAuth) {
			hint = "once the servers allow it, " + hint
		}
		return &ztree.PartError{Done: to.Done, Did: did, Next: hint, Err: err}
	}
	if e.asJSON {
		return e.line(map[string]int{"znodes": to.Done, "skipped": to.Skipped, "left_out": left.Ephemerals})
	}
	e.notef("%s %s%s", counted(to.Done, "znode"), did, skipped(to.Skipped))
	if left.Ephemerals > 0 {
		e.notef("%v", left)
	}
	return nil
}

func skipped(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d were there", n)
}

func (e *zEnv) newMv() *cobra.Command {
	return &cobra.Command{
		Use:     "mv FROM TO",
		Example: `  lockkeeper z mv /app /old/app`,
		Short:   "Move a tree",
		Long: `Move a tree, on the same servers. Up to 400 znodes, with up to 256 KiB of data and
paths, are moved in one transaction: others see them here or there, and a change
meanwhile makes it fail. In the moment before the transaction only changes of data and
of children do: a change of an ACL then, or a znode that is made again, is lost.
A larger tree is copied, compared and then removed, as far as it has not changed
since; if that fails, both are there, and mv says so. A tree with
ephemeral znodes is not moved. Containers, and znodes with a time to live, become
persistent. The counters for sequential znodes begin anew.`,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			places, err := e.places(args)
			if err != nil {
				return err
			}
			from, to := places[0], places[1]
			if from.servers != "" || to.servers != "" {
				return exit.Errorf(exit.Usage, "mv %v %v: mv works on the usual servers only (cp copies to others, and rm -r removes what was copied)", from, to)
			}
			to = intoOrAs(from, to, strings.HasSuffix(args[1], "/"))
			if within(from, to) {
				return exit.Errorf(exit.Usage, "mv %v %v: one is within the other", from, to)
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				n, err := ztree.MoveAtOnce(ctx, s, from.path, to.path)
				if errors.Is(err, ztree.ErrTooLarge) {
					n, err = e.moveLarge(ctx, s, from.path, to.path)
				}
				switch {
				case err != nil:
					return err
				case e.asJSON:
					return e.line(movedJSON{from.path, to.path, n})
				}
				e.notef("%s moved", counted(n, "znode"))
				return nil
			})
		},
	}
}

// A movedJSON is what mv has moved, as --json shows it.
type movedJSON struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Znodes int    `json:"znodes"`
}

// moveLarge moves a tree that does not fit into one transaction.
func (e *zEnv) moveLarge(ctx context.Context, s *client.Session, from, to string) (int, error) {
	census, err := ztree.Count(ctx, s, from)
	if err != nil {
		return 0, err
	}
	if n := len(census.Ephemerals) + census.More; n > 0 {
		return 0, fmt.Errorf("mv %s: %w (%d of them; nothing has been done)", ztree.Escape(from), ztree.ErrEphemerals, n)
	}
	return ztree.MoveByCopy(ctx, s, from, to, e.progress("copied", census.Nodes), e.progress("removed", census.Nodes))
}

// A differenceJSON is a difference as --json shows it.
type differenceJSON struct {
	Path string `json:"path"`
	In   string `json:"in,omitempty"` // "a" or "b" if it is missing in the other
	Data bool   `json:"data,omitempty"`
	ACL  bool   `json:"acl,omitempty"`
}

func (e *zEnv) newDiff() *cobra.Command {
	var ignoreACL bool
	cmd := &cobra.Command{
		Use:     "diff A B",
		Example: `  lockkeeper z diff /app prod:/app`,
		Short:   "Compare two trees, also on different servers",
		Long: `Compare two trees: data, ACLs and which znodes there are. A line begins with - for a
znode that only A has, + for one that only B has, and ~ for one that differs; then comes
what differs. Exit status 1 if there is a difference.
An ACL with digests is shown whole only to clients that may change it, so that others
cannot compare it: they need --ignore-acl.
` + placeHelp,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			places, err := e.places(args)
			if err != nil {
				return err
			}
			differ := 0
			err = e.do(cmd, func(ctx context.Context, s *client.Session) error {
				return e.at(ctx, s, places, func(ctx context.Context, a, b *client.Session) error {
					left, err := ztree.Diff(ctx, a, places[0].path, b, places[1].path, ignoreACL, func(d ztree.Difference) error {
						differ++
						return e.difference(d)
					})
					if err == nil && left.Ephemerals > 0 {
						e.notef("%v", left)
					}
					return err
				})
			})
			if err == nil && differ > 0 {
				return exit.Errorf(exit.Failure, "diff %v %v: %s %s", places[0], places[1], counted(differ, "znode"), plural(differ, "differs", "differ"))
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&ignoreACL, "ignore-acl", false, "do not compare ACLs")
	return cmd
}

func (e *zEnv) difference(d ztree.Difference) error {
	shown := e.name(d.Path)
	j := differenceJSON{Path: d.Path, Data: d.Data, ACL: d.ACL}
	switch {
	case d.B == nil:
		j.In = "a"
	case d.A == nil:
		j.In = "b"
	}
	switch {
	case e.asJSON:
		return e.line(j)
	case j.In == "a":
		return e.printf("- %s\n", shown)
	case j.In == "b":
		return e.printf("+ %s\n", shown)
	}
	line := "~ " + shown
	if d.Data {
		line += "  " + ztree.Shown(d.A.Data, 30) + " → " + ztree.Shown(d.B.Data, 30)
	}
	if d.ACL {
		line += "  ACL " + ztree.FormatACL(d.A.ACL) + " → " + ztree.FormatACL(d.B.ACL)
	}
	return e.printf("%s\n", line)
}

func (e *zEnv) newMirror() *cobra.Command {
	var plan, apply, remove, openACL bool
	var rate rateFlag
	cmd := &cobra.Command{
		Use: "mirror FROM TO",
		Example: `  lockkeeper z mirror prod:/app /app
  lockkeeper z mirror --apply --delete prod:/app /app`,
		Short: "Make one tree like another, also between servers",
		Long: `Make one tree like another. --plan, the default, shows what would be done; --apply does
it, in transactions of up to 500 znodes. What only TO has is kept unless --delete is given.
A change of TO meanwhile makes it fail. It begins with a comparison, so the same command
goes on after a failure.
An ACL with digests is shown whole only to clients that may change it; others need
--open-acl.
` + placeHelp + madeHelp,
		Args: wantArgs(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if plan && apply {
				return exit.Errorf(exit.Usage, "mirror: there are --plan and --apply; one of them will do")
			}
			places, err := e.places(args)
			if err != nil {
				return err
			}
			if within(places[0], places[1]) {
				return exit.Errorf(exit.Usage, "mirror %v %v: one is within the other", places[0], places[1])
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				return e.at(ctx, s, places, func(ctx context.Context, a, b *client.Session) error {
					err := e.apart(ctx, "mirror", places[0], places[1], a, b)
					if err != nil {
						return err
					}
					counts := map[string]int{}
					m := ztree.Mirror{From: a, FromRoot: places[0].path, To: b, ToRoot: places[1].path, Delete: remove, OpenACL: openACL, Apply: apply, Rate: float64(rate)}
					m.Tell = func(step ztree.Step) error {
						counts[step.Do]++
						switch {
						case apply:
							return nil
						case e.asJSON:
							return e.line(map[string]string{"do": step.Do, "path": step.Path})
						}
						return e.printf("%-6s %s\n", step.Do, e.name(step.Path))
					}
					m.Progress = e.progress("mirrored", 0)
					done, left, err := m.Run(ctx)
					if err != nil {
						next := "the same command goes on"
						if errors.Is(err, zk.ErrNoAuth) {
							next = "once the servers allow it, " + next
						}
						return &ztree.PartError{Done: done, Did: "mirrored", Next: next, Err: err}
					}
					if apply && e.asJSON {
						return e.line(map[string]int{"created": counts["create"], "set": counts["set"], "acls_set": counts["acl"],
							"deleted": counts["delete"], "kept": counts["keep"], "left_out": left.Ephemerals})
					}
					verb := "would be done"
					if apply {
						verb = "done"
					}
					kept := fmt.Sprintf("; %d only in the target kept", counts["keep"])
					if remove {
						kept = ""
					}
					e.notef("%s: %d created, %d set, %s set, %d deleted%s", verb,
						counts["create"], counts["set"], counted(counts["acl"], "ACL"), counts["delete"], kept)
					if left.Ephemerals > 0 {
						e.notef("%v", left)
					}
					return nil
				})
			})
		},
	}
	cmd.Flags().BoolVar(&plan, "plan", false, "only show what would be done")
	cmd.Flags().BoolVar(&apply, "apply", false, "do it")
	cmd.Flags().BoolVar(&remove, "delete", false, "delete what only the target has")
	cmd.Flags().BoolVar(&openACL, "open-acl", false, "do not compare ACLs, and let all do all with what is created")
	addRateFlag(cmd, &rate)
	return cmd
}

func (e *zEnv) newExport() *cobra.Command {
	var file string
	var compress, openACL bool
	cmd := &cobra.Command{
		Use:     "export [PATH]",
		Example: `  lockkeeper z export /app -o app.json.gz`,
		Short:   "Write a tree to a file, or to standard output",
		Long: `Write a tree to standard output, or to a file (-o), a line of JSON for each znode:

    {"format":"lockkeeper-tree","version":1,"root":"/app"}
    {"path":"/config","text":"hello","acl":[{"scheme":"world","id":"anyone","perms":"r"}]}
    {"end":true,"znodes":1}

Paths are relative to PATH. Data that is not UTF-8 is in "data", in base64; "null":true is
data that is null; without "acl" all may do all. The last line is missing from half an
export. Ephemeral znodes, and with them the queues of locks, are left out, and counted.
Containers, and znodes with a time to live, are written as persistent ones.
The tree may change while it is read; each znode is as it was when it was read.
An ACL with digests is shown whole only to clients that may change it; others need --open-acl.
A file whose name ends with .gz is compressed.`,
		Args: wantArgs(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			paths, err := e.paths(args)
			if err != nil {
				return err
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				if file == "" || file == "-" {
					if e.screen && compress {
						return exit.Errorf(exit.Usage, "export: compressed data is not for a terminal (-o FILE)")
					}
					_, _, err := e.export(ctx, s, paths[0], openACL, e.out, compress)
					return err
				}
				return e.exportFile(ctx, s, paths[0], openACL, file, compress || strings.HasSuffix(file, ".gz"))
			})
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this `file`, which appears only when it is whole")
	cmd.Flags().BoolVarP(&compress, "gzip", "z", false, "compress")
	cmd.Flags().BoolVar(&openACL, "open-acl", false, "leave out ACLs: an import then lets all do all")
	return cmd
}

// exportFile writes an export to a file that takes its name when it is whole. What is there and no regular file, as a pipe or
// /dev/stdout, is written to directly.
func (e *zEnv) exportFile(ctx context.Context, s *client.Session, root string, openACL bool, file string, compress bool) error {
	target := file
	if resolved, err := filepath.EvalSymlinks(file); err == nil {
		target = resolved // or the link would be replaced
	}
	var f *os.File
	var err error
	st, absent := os.Stat(file)
	whole := absent != nil || st.Mode().IsRegular()
	if whole {
		f, err = os.CreateTemp(filepath.Dir(target), "."+filepath.Base(target)+"-*") // readable by its user alone: data can be secret
	} else {
		f, err = os.OpenFile(file, os.O_WRONLY, 0)
	}
	if err != nil {
		return exit.Errorf(exit.OS, "export: %s: %w", file, errors.Unwrap(err))
	}
	n, left, err := e.export(ctx, s, root, openACL, f, compress)
	if err == nil && whole {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if whole && err == nil {
		err = os.Rename(f.Name(), target)
	}
	if whole && err != nil {
		os.Remove(f.Name())
	}
	if err != nil || !e.asJSON {
		return err
	}
	return e.line(map[string]any{"file": file, "path": root, "znodes": n, "left_out": left.Ephemerals})
}

// exportBuffer is how many bytes of an export are written at once.
const exportBuffer = 1 << 18

func (e *zEnv) export(ctx context.Context, s *client.Session, root string, openACL bool, w io.Writer, compress bool) (n int, left ztree.LeftOut, err error) {
	buffered := bufio.NewWriterSize(w, exportBuffer)
	var into io.Writer = buffered
	var z *gzip.Writer
	if compress {
		z, _ = gzip.NewWriterLevel(buffered, gzip.BestSpeed)
		into = z
	}
	n, left, err = ztree.Export(ctx, s, root, openACL, into, e.progress("exported", 0))
	if err == nil && z != nil {
		err = z.Close()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if n == 0 && err != nil {
		return n, left, err
	}
	if err != nil {
		return n, left, &ztree.PartError{Done: n, Did: "read", Next: "what has been written is not whole", Err: err}
	}
	e.notef("%s exported", counted(n, "znode"))
	if left.Ephemerals > 0 {
		e.notef("%v", left)
	}
	return n, left, nil
}

func (e *zEnv) newImport() *cobra.Command {
	var existing string
	var rate rateFlag
	var openACL, dryRun bool
	cmd := &cobra.Command{
		Use: "import FILE [PATH]",
		Example: `  lockkeeper z import app.json.gz /app
  lockkeeper z import --dry-run backup.json`,
		Short: "Make the znodes of an export below a path",
		Long: `Make the znodes of an export below a path, by default /. FILE is an export of lockkeeper,
zk_shell, zoocreeper, ZooNavigator or zkui, compressed with gzip or not; - is standard
input. A file is read through before anything is written, so that half an export is
refused; standard input is not, if it is an export of lockkeeper.

A znode that is there already ends the import, unless --existing says otherwise. What was
written by then stays: import says how much, and --existing skip goes on.` + rootHelp,
		Args: wantArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := "/"
			if len(args) == 2 {
				p, err := e.path(args[1])
				if err != nil {
					return err
				}
				root = p
			}
			mode, err := existingMode(existing)
			if err != nil {
				return err
			}
			if args[0] == "-" && e.lasting {
				return exit.Errorf(exit.Usage, "import: in the shell the export is in a file: standard input has the lines that follow")
			}
			in := e.in
			total := 0
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return exit.Errorf(exit.OS, "%w", err)
				}
				defer f.Close()
				format, err := ztree.ReadExport(f, func(ztree.Record) error { total++; return nil })
				if errors.As(err, new(*os.PathError)) { // a directory, for example
					return exit.Errorf(exit.OS, "import: %w", err)
				}
				if err != nil {
					return exit.Errorf(exit.Usage, "import %s: %w (nothing has been written)", args[0], err)
				}
				if _, err := f.Seek(0, io.SeekStart); err != nil {
					return exit.Errorf(exit.OS, "%w", err)
				}
				in = f
				if dryRun && e.asJSON {
					e.answerTo(cmd)
					return e.line(map[string]any{"file": args[0], "format": format, "znodes": total})
				}
				if dryRun {
					e.notef("%s: an export of %s with %s", args[0], format, counted(total, "znode"))
					return nil
				}
			} else if dryRun {
				return exit.Errorf(exit.Usage, "import: --dry-run is for a file")
			}
			return e.do(cmd, func(ctx context.Context, s *client.Session) error {
				to := &ztree.Importer{Root: root, OpenACL: openACL,
					Writer: ztree.Writer{S: s, Existing: mode, Rate: float64(rate), Progress: e.progress("imported", total)}}
				var adding error
				_, err := ztree.ReadExport(in, func(r ztree.Record) error { adding = to.Add(ctx, r); return adding })
				if err != nil && adding == nil { // the input's
					status := exit.Usage
					if errors.As(err, new(*os.PathError)) {
						status = exit.OS
					}
					err = exit.Errorf(status, "import %s: %w", args[0], err)
				}
				if flushErr := to.Flush(ctx); flushErr != nil && (adding == nil || client.MaybeApplied(flushErr)) {
					err = flushErr
				}
				return e.report("imported", to, ztree.LeftOut{}, err)
			})
		},
	}
	addExistingFlag(cmd, &existing)
	addRateFlag(cmd, &rate)
	cmd.Flags().BoolVar(&openACL, "open-acl", false, "let all do all with what is made, instead of taking over ACLs")
	cmd.Flags().BoolVarP(&dryRun, "dry-run", "n", false, "only read the file")
	return cmd
}
