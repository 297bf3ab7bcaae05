//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// shellAt starts a shell at a terminal.
func shellAt(t *testing.T, h *home, flags ...string) (*ptytest.Terminal, *job) {
	t.Helper()
	term := ptytest.Open(t)
	slave := term.Slave()
	t.Cleanup(func() { slave.Close() })
	j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave }, append([]string{"shell"}, flags...)...)
	return term, j
}

// colour is what the terminal is told to write in a colour; ESC [ 30 D moves.
var colour = regexp.MustCompile(`\x1b\[3[0-9]m`)

func TestShellAtATerminal(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	other := zktest.New(t, zktest.Options{})
	h.env = append(h.env, "NO_COLOR=1", "XDG_CONFIG_HOME="+h.dir+"/config")
	if err := os.MkdirAll(h.dir+"/config/lockkeeper", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.dir+"/config/lockkeeper/connections", []byte("# ours\nprod "+other.Addr()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	term, j := shellAt(t, h)
	at := func(prompt string) string { t.Helper(); return term.WaitFor(prompt) }
	name := srv.Addr()
	at(name + ":/> ")
	for _, step := range []struct{ keys, shows, prompt string }{
		{"crea\t-p /app/config one\r", "create -p /app/config one", ":/> "},
		{"cd /a\tconf\t\r", "/app/config", ":/app/config> "},
		{"get .\r", "one\r\n", ":/app/config> "},
		{"cd ..\r", "", ":/app> "},
		{"set config two\r", "", ":/app> "},
		{"get config --st\t\r", "dataVersion = 1", ":/app> "},
		{"cd -\r", "", ":/app/config> "},
		{"cd\r", "", ":/> "},
		{"get -s /app/config\r", "two\r\ncZxid = 0x", ":/> "},
		{"getAcl app\r", "'world,'anyone", ":/> "},
		{"ls /\t\t", "app  zookeeper", ""},
		{"\x03", "", ":/> "}, // ^C clears the line
		{"history\r", "getAcl app", ":/> "},
		{"redo 1\r", "", ":/app/config> "},
		{"cd\r", "", ":/> "},
		{"get /missing\r", "get /missing: no such znode", ":/> "},
		{"frob\r", `there is no command "frob"`, ":/> "},
		{"get 'x\r", "a quote is not closed", ":/> "},
		{"whoami\r", "session 0x", ":/> "},
		{"addauth digest ann:secret\r", "", ":/> "},
		{" 'addauth' digest bob:secret\r", "", ":/> "},
		{"whoami\r", "digest:ann", ":/> "},
		{"watch -R /\r", "", ":/> "},
		{"create -e -s /app/n- x\r", "created  /app/n-0000000001", ":/> "},
		{"create '/app/a b'\r", "", ":/> "},
		{"stat /app/a\t\r", `/app/a\ b`, ":/> "},
		{"unwatch /nope\r", "it is not watched", ":/> "},
		{"unwatch\r", "", ":/> "},
		{"create -e /app/mine\r", "/app/mine", ":/> "},
		{"rm -r /app\r", "/app/mine of the live session", "Delete? [y/N] "},
		{"n\r", "not done", ":/> "},
		{"connect prod\r", "", "prod:/> "},
		{"ls\r", "zookeeper", "prod:/> "},
		{"create /there\r", "/there", "prod:/> "},
		{"connections\r", "* prod", "prod:/> "},
		{"connect " + name + "\r", "", name + ":/> "},
		{"rmr /app\r", "", "Delete? [y/N] "},
		{"y\r", "znodes deleted", ":/> "},
		{"get / > file\r", "> is not for this shell", ":/> "},
		{"ls / true\r", "zookeeper", ":/> "},
		{"? get\r", "byte for byte", ":/> "},
		{"ls\r", "zookeeper", ":/> "},
		{"close prod\r", "", ":/> "},
		{"help\r", "zkCli's verbs are understood as well", ":/> "},
		{"help get\r", "Usage:\r\n  get PATH [flags]\r\n\r\nExamples:\r\n  get /app/config\r\n\r\n", ":/> "},
	} {
		term.Type(step.keys)
		shown := term.WaitFor(step.shows)
		if step.prompt != "" {
			shown += step.shows + at(step.prompt)
		}
		if colour.MatchString(shown) {
			t.Errorf("%q: colours in spite of NO_COLOR: %q", step.keys, shown)
		}
	}
	term.Type("quit\r")
	j.want(0)
	if got := other.Tree("/"); len(got) == 0 {
		t.Error("prod has no znodes")
	}

	// The history is kept, without the credential.
	kept, err := os.ReadFile(h.dir + "/state/lockkeeper/shell-history")
	if err != nil || strings.Contains(string(kept), "secret") || !strings.Contains(string(kept), "help get") {
		t.Errorf("the history file: %q, %v", kept, err)
	}
	h.env = append(h.env, "NO_COLOR=", "TERM=xterm")
	term, j = shellAt(t, h)
	term.WaitFor("\x1b[34m/\x1b[0m> ") // now with colours
	term.Type("\x1b[A\x1b[A\r")        // up, up
	term.WaitFor("byte for byte")
	term.WaitFor("> ")
	term.Type("\x04")
	j.want(0)
}

func TestShellScript(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.steps("shell", []zStep{
		{in: "create -p /a/b x\ncd a\nget b\n# nothing\nset b 'y z'\nget b\nquit\nget /nope\n", out: "/a/b\nx\ny z"},
		{in: "get /nope\ncreate /never\n", status: 1, err: "line 1: get /nope: no such znode"},
		{in: "ls /never\n", status: 1, err: "line 1"},
		{in: "deleteall /a\nls /\n", out: "zookeeper\n"},
		{in: "create -p /e x\nset /e\nls /\n", status: 64, out: "/e\n", err: "in the shell the data is an argument"},
		{in: "rm -\n/e\n", status: 64, err: "in the shell the paths are arguments"},
		{in: "import -\n/e\n", status: 64, err: "in the shell the export is in a file"},
		{in: "get /e\nrm /e\n", out: "x"},
		{in: "cd /missing", status: 1, err: "cd /missing: no such znode"},
		{in: "cd a b", status: 64, err: "it is cd [PATH]"},
		{in: " addauth digest ann:secret\n'addauth' digest bob:secret\nhistory\n", out: "   0  addauth …\n   1  addauth …\n   2  history\n"},
		{in: "redo 7", status: 64, err: "there is no such line"},
		{in: "connect zk://x", status: 64, err: "a server is host:port"},
		{in: "close\nls", status: 64, err: "there is no connection"},
		{in: "sync\n", status: 64, err: "sync: it is sync path"},
		{in: "help sync\n", out: "sync path\n  As in ZooKeeper's zkCli\n"},
		{in: "help pwd\nhelp mv\n", out: "pwd\n  Show where we are\nMove a tree…"},
		{in: "create /open x --with-acl ''\n", status: 64, err: "line 1: create: --with-acl: is empty"},
		{in: "z ls /\n", status: 64, err: "in the shell a verb stands alone"},
		{in: "ls nosuch:/x", status: 64, err: "connections has no line for nosuch (connect HOST:PORT goes to other servers;"},
		{in: "rm -r /\n", status: 64, err: "use --force"},
		{in: "rm -r /zookeeper\n", status: 64, err: "rm /zookeeper: the znode is the servers' own"},
	})
}

// The session of a shell may expire while nothing is typed. The next line has a new one, and is told so.
func TestShellAfterAnExpiredSession(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	term, j := shellAt(t, h)
	term.WaitFor("> ")
	term.Type("create -e /mine\r")
	term.WaitFor("/mine")
	term.WaitFor("> ")
	srv.Link("").Expire()
	term.Type("ls /\r")
	term.WaitFor("session expired")
	term.WaitFor("> ")
	term.Type("ls /\r")
	term.WaitFor("this is a new one")
	term.WaitFor("zookeeper")
	term.Type("quit\r")
	j.want(0)
}

// A line waits for a server as long as --connect-timeout says, also for one that was lost.
func TestShellLooksForAServerAsLongAsItWasTold(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	lines, typed := io.Pipe()
	j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin = lines }, "shell", "--connect-timeout", "5s")
	fmt.Fprintln(typed, "ls /")
	j.see("zookeeper")
	srv.Link("").Refuse()
	fmt.Fprintln(typed, "ls /")
	typed.Close()
	j.want(69, "no server for 5s")
}

