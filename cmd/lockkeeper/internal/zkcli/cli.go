package zkcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
)

// The exit statuses of a zkCli that was given its command as arguments.
const (
	ok              = 0
	failed          = 1
	commandNotFound = 127
)

// ErrQuit is returned for the verb quit.
var ErrQuit = errors.New("quit")

// historyShown is how many lines the verb history shows.
const historyShown = 11

// A CLI is one run of zkCli. Run and Line are for one goroutine; watches print from others.
type CLI struct {
	Out, Err io.Writer                                                          // Err gets the messages, as in zkCli
	Screen   bool                                                               // Out is a terminal, which gets text or a hex dump
	Open     func(ctx context.Context, servers string) (*client.Session, error) // for the verb connect
	Servers  string                                                             // connected to, or last
	Version  string                                                             // printed by the verb version

	Resolve func(path string) string // makes paths absolute; may be nil
	// WhileServed returns a context for a verb that ends when there has been no server for long; may be nil.
	WhileServed func(context.Context, *client.Session) (context.Context, func())
	Begun       string // printed before the first connection, with the servers for %s

	session *client.Session // nil when not connected
	history []string
	status  int

	mu      sync.Mutex // protects the following, and writing
	quiet   bool       // printwatches off
	watches map[string][]*openWatch
}

// Connect opens the first session, or another one.
func (c *CLI) Connect(ctx context.Context, servers string) error {
	c.Close(ctx)
	c.Servers = servers
	if c.Begun != "" {
		c.outf(c.Begun, servers)
		c.Begun = ""
	}
	s, err := c.Open(ctx, servers)
	if err != nil {
		return err
	}
	c.session = s
	c.event("SyncConnected", "None", "null")
	return nil
}

// Close ends the session, if there is one.
func (c *CLI) Close(ctx context.Context) {
	if c.session == nil {
		return
	}
	s := c.session
	c.session = nil
	s.Close(ctx)
	c.mu.Lock()
	c.watches = nil
	c.mu.Unlock()
	c.event("Closed", "None", "null")
}

// Use gives the CLI a session that another part of the program owns, or none. It prints nothing.
func (c *CLI) Use(s *client.Session) {
	if s == c.session {
		return
	}
	c.session = s
	c.mu.Lock()
	c.watches = nil
	c.mu.Unlock()
}

// Understands reports whether words are a verb of zkCli with options and as many arguments as it wants.
func Understands(words []string) bool {
	v, known := verbs()[words[0]]
	if !known {
		return words[0] == "rmr"
	}
	in, err := parse(words, v.flags, v.valued, v.oneOf)
	return words[0] == "reconfig" || err == nil && len(in.args) >= v.least
}

// Usage returns what zkCli says about a verb and its arguments; empty if it has no such verb.
func Usage(name string) string {
	v, known := verbs()[name]
	if !known {
		return ""
	}
	return strings.TrimSpace(name + " " + v.usage)
}

// Options returns the options of a verb, "-s" for example.
func Options(name string) (options []string) {
	v := verbs()[name]
	for _, o := range v.flags + v.valued {
		options = append(options, "-"+string(o))
	}
	return options
}

// Connected reports whether there is a session, and how it is.
func (c *CLI) Connected() string {
	if c.session == nil {
		return "CLOSED"
	}
	if st, _ := c.session.State(); st.Phase != client.Connected {
		return strings.ToUpper(st.Phase.String())
	}
	return "CONNECTED"
}

// Lines returns how many lines have been done.
func (c *CLI) Lines() int { return len(c.history) }

// Line does one line. It returns ErrQuit if that is to be the last one; other errors have been printed.
func (c *CLI) Line(ctx context.Context, line string) error {
	words := Split(line)
	if len(words) == 0 {
		return nil
	}
	c.history = append(c.history, strings.TrimRight(line, "\r\n"))
	return c.do(ctx, words)
}

