package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A zEnv is where a verb of z runs: as a command, with a session of its own, or in the shell, with the shell's.
type zEnv struct {
	session func(ctx context.Context, do func(context.Context, *client.Session) error) error
	other   func(ctx context.Context, servers string) (*client.Session, error) // for A:/path; the caller closes it
	context func() (context.Context, func())

	dir      func() string // what relative paths are relative to
	in       io.Reader
	out      io.Writer
	notes    io.Writer // what is not the answer
	keyboard bool      // in is a person
	screen   bool      // out is a terminal
	asJSON   bool
	patience func() time.Duration // how long other servers may be away
	// background runs a watch beside the lines that follow; nil where there are none.
	background func(ctx context.Context, s *client.Session, path string, watch func(ctx context.Context, ready func()) error) error

	unreadable int  // znodes of walks that could not be read, or listed
	unfinished bool // progress has been shown, without a newline behind it
	lasting    bool // the session goes on after the verb
}

func newZ() *cobra.Command {
	var flags accessFlags
	env := &zEnv{
		context: interruptible,
		dir:     func() string { return "/" },
		in:      standardInput(), notes: os.Stderr,
		keyboard: term.IsTerminal(int(os.Stdin.Fd())),
		screen:   term.IsTerminal(int(os.Stdout.Fd())),
		patience: func() time.Duration { return flags.connectTimeout },
	}
	env.session = func(ctx context.Context, do func(context.Context, *client.Session) error) error {
		return flags.withSession(ctx, do)
	}
	env.other = func(ctx context.Context, servers string) (*client.Session, error) {
		to, err := flags.settings()
		if err != nil {
			return nil, err
		}
		to.Servers, err = serversOf(servers)
		if err != nil {
			return nil, err
		}
		s, _, err := openCommand(ctx, to)
		return s, err
	}
	cmd := &cobra.Command{
		Use:   "z VERB",
		Short: "Read, change, search and copy znodes",
		Long: `Read, change, search and copy znodes: ls, get, set and their like, made for pipes.

    lockkeeper z ls -l /app
    lockkeeper z get /app/config | jq .
    lockkeeper z set /app/config < config.json
    lockkeeper z find /app --name '*.tmp' | lockkeeper z rm -

get writes the bytes of a znode and nothing else; set reads any bytes. A terminal
shows names with what does not print escaped (\u202e); pipes and --json have them as
they are.

Exit status: 0 done; 1 the answer is no: a znode is missing, or there already, or
has another version, or is not empty, nothing was found, trees differ, or the answer
to a question was no; 64 wrong usage; 69 no server could be reached, or the
connection was lost in the middle; 71 a file could not be read or written; 77 the
servers refuse access, also to a part of what is shown; 130 interrupted.`,
		Args:                       wantCommand,
		SuggestionsMinimumDistance: suggestionsMax,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, verb := range env.verbs() {
		for _, leaf := range leaves(verb) {
			flags.addTo(leaf, sessionFlags)
			if n := strings.Count(leaf.Use, "PATH") + strings.Count(leaf.Use, "FROM TO")*2; n > 0 {
				others := slices.IndexFunc(strings.Fields(leaf.Use)[1:], func(arg string) bool { return strings.Contains(arg, "PATH") })
				flags.completeNamesAfter(leaf, max(others, 0), "/", n)
			}
		}
		cmd.AddCommand(verb)
	}
	return cmd
}

// verbs makes the commands for an environment.
func (e *zEnv) verbs() []*cobra.Command {
	all := append(e.readingVerbs(), e.writingVerbs()...)
	all = append(append(all, e.lookingVerbs()...), e.treeVerbs()...)
	for _, verb := range all {
		verb.SuggestFor = spellings[verb.Name()]
		for _, leaf := range leaves(verb) {
			if leaf.Flags().Lookup("json") == nil {
				leaf.Flags().BoolVar(&e.asJSON, "json", false, "print JSON")
			}
		}
	}
	return all
}

// spellings are zkCli's words for verbs.
var spellings = map[string][]string{
	"acl": {"getAcl", "setAcl"}, "ephemerals": {"getEphemerals"}, "ls": {"ls2", "getAllChildrenNumber"},
	"quota": {"listquota", "setquota", "delquota"}, "rm": {"delete", "deleteall", "rmr"}, "watch": {"addWatch"}, "whoami": {"whoAmI"},
}

// zkcliWords are zkCli's words that no verb stands for, with what to type instead.
var zkcliWords = map[string]string{
	"addauth":       "--auth-file authenticates a command; lockkeeper shell has addauth",
	"close":         inShell,
	"config":        "lockkeeper z get /zookeeper/config shows it",
	"connect":       "--servers says where a command goes; lockkeeper shell has connect",
	"help":          "see lockkeeper z --help, and lockkeeper help z VERB",
	"history":       inShell,
	"printwatches":  "lockkeeper zkcli has it",
	"quit":          inShell,
	"reconfig":      "it is not offered here: change the ensemble with the zkCli of its own version",
	"redo":          inShell,
	"removewatches": "a watch of lockkeeper z ends with its command; lockkeeper zkcli has removewatches",
	"sync":          "it is for what the same session reads afterwards; lockkeeper shell has it",
	"version":       "lockkeeper version shows it",
}

const inShell = "it is a word of lockkeeper shell"

// zVerbs are the verbs of z, to look at.
func zVerbs() []*cobra.Command { return (&zEnv{dir: func() string { return "/" }}).verbs() }

// leaves returns the commands that do something: the verb, or its own verbs if it has any.
func leaves(verb *cobra.Command) []*cobra.Command {
	if verb.HasSubCommands() {
		return verb.Commands()
	}
	return []*cobra.Command{verb}
}

// do runs a verb in a session, and gives its error an exit status.
func (e *zEnv) do(cmd *cobra.Command, verb func(context.Context, *client.Session) error) error {
	e.answerTo(cmd)
	ctx, stop := e.context()
	defer stop()
	err := e.session(ctx, func(ctx context.Context, s *client.Session) error {
		defer e.endProgress()
		return zStatus(e.whole(verb(ctx, s)))
	})
	interrupted := orInterrupted(ctx, err)
	if part := (*ztree.PartError)(nil); interrupted != err && errors.As(err, &part) { // what was done is to be known also then
		return exit.Errorf(exit.StatusOf(interrupted, exit.Failure), "%s", part)
	}
	return interrupted
}

// whole is the error of a verb, or says that its walks could not read all, when it has shown the rest.
func (e *zEnv) whole(err error) error {
	if err != nil || e.unreadable == 0 {
		return err
	}
	return exit.Errorf(exit.NotPermitted, "%s, or what is below, could not be read: %w", counted(e.unreadable, "znode"), zk.ErrNoAuth)
}

// answerTo makes the answer go where cmd writes.
func (e *zEnv) answerTo(cmd *cobra.Command) {
	e.out = cmd.OutOrStdout()
	if e.out == nil {
		e.out = os.Stdout
	}
}

// zStatus gives an exit status to what a verb could not do.
func zStatus(err error) error {
	if err == nil || exit.StatusOf(err, -1) != -1 {
		return err
	}
	var code zk.Code
	var path *os.PathError
	switch {
	case errors.As(err, new(*client.SizeError)):
		return exit.Errorf(exit.Usage, "%w (a znode is not for large data)", err)
	case errors.Is(err, ztree.ErrEphemerals), errors.Is(err, ztree.ErrChanged):
		return exit.Errorf(exit.Failure, "%w", err)
	case errors.As(err, &path):
		return exit.Errorf(exit.OS, "%w", err)
	case !errors.As(err, &code):
		return err
	}
	switch code {
	case zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrQuotaExceeded, zk.ErrUnimplemented, zk.ErrNoWatcher:
		return exit.Errorf(exit.Failure, "%w", err)
	case zk.ErrBadArguments, zk.ErrInvalidACL:
		return exit.Errorf(exit.Usage, "%w", err)
	}
	return err
}

// path resolves what a user calls a znode.
func (e *zEnv) path(name string) (string, error) { return resolvePath(e.dir(), name, e.lasting) }

// resolvePath resolves a path relative to dir, in the shell or for a command. ".." and a slash at the end are for people:
// ZooKeeper knows neither.
func resolvePath(dir, name string, inShell bool) (string, error) {
	if name == "" {
		return "", exit.Errorf(exit.Usage, "the path is empty (the root is /)")
	}
	full := name
	if i := strings.Index(name, ":/"); i > 0 && !strings.Contains(name[:i], "/") {
		return "", notAPath(name, name[:i], inShell)
	}
	if name[0] != '/' {
		full = zk.Join(dir, name)
	}
	if !strings.Contains(full, "//") {
		full = path.Clean(full)
	}
	if err := zk.ValidatePath(full); err != nil {
		return "", exit.Errorf(exit.Usage, "%w", err)
	}
	return full, nil
}

// paths resolves arguments; without any it is the directory that the user is in.
func (e *zEnv) paths(args []string) ([]string, error) {
	if len(args) == 0 {
		return []string{e.dir()}, nil
	}
	all := make([]string, len(args))
	for i, name := range args {
		p, err := e.path(name)
		if err != nil {
			return nil, err
		}
		all[i] = p
	}
	return all, nil
}

// printf writes a line of the answer.
func (e *zEnv) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(e.out, format, args...)
	return err
}