// A watch that is to go on beside the lines that follow waits for its beginning no longer than another line.
func TestShellWatchWithoutAServerEnds(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.env = append(h.env, "NO_COLOR=1")
	term, j := shellAt(t, h, "--connect-timeout", "5s")
	term.WaitFor(":/> ")
	srv.Link("").Refuse()
	term.Type("watch /\r")
	term.WaitFor("no server for 5s")
	term.WaitFor("):/> ")
	srv.Link("").Heal()
	term.Type("quit\r")
	j.want(0)
}

// A question keeps the terminal until it is answered: the next line of the shell is read from there.
func TestAQuestionInTheShellEndsWithItsAnswer(t *testing.T) {
	t.Parallel()
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	fillWide(t, s, 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("no server")
	in, answer := io.Pipe()
	e := &zEnv{in: in, notes: writerFunc(func() {}), keyboard: true, lasting: true}
	done := make(chan error, 1)
	go func() { done <- e.remove(ctx, s, "/wide", removal{recursive: true, version: zk.AnyVersion}) }()
	fmt.Fprint(answer, "y") // which is read when the question has been asked
	cancel(lost)
	select {
	case err := <-done:
		t.Fatalf("it ended without an answer: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	fmt.Fprint(answer, "\n")
	if err := <-done; err != lost {
		t.Errorf("it ended with %v", err)
	}
	if _, there, err := s.Exists(t.Context(), "/wide"); !there || err != nil {
		t.Errorf("the znode is there: %v, %v", there, err)
	}
}

// Names are made by strangers. Tab puts nothing on the line that is not seen there as it is, and nothing that the terminal would obey.
func TestTabPutsOnlyVisibleTextOnTheLine(t *testing.T) {
	sh := &shell{now: &connection{name: "x", dir: "/"}}
	var out strings.Builder
	sh.out = &out
	for name, want := range map[string]string{
		"bid\u202ecod": "ls /bid", "e\x1b]0;title\a": "ls /e", "z\u200b": "ls /z", "half\xff": "ls /half",
	} {
		sh.now.listings = listingCache{dir: "/", names: []string{name, "other"}, at: time.Now()}
		line, pos, ok := sh.complete("ls /"+name[:1], 5)
		if !ok && len(want) > 5 || ok && (line != want || pos != len(want)) {
			t.Errorf("%q was completed to %q", name, line)
		}
		line, _, _ = sh.complete(want, len(want))
		if strings.ContainsFunc(line+out.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("%q: Tab wrote %q and %q", name, line, out.String())
		}
	}
}

// What Tab puts on the line, the shell does not take for what other shells do.
func TestTabEscapesWhatTheShellRefuses(t *testing.T) {
	sh := &shell{now: &connection{name: "x", dir: "/"}, out: io.Discard}
	sh.now.listings = listingCache{dir: "/", names: []string{"x|<y>1", "x|<y>2"}, at: time.Now()}
	const want = `get /x\|\<y\>`
	if line, _, ok := sh.complete("get /x", 6); !ok || line != want {
		t.Errorf("completed to %q, want %q", line, want)
	}
}

// BenchmarkCompletion is one Tab among 100,000 children that were not listed before.
func BenchmarkCompletion(b *testing.B) {
	srv := zktest.New(b, zktest.Options{})
	s := srv.Session(b, "shell")
	fillWide(b, s, 100_000)
	sh := &shell{out: b.Output(), now: &connection{name: "x", to: access.Settings{}, session: s, dir: "/"}}
	var worst time.Duration
	for b.Loop() {
		sh.now.listings = listingCache{}
		begin := time.Now()
		line, _, ok := sh.complete("get /wide/node-09999", 20)
		if took := time.Since(begin); took > worst {
			worst = took
		}
		if !ok && line != "" {
			b.Fatal(line)
		}
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
}

func fillWide(t testing.TB, s *client.Session, n int) {
	t.Helper()
	if _, err := s.Create(t.Context(), "/wide", nil, zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < n; {
		var ops []client.Op
		for end := min(i+1000, n); i < end; i++ {
			ops = append(ops, client.OpCreate(fmt.Sprintf("/wide/node-%06d", i), nil, zk.Persistent, nil))
		}
		if _, err := s.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
}
