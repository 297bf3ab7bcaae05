package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zkcli"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
)

func newShell() *cobra.Command {
	var flags accessFlags
	cmd := &cobra.Command{
		Use:   "shell",
		Short: "Work with znodes line by line, with history and completion",
		Long: `Work with znodes line by line. The verbs are those of lockkeeper z, with paths relative
to the znode that cd has gone to, and those of ZooKeeper's zkCli. help lists them.

Tab completes verbs, flags and the paths of znodes. The history is kept between
sessions, without lines that have credentials. What a watch sees is shown above the
line that is being typed.

connect opens a further connection: to servers (connect zk1:2181,zk2:2181/chroot prod
gives it a name), or to a name that stands in the user's file of connections (see
lockkeeper help environment). connect NAME goes back to it.

If standard input is no terminal, its lines are done one after the other, until one
fails; that one's exit status is the shell's. For the statuses see lockkeeper z --help.`,
		Args: wantArgs(0, 0),
		RunE: func(*cobra.Command, []string) error {
			to, err := flags.settings()
			if err != nil {
				return err
			}
			sh := newShellState(to)
			defer sh.closeAll()
			return sh.run()
		},
	}
	flags.addTo(cmd, sessionFlags)
	return cmd
}

// A shell is what a run of lockkeeper shell knows.
type shell struct {
	editor  *lineEditor // nil if standard input or output is no terminal
	out     io.Writer
	screen  bool // out is a terminal
	colour  bool
	conns   []*connection // in the order in which they were opened
	now     *connection   // one of conns, or nil
	zkcli   *zkcli.CLI
	lines   []string // of this run, for redo
	initial access.Settings
}