// Run does one command that stands on the command line, and returns the exit status.
func (c *CLI) Run(ctx context.Context, words []string) int {
	c.do(ctx, words)
	return c.status
}

// Status returns the exit status of the last line that was not quit.
func (c *CLI) Status() int { return c.status }

// A verb is one of zkCli's.
type verb struct {
	usage         string
	flags, valued string // options
	oneOf         bool   // of the options
	least         int    // arguments
	alone         bool   // needs no session
	run           func(*CLI, context.Context, call) error
}

// verbs are those that need a session. It is a function because help lists them.
func verbs() map[string]verb {
	return map[string]verb{
		"addWatch":             {usage: "[-m mode] path # optional mode is one of [PERSISTENT, PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE", valued: "m", least: 1, run: (*CLI).addWatch},
		"addauth":              {usage: "scheme auth", least: 2, run: (*CLI).addAuth},
		"close":                {alone: true, run: (*CLI).closeVerb},
		"config":               {usage: "[-c] [-w] [-s]", flags: "cws", run: (*CLI).config},
		"connect":              {usage: "host:port", alone: true, run: (*CLI).connect},
		"create":               {usage: "[-s] [-e] [-c] [-t ttl] path [data] [acl]", flags: "sec", valued: "t", least: 1, run: (*CLI).create},
		"delete":               {usage: "[-v version] path", valued: "v", least: 1, run: (*CLI).delete},
		"deleteall":            {usage: "path [-b batch size]", valued: "b", least: 1, run: (*CLI).deleteAll},
		"delquota":             {usage: "[-n|-b|-N|-B] path", flags: "nbNB", oneOf: true, least: 1, run: (*CLI).delQuota},
		"get":                  {usage: "[-s] [-w] path", flags: "sw", least: 1, run: (*CLI).get},
		"getAcl":               {usage: "[-s] path", flags: "s", least: 1, run: (*CLI).getACL},
		"getAllChildrenNumber": {usage: "path", least: 1, run: (*CLI).allChildren},
		"getEphemerals":        {usage: "path", run: (*CLI).ephemerals},
		"history":              {alone: true, run: (*CLI).showHistory},
		"listquota":            {usage: "path", least: 1, run: (*CLI).listQuota},
		"ls":                   {usage: "[-s] [-w] [-R] path", flags: "swR", least: 1, run: (*CLI).ls},
		"printwatches":         {usage: "on|off", alone: true, run: (*CLI).printWatches},
		"quit":                 {alone: true, run: func(*CLI, context.Context, call) error { return ErrQuit }},
		"reconfig": {usage: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
			alone: true, run: (*CLI).reconfig},
		"redo":          {usage: "cmdno", least: 1, alone: true, run: (*CLI).redo},
		"removewatches": {usage: "path [-c|-d|-a] [-l]", flags: "cdal", least: 1, run: (*CLI).removeWatches},
		"set":           {usage: "[-s] [-v version] path data", flags: "s", valued: "v", least: 2, run: (*CLI).set},
		"setAcl":        {usage: "[-s] [-v version] [-R] path acl", flags: "sR", valued: "v", least: 2, run: (*CLI).setACL},
		"setquota":      {usage: "-n|-b|-N|-B val path", valued: "nbNB", oneOf: true, least: 1, run: (*CLI).setQuota},
		"stat":          {usage: "[-w] path", flags: "w", least: 1, run: (*CLI).stat},
		"sync":          {usage: "path", least: 1, run: (*CLI).sync},
		"version": {alone: true, run: func(c *CLI, _ context.Context, _ call) error {
			c.outf("ZooKeeper CLI version: %s\n", c.Version)
			return nil
		}},
		"whoami": {run: (*CLI).whoAmI},
	}
}