// name returns a path or a name for the answer. Names are made by strangers: at a terminal, what does not print is escaped. Elsewhere a
// program reads them, as rm - does, and an escape would be another name. What ZooKeeper allows in names breaks no line; if a
// server has such a name all the same, it is in quotes, and no path.
func (e *zEnv) name(name string) string {
	switch {
	case e.screen:
		return ztree.Escape(name)
	case strings.ContainsFunc(name, unicode.IsControl):
		return strconv.Quote(name)
	}
	return name
}

// line prints v as one line of JSON.
func (e *zEnv) line(v any) error { return json.NewEncoder(printable.JSON(e.out)).Encode(v) }

// notef tells the user something that is not part of the answer.
func (e *zEnv) notef(format string, args ...any) {
	e.endProgress()
	fmt.Fprintf(e.notes, "lockkeeper: "+format+"\n", args...)
}

// A statJSON is a znode as --json shows it.
type statJSON struct {
	Path           string `json:"path"`
	Kind           string `json:"kind,omitempty"`
	Czxid          string `json:"czxid,omitempty"`
	Mzxid          string `json:"mzxid,omitempty"`
	Pzxid          string `json:"pzxid,omitempty"`
	Ctime          int64  `json:"ctime_ms,omitempty"`
	Mtime          int64  `json:"mtime_ms,omitempty"`
	Version        int32  `json:"version"`
	Cversion       int32  `json:"cversion"`
	Aversion       int32  `json:"aversion"`
	EphemeralOwner string `json:"ephemeral_owner,omitempty"`
	DataLength     int32  `json:"data_length"`
	NumChildren    int32  `json:"num_children"`
	dataJSON
	ACL   []zACLJSON `json:"acl,omitempty"`
	Error string     `json:"error,omitempty"`
}