func newShellState(to access.Settings) *shell {
	sh := &shell{out: &verbLines{w: os.Stdout}, screen: term.IsTerminal(int(os.Stdout.Fd())), initial: to}
	if sh.screen && term.IsTerminal(int(os.Stdin.Fd())) {
		sh.editor = newLineEditor(historyFile("shell-history"))
		sh.editor.complete(sh.complete)
		sh.out = sh.editor
		sh.colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	sh.zkcli = &zkcli.CLI{Out: sh.out, Err: sh.out, Screen: sh.screen, Version: readVersion().String(), Resolve: func(p string) string {
		if resolved, err := resolvePath(sh.dir(), p, true); err == nil {
			return resolved
		}
		return p
	}}
	return sh
}

// errQuit ends the shell.
var errQuit = errors.New("quit")

func (sh *shell) run() error {
	ctx, stop := interruptible()
	err := sh.open(ctx, "", sh.initial)
	stop()
	if err != nil {
		if sh.editor == nil {
			return err
		}
		sh.complain(err)
	}
	if sh.editor == nil {
		return sh.script(os.Stdin)
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(ended)
	type typed struct {
		line string
		err  error
	}
	lines := make(chan typed, 1)
	for {
		go func() { // left behind only when the process ends
			line, err := sh.editor.readLine(sh.prompt())
			lines <- typed{line, err}
		}()
		select {
		case sig := <-ended:
			sh.editor.restore()
			return exit.Errorf(exit.SignalBase+int(sig.(syscall.Signal)), "%w", interrupt{sig.(syscall.Signal)})
		case in := <-lines:
			if in.err != nil {
				fmt.Fprintln(sh.out)
				return nil
			}
			err := sh.line(in.line)
			if errors.Is(err, errQuit) {
				return nil
			}
			if err != nil {
				sh.complain(err)
			}
		}
	}
}

// script does the lines of a file until one fails.
func (sh *shell) script(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, dataBytesMax)
	n := 1
	for ; lines.Scan(); n++ {
		err := sh.line(lines.Text())
		if errors.Is(err, errQuit) {
			return nil
		}
		if err != nil {
			return exit.Errorf(exit.StatusOf(err, exit.Failure), "line %d: %w", n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return exit.Errorf(exit.Usage, "line %d: it has %d bytes or more", n, dataBytesMax)
	case err != nil:
		return exit.Errorf(exit.OS, "%w", err)
	}
	return nil
}

// complain says what has come of a line. An interruption needs no words.
func (sh *shell) complain(err error) {
	if errors.As(err, new(interrupt)) {
		fmt.Fprintln(sh.out)
		return
	}
	fmt.Fprintf(sh.out, "%s\n", sh.paint("31", escaped(err.Error())))
}

// paint colours text at a terminal.
func (sh *shell) paint(colour, text string) string {
	if !sh.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (sh *shell) prompt() string {
	if sh.now == nil {
		return sh.paint("31", "not connected") + "> "
	}
	name := sh.paint("32", ztree.Escape(sh.now.name))
	if st, _ := sh.now.session.State(); st.Phase != client.Connected {
		name = sh.paint("31", ztree.Escape(sh.now.name)+" ("+st.Phase.String()+")")
	}
	return name + ":" + sh.paint("34", ztree.Escape(sh.now.dir)) + "> "
}

func (sh *shell) dir() string {
	if sh.now == nil {
		return "/"
	}
	return sh.now.dir
}

// line does one line.
func (sh *shell) line(line string) error {
	words, err := ztree.Words(line)
	if err != nil {
		return exit.Errorf(exit.Usage, "%w", err)
	}
	if len(words) == 0 {
		return nil
	}
	sh.lines = append(sh.lines, line)
	if at := strings.IndexAny(line, "<>|"); at >= 0 && !strings.ContainsAny(line, `'"\`) && slices.Contains([]string{"get", "ls", "tree", "export"}, words[0]) {
		return exit.Errorf(exit.Usage, "%s: %c is not for this shell (lockkeeper z does it: lockkeeper z get PATH > FILE)", words[0], line[at])
	}
	return sh.do(words)
}

// shellRoot is the name of the root of the shell's verbs, which the user does not see.
const shellRoot = "shell"

// A shellVerb is a verb that only the shell has.
type shellVerb struct {
	usage, short string
	least, most  int
	run          func(*shell, context.Context, []string) error
}

func shellVerbs() map[string]shellVerb {
	quit := shellVerb{short: "End the shell", run: func(*shell, context.Context, []string) error { return errQuit }}
	return map[string]shellVerb{
		"addauth":     {usage: "SCHEME CREDENTIAL", short: "Authenticate the session, as in addauth digest user:password", least: 2, most: 2, run: (*shell).addAuth},
		"cd":          {usage: "[PATH]", short: "Go to a znode; - is where it was before", most: 1, run: (*shell).cd},
		"close":       {usage: "[NAME]", short: "Close a connection", most: 1, run: (*shell).close},
		"connect":     {usage: "SERVERS [NAME] | NAME", short: "Open a connection, or go to one", most: 2, run: (*shell).connect},
		"connections": {short: "List the connections", run: (*shell).connections},
		"exit":        quit,
		"?":           {usage: "[VERB]", short: "The same as help", most: 1, run: (*shell).help},
		"man":         {usage: "[VERB]", short: "The same as help", most: 1, run: (*shell).help},
		"help":        {usage: "[VERB]", short: "List the verbs", most: 1, run: (*shell).help},
		"history":     {short: "Show the lines of this session, for redo", run: (*shell).history},
		"pwd": {short: "Show where we are", run: func(sh *shell, _ context.Context, _ []string) error {
			fmt.Fprintln(sh.out, ztree.Escape(sh.dir()))
			return nil
		}},
		"quit":    quit,
		"redo":    {usage: "NUMBER", short: "Do a line of the history again", least: 1, most: 1, run: (*shell).redo},
		"unwatch": {usage: "[PATH]", short: "End the watch of a znode, or all", most: 1, run: (*shell).unwatch},
	}
}

func (sh *shell) do(words []string) error {
	if out, ok := sh.out.(*verbLines); ok { // at a terminal the verbs end their lines
		out.begins = true
	}
	if slices.Contains([]string{"deleteall", "rmr"}, words[0]) && sh.editor != nil { // rm asks
		if len(words) > 2 {
			return exit.Errorf(exit.Usage, "%s: it is %s PATH", words[0], words[0])
		}
		words = append([]string{"rm", "-r"}, words[1:]...)
	}
	if v, ours := shellVerbs()[words[0]]; ours {
		if n := len(words) - 1; n < v.least || n > v.most {
			return exit.Errorf(exit.Usage, "%s: it is %s", words[0], strings.TrimSpace(words[0]+" "+v.usage))
		}
		ctx, stop := interruptible()
		defer stop()
		return orInterrupted(ctx, v.run(sh, ctx, words[1:]))
	}
	if usage := sh.zkcliUsage(words[0]); usage != "" && !zkcli.Understands(words) {
		return exit.Errorf(exit.Usage, "%s: it is %s", words[0], usage)
	}
	// A verb that both have is z's, unless only zkCli understands the line.
	if !isLegacyWatch(words) && (sh.isZ(words) || !zkcli.Understands(words)) {
		root := sh.zRoot()
		root.SetArgs(words)
		return root.Execute()
	}
	ctx, stop := interruptible()
	defer stop()
	err := sh.withSession(ctx, func(ctx context.Context, s *client.Session) error {
		sh.zkcli.Use(s)
		if status := sh.zkcli.Run(ctx, words); status != exit.OK && sh.editor == nil {
			return exit.Errorf(status, "%s failed", words[0])
		}
		return nil
	})
	return orInterrupted(ctx, err)
}

// verbLines passes on what verbs write. It adds the newline that the last line of one lacks before the next one writes: what is written by
// one verb alone is left as it is.
type verbLines struct {
	w      io.Writer
	last   byte
	begins bool // another verb does, and has not written yet
}

func (v *verbLines) Write(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if v.begins && v.last != 0 && v.last != '\n' {
		if _, err := v.w.Write([]byte{'\n'}); err != nil {
			return 0, err
		}
	}
	v.begins, v.last = false, b[len(b)-1]
	return v.w.Write(b)
}

// isLegacyWatch reports whether a line is zkCli's old way to ask for a watch, as in ls /a true.
func isLegacyWatch(words []string) bool {
	return len(words) == 3 && slices.Contains([]string{"ls", "ls2", "get", "stat"}, words[0]) && slices.Contains([]string{"true", "watch"}, words[2])
}

// zkcliUsage returns the usage of a verb that only zkCli has; empty for others.
func (sh *shell) zkcliUsage(verb string) string {
	if cmd, _, err := sh.zRoot().Find([]string{verb}); err == nil && cmd.HasParent() {
		return ""
	}
	return zkcli.Usage(verb)
}

// isZ reports whether a line is one that z takes.
func (sh *shell) isZ(words []string) bool {
	cmd, rest, err := sh.zRoot().Find(words)
	if err != nil || !cmd.HasParent() {
		return false
	}
	return cmd.ParseFlags(rest) == nil && cmd.ValidateArgs(cmd.Flags().Args()) == nil
}

// zRoot makes the verbs of z for the present connection. They are made anew for each line, because a command keeps
// the values of its flags.
func (sh *shell) zRoot() *cobra.Command {
	env := &zEnv{session: sh.withSession, context: interruptible, dir: sh.dir, in: os.Stdin, notes: os.Stderr, screen: sh.screen, lasting: true,
		patience: func() time.Duration { return cmp.Or(sh.initial.ConnectTimeout, connectTimeoutDefault) }}
	env.other = func(ctx context.Context, servers string) (*client.Session, error) {
		servers, err := serversOf(servers)
		if err != nil {
			return nil, err
		}
		to := sh.initial
		to.Servers = servers
		s, _, err := openCommand(ctx, to)
		return s, err
	}
	if sh.editor != nil {
		env.in, env.keyboard, env.background = sh.editor, true, sh.watchInBackground
	}
	root := &cobra.Command{Use: shellRoot, SilenceUsage: true, SilenceErrors: true, Args: wantCommand, SuggestionsMinimumDistance: suggestionsMax,
		PersistentPreRunE: refuseEmptyValues,
		RunE:              func(cmd *cobra.Command, args []string) error { return wantCommand(cmd, args) }}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exit.Errorf(exit.Usage, "%s: %w (see help %s)", cmd.Name(), err, cmd.Name())
	})
	root.AddCommand(env.verbs()...)
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) { // without the name of the root, and what only another shell can do
		var text bytes.Buffer
		cmd.Example = shellExamples(cmd.Example)
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		show(cmd, args)
		cmd.SetOut(out)
		fmt.Fprint(out, strings.ReplaceAll(text.String(), cmd.CommandPath(), commandName(cmd)))
	})
	root.SetOut(sh.out)
	root.SetErr(sh.out)
	return root
}

// shellExamples returns the examples that the shell understands, as they are written there.
func shellExamples(examples string) string {
	var ours []string
	for line := range strings.Lines(strings.ReplaceAll(examples, "lockkeeper z ", "")) {
		if !strings.Contains(line, " > ") && !strings.Contains(line, "--servers") {
			ours = append(ours, strings.TrimSuffix(line, "\n"))
		}
	}
	return strings.Join(ours, "\n")
}

func (sh *shell) cd(ctx context.Context, args []string) error {
	to := "/"
	if len(args) > 0 && args[0] == "-" && sh.now != nil {
		to = sh.now.before
	} else if len(args) > 0 {
		p, err := resolvePath(sh.dir(), args[0], true)
		if err != nil {
			return err
		}
		to = p
	}
	return sh.withSession(ctx, func(ctx context.Context, s *client.Session) error {
		if _, there, err := s.Exists(ctx, to); err != nil {
			return err
		} else if !there {
			return zStatus(&client.OpError{Op: "cd", Path: to, Err: zk.ErrNoNode})
		}
		sh.now.dir, sh.now.before = to, sh.now.dir
		return nil
	})
}

func (sh *shell) history(context.Context, []string) error {
	for i, line := range sh.lines {
		if words, err := ztree.Words(line); err == nil && strings.HasPrefix(words[0], "addauth") { // however it is written
			line = "addauth …"
		}
		fmt.Fprintf(sh.out, "%4d  %s\n", i, line)
	}
	return nil
}

func (sh *shell) redo(_ context.Context, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n >= len(sh.lines)-1 {
		return exit.Errorf(exit.Usage, "redo %s: there is no such line (history shows them)", args[0])
	}
	words, err := ztree.Words(sh.lines[n])
	if err != nil {
		return err
	}
	if words[0] == "redo" {
		return exit.Errorf(exit.Usage, "redo %d: that line is a redo itself", n)
	}
	sh.lines[len(sh.lines)-1] = sh.lines[n]
	return sh.do(words)
}

func (sh *shell) unwatch(_ context.Context, args []string) error {
	if sh.now == nil {
		return nil
	}
	for path, cancel := range sh.now.unwatch {
		if len(args) == 0 {
			cancel()
			delete(sh.now.unwatch, path)
		}
	}
	if len(args) == 0 {
		return nil
	}
	path, err := resolvePath(sh.dir(), args[0], true)
	if err != nil {
		return err
	}
	cancel := sh.now.unwatch[path]
	if cancel == nil {
		return exit.Errorf(exit.Failure, "unwatch %s: it is not watched", ztree.Escape(path))
	}
	cancel()
	delete(sh.now.unwatch, path)
	return nil
}

// watchInBackground shows changes above the line that is being typed, until unwatch or the end of the session.
func (sh *shell) watchInBackground(ctx context.Context, s *client.Session, path string, watch func(ctx context.Context, ready func()) error) error {
	if sh.now.unwatch[path] != nil {
		return exit.Errorf(exit.Failure, "watch %s: it is watched already (unwatch ends that)", ztree.Escape(path))
	}
	begun := make(chan error, 1)
	until, cancel := context.WithCancel(context.WithoutCancel(ctx))
	alive := s.Go(func(life context.Context) {
		defer context.AfterFunc(life, cancel)()
		set := false
		err := watch(until, func() { set = true; begun <- nil })
		switch {
		case !set:
			begun <- err
		case until.Err() == nil && !errors.Is(err, zk.ErrClosed): // as when the shell ends
			fmt.Fprintln(sh.out, escaped(err.Error()))
		}
	})
	if !alive {
		cancel()
		return s.Err()
	}
	var err error
	select {
	case err = <-begun:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		cancel()
		return err
	}
	sh.now.unwatch[path] = cancel
	return nil
}

func (sh *shell) help(_ context.Context, args []string) error {
	root := sh.zRoot()
	if len(args) == 1 && args[0] != "z" {
		if v, ours := shellVerbs()[args[0]]; ours {
			fmt.Fprintf(sh.out, "%s\n  %s\n", strings.TrimSpace(args[0]+" "+v.usage), v.short)
			return nil
		}
		if usage := sh.zkcliUsage(args[0]); usage != "" {
			fmt.Fprintf(sh.out, "%s\n  As in ZooKeeper's zkCli\n", usage)
			return nil
		}
		cmd, _, err := root.Find(args)
		if err != nil || !cmd.HasParent() {
			return wantCommand(root, args)
		}
		return cmd.Help()
	}
	var lines []string
	for _, cmd := range root.Commands() {
		if cmd.Name() != "help" {
			lines = append(lines, fmt.Sprintf("  %-34s %s", cmd.Use, cmd.Short))
		}
	}
	for name, v := range shellVerbs() {
		lines = append(lines, fmt.Sprintf("  %-34s %s", strings.TrimSpace(name+" "+v.usage), v.short))
	}
	slices.Sort(lines)
	fmt.Fprintf(sh.out, "%s\n\nzkCli's verbs are understood as well: %s\n", strings.Join(lines, "\n"), strings.Join(zkcli.Verbs(), " "))
	return nil
}