// Verbs returns the names of all verbs, sorted.
func Verbs() []string {
	var names []string
	for name := range verbs() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *CLI) do(ctx context.Context, words []string) error {
	name := words[0]
	if name != "quit" {
		c.status = ok
	}
	if name == "rmr" { // as before 3.5
		name = "deleteall"
	}
	v, known := verbs()[name]
	if !known {
		c.help()
		c.errf("Command not found: Command not found %s\n", words[0])
		c.status = commandNotFound
		return nil
	}
	in, err := call{args: words[1:]}, error(nil)
	if name != "reconfig" {
		in, err = parse(words, v.flags, v.valued, v.oneOf)
	}
	switch {
	case err != nil:
	case len(in.args) < v.least:
		c.errf("%s %s\n", name, v.usage)
		c.status = failed
		return nil
	case c.session == nil && !v.alone:
		c.outf("Not connected\n") // no failure for the real one either
		return nil
	default:
		if len(in.args) > 0 && c.Resolve != nil && strings.Contains(v.usage, "path") {
			in.args[0] = c.Resolve(in.args[0])
		}
		if c.WhileServed != nil && !v.alone {
			served, stop := c.WhileServed(ctx, c.session)
			defer stop()
			ctx = served
		}
		err = v.run(c, ctx, in)
	}
	if errors.Is(err, ErrQuit) {
		c.Close(ctx)
		return err
	}
	if err != nil {
		c.errf("%s\n", ztree.Escape(message(err)))
		c.status = failed
	}
	return nil
}

func (c *CLI) help() {
	c.errf("ZooKeeper -server host:port -client-configuration properties-file cmd args\n")
	all := verbs()
	for _, name := range Verbs() {
		c.errf("\t%s %s\n", name, all[name].usage)
	}
}

func (c *CLI) outf(format string, args ...any) { c.write(c.Out, format, args...) }
func (c *CLI) errf(format string, args ...any) { c.write(c.Err, format, args...) }

func (c *CLI) write(w io.Writer, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(w, format, args...)
}

// event prints what a watcher is told, unless that is turned off.
func (c *CLI) event(state, typ, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.quiet {
		fmt.Fprintf(c.Out, "\nWATCHER::\n\nWatchedEvent state:%s type:%s path:%s\n", state, typ, ztree.Escape(path))
	}
}

func (c *CLI) closeVerb(ctx context.Context, _ call) error {
	c.Close(ctx)
	return nil
}

func (c *CLI) connect(ctx context.Context, in call) error {
	servers := c.Servers
	if len(in.args) > 0 {
		servers = in.args[0]
	}
	return c.Connect(ctx, servers)
}

func (c *CLI) showHistory(context.Context, call) error {
	for i := max(len(c.history)-historyShown, 0); i < len(c.history); i++ {
		c.outf("%d - %s\n", i, c.history[i])
	}
	return nil
}

func (c *CLI) redo(ctx context.Context, in call) error {
	n, err := strconv.Atoi(in.args[0])
	if err != nil {
		return fmt.Errorf("redo cmdno: %q is not a number", in.args[0]) // the real one ends with an exception
	}
	if n < 0 || n >= len(c.history)-1 {
		c.errf("Command index out of range\n")
		c.status = failed
		return nil
	}
	words := Split(c.history[n])
	if words[0] == "redo" {
		c.errf("No redoing redos\n")
		c.status = failed
		return nil
	}
	c.history[len(c.history)-1] = c.history[n]
	return c.do(ctx, words)
}

func (c *CLI) printWatches(_ context.Context, in call) error {
	c.mu.Lock()
	if len(in.args) > 0 {
		c.quiet = in.args[0] != "on"
	}
	state := map[bool]string{false: "on", true: "off"}[c.quiet]
	c.mu.Unlock()
	if len(in.args) == 0 {
		c.outf("printwatches is %s\n", state)
	}
	return nil
}

func (c *CLI) reconfig(context.Context, call) error {
	if c.session == nil {
		c.outf("Not connected\n")
		return nil
	}
	return errors.New("reconfig is not offered here: change the ensemble with the zkCli of its own version")
}