// A dataJSON is the data of a znode as --json shows it.
type dataJSON struct {
	Text *string `json:"text,omitempty"` // if it is UTF-8
	Data []byte  `json:"data,omitempty"` // base64, if it is not
	Null bool    `json:"null,omitempty"` // the data is null; the text is empty then
}

type zACLJSON struct {
	Scheme string `json:"scheme"`
	ID     string `json:"id"`
	Perms  string `json:"perms"`
}

func hexID(n int64) string { return fmt.Sprintf("0x%x", uint64(n)) }

func newStatJSON(path string, st *zk.Stat) statJSON {
	j := statJSON{
		Path: path, Kind: ztree.Kind(st), Czxid: hexID(st.Czxid), Mzxid: hexID(st.Mzxid), Pzxid: hexID(st.Pzxid), Ctime: st.Ctime, Mtime: st.Mtime,
		Version: st.Version, Cversion: st.Cversion, Aversion: st.Aversion, DataLength: st.DataLength, NumChildren: st.NumChildren,
	}
	if ztree.Ephemeral(st) {
		j.EphemeralOwner = hexID(st.EphemeralOwner)
	}
	return j
}

func nodeJSON(n *ztree.Node) statJSON {
	if n.Err != nil {
		return statJSON{Path: n.Path, Error: n.Err.Error()}
	}
	return newStatJSON(n.Path, &n.Stat)
}

func (j *dataJSON) setData(data []byte) {
	j.Null = data == nil
	if text := string(data); strings.ToValidUTF8(text, "") == text {
		j.Text = &text
	} else {
		j.Data = data
	}
}

func aclJSON(acl []zk.ACL) []zACLJSON {
	all := make([]zACLJSON, len(acl))
	for i, a := range acl {
		all[i] = zACLJSON{a.Scheme, a.ID, ztree.FormatPerms(a.Perms)}
	}
	return all
}
