//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestConfigIsWrittenReadAndFollowed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("config", "get", "orders").want(66, "no such configuration")
	h.run("config", "set", "orders", "rate=1").want(0)
	if got := h.run("config", "get", "orders").want(0).stdout.String(); got != "rate=1" {
		t.Errorf("config get prints %q", got)
	}
	w := h.start("config", "watch", "orders")
	w.see("rate=1\n")
	x := h.start("config", "watch", "orders", "--exec", `echo "$LOCKKEEPER_CONFIG_PATH:$LOCKKEEPER_CONFIG_VERSION:$(cat)"`)
	x.see("/lockkeeper/config/orders:0:rate=1\n")
	h.run("config", "set", "orders", "rate=2", "--version", "0").want(0)
	w.see("rate=2\n")
	x.see("/lockkeeper/config/orders:1:rate=2\n")
	h.run("config", "set", "orders", "rate=3", "--version", "0").want(75, "does not have version 0")
	h.run("config", "set", "new", "rate=3", "--version", "-2").want(64, "--version -2: a version is a number from 0, and -1 is any")
	h.startWith(input(""), "config", "set", "orders", "-").want(64, "standard input is empty")
	h.run("config", "watch", "orders", "--exec", "").want(64, "--exec: is empty")
	h.run("config", "set", "new", "-5").want(64, "a value that begins with a dash stands behind --")
	h.run("config", "get", "orders/a").want(64, "write /lockkeeper/config/orders/a for a configuration below the named ones")
	h.run("config", "watch", "orders", "--json", "--exec", "true").want(64, "--json and --exec")
	var line configLine
	if err := json.Unmarshal([]byte(h.run("config", "get", "orders", "--json").want(0).stdout.String()), &line); err != nil {
		t.Fatal(err)
	}
	if line.Text == nil || *line.Text != "rate=2" || line.Version != 1 || line.Writer == nil || line.Writer.Label != "lockkeeper config set" {
		t.Errorf("config get --json: %+v, writer %+v", line, line.Writer)
	}
	w.signal(syscall.SIGINT)
	w.wantInterrupted()
	x.signal(syscall.SIGINT)
	x.wantInterrupted()
}

// A command of --exec that runs when config watch is ended is told to end, with all that it has started.
func TestACommandOfAConfigurationEndsWithTheWatch(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("config", "set", "orders", "rate=1").want(0)
	w := h.start("config", "watch", "orders", "--exec", `trap 'echo told; exit' TERM; sleep 1000 & echo $!; wait`)
	w.see("\n")
	pid, err := strconv.Atoi(strings.TrimSpace(w.stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	w.signal(syscall.SIGTERM)
	w.see("told\n")
	w.want(143)
	wantGone(t, pid)
}

// What config get writes is what config set was given, whatever the bytes.
func TestAConfigurationThatIsNoTextIsReadAsItIsStored(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const data = "\xff\x00abc"
	j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin = strings.NewReader(data) }, "config", "set", "bin", "-")
	j.want(0)
	if got := h.run("config", "get", "bin").want(0).stdout.String(); got != data {
		t.Errorf("config get prints %q, want %q", got, data)
	}
	if got := h.run("config", "get", "bin", "--json").want(0).stdout.String(); !strings.Contains(got, `"data":"/wBhYmM="`) {
		t.Errorf("config get --json prints %s", got)
	}
}

// No server has refused it, and none is missing.
func TestAConfigurationThatIsTooLargeIsWrongUsage(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, size := range []int{1<<20 - 100, 3 << 20} {
		h.startWith(input(strings.Repeat("x", size)), "config", "set", "large", "-").want(64, "store /lockkeeper/config/large: message of")
	}
}

// A configuration goes with the name of its writer, and with nothing else.
func TestAConfigurationIsDeleted(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.steps("", []zStep{
		{line: "config rm orders", status: 66, err: "no such configuration"},
		{line: "config set orders 1"},
		{line: "config rm orders"},
		{line: "z ls /lockkeeper/config", out: ""},
		{line: "z create /plain 1", out: "/plain\n"},
		{line: "config set /plain 2"},
		{line: "z create /plain/below 1", out: "/plain/below\n"},
		{line: "config rm /plain", status: 1, err: "there are znodes below it"},
		{line: "z ls /plain", out: "_writer\nbelow\n"},
		{line: "config rm /plain/below"},
	})
}

// A server that is killed and comes back makes config watch run its command for what has changed since, and for nothing
// else.
func TestAConfigurationIsFollowedAcrossARestartOfTheServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("config", "set", "orders", "rate=0").want(0)
	x := h.start("config", "watch", "orders", "--exec", `echo "$LOCKKEEPER_CONFIG_VERSION:$(cat)"`)
	want := "0:rate=0\n"
	x.see(want)
	for _, change := range []string{"1:rate=1\n", "2:rate=2\n"} {
		keeper := h.keeperPid()
		syscall.Kill(keeper, syscall.SIGKILL)
		wantGone(t, keeper)
		h.run("config", "set", "orders", strings.TrimSpace(change[2:])).want(0)
		x.see(change)
		want += change
	}
	x.signal(syscall.SIGINT)
	x.wantInterrupted()
	if got := x.stdout.String(); got != want {
		t.Errorf("the command has printed %q, want %q", got, want)
	}
}

// What the user should know and what becomes of the session can be had as JSON, or not at all.
func TestALogOfACommandThatRunsForLong(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("config", "watch", "orders", "--log-format", "xml").want(64, "--log-format xml: not one of text and json")
	quiet := h.start("config", "watch", "orders", "-q")
	loud := h.start("config", "watch", "orders", "--log-format", "json", "--log-level", "info")
	if err := loud.stderr.see("it does not exist"); err != nil {
		t.Fatal(err)
	}
	h.run("config", "set", "orders", "1").want(0)
	quiet.see("1\n")
	loud.see("1\n")
	for _, j := range []*job{quiet, loud} {
		j.signal(syscall.SIGINT)
		j.wantInterrupted()
	}
	said := map[string]string{} // the level of each message
	for line := range strings.Lines(loud.stderr.String()) {
		var entry struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		said[entry.Msg] = entry.Level
	}
	if said["config watch /lockkeeper/config/orders: it does not exist, or has no data (waiting for it)"] != "WARN" || said["zookeeper session"] != "INFO" {
		t.Errorf("the log: %v", said)
	}
	if got := quiet.stderr.String(); got != "" {
		t.Errorf("config watch -q says %q", got)
	}
}

func TestAMemberStaysWhileItsCommandRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	w := h.start("members", "workers", "--watch", "--json")
	w.see("[]\n")
	j := h.start("join", "workers", "--id", "w1", "--data", "10.0.0.7", "--", "sh", "-c", `trap 'exit 7' TERM; echo up; while :; do sleep 0.02; done`)
	j.see("up")
	w.see(`"text":"10.0.0.7"`)
	if got := h.run("members", "workers").want(0).stdout.String(); !strings.Contains(got, "w1") {
		t.Errorf("members prints %q", got)
	}
	j.signal(syscall.SIGTERM)
	j.want(7)
	if got := h.run("members", "workers", "--json").want(66).stdout.String(); got != "[]\n" {
		t.Errorf("after the command has ended, members prints %q", got)
	}
	h.run("join", "workers", "--", "no-such-program").want(127)
	h.run("join", "workers", "--", "sh", "-c", "kill -KILL $$").want(137)
	h.run("join", "workers").want(64, "no -- in front of the command")
	h.run("join", "workers", "--id", "a/b", "--", "true").want(64, "--id a/b: a name has no slash")
	h.run("join", "workers", "--id", "a\nb", "--", "true").want(64, `--id "a\nb" cannot be used`)
	h.run("register", "orders", "--id", "a/b", "--port", "1", "--", "true").want(64, "--id a/b: a name has no slash")
	h.run("register", "orders", "--id", "a\nb", "--port", "1", "--", "true").want(64, `--id "a\nb" cannot be used`)
	h.run("members", "workers").want(66, "members /lockkeeper/groups/workers: the group has no member")
}

// The command of join and register finds the servers for which its credentials are.
func TestACommandOfARoleFindsTheServers(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.env = append(h.env, "LOCKKEEPER_SERVERS=localhost:1")
	auth := h.put("auth", "digest:u:secret\n")
	for _, role := range []string{"join", "register --port 1"} {
		args := append(strings.Fields(role), "--servers", srv.Addr(), "--auth-file", auth, "g", "--", "sh", "-c", "echo $LOCKKEEPER_SERVERS $LOCKKEEPER_AUTH_FILE")
		if got, want := h.run(args...).want(0).stdout.String(), srv.Addr()+" "+auth+"\n"; got != want {
			t.Errorf("the command of %s finds %q, want %q", role, got, want)
		}
	}
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, serversVariable+"=") })
	h.env = append(h.env, configVariable+"="+h.put("client.conf", "servers = "+srv.Addr()+"\n"))
	const tell = `exec "$LK" join --servers local g -- sh -c 'echo $LOCKKEEPER_SERVERS'`
	for command, want := range map[string]string{"join g": "local\n", "run demo": "unix:/"} { // under a lock it is the keeper's socket
		args := append(strings.Fields(command), "--servers", "local", "--", "sh", "-c", tell)
		if got := h.run(args...).want(0).stdout.String(); !strings.HasPrefix(got, want) {
			t.Errorf("with servers in client.conf, the command of join --servers local under %s finds %q, want %q", command, got, want)
		}
	}
}

func TestAnInstanceIsRegisteredWhileItIsHealthy(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var ill atomic.Bool
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if ill.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer health.Close()
	h.run("discover", "orders").want(66, "no instance")
	for _, command := range []string{"discover", "members", "locks"} {
		if got := h.run(command, "--json", "nix").stdout.String(); got != "[]\n" {
			t.Errorf("%s --json of nothing prints %q", command, got)
		}
	}
	j := h.start("register", "orders", "--id", "i1", "--address", "10.0.0.7", "--port", "8080", "--check", health.URL, "--check-interval", "100ms", "--", "sleep", "1000")
	w := h.start("discover", "orders", "--watch", "--json")
	w.see(`"id":"i1","address":"10.0.0.7","port":8080`)
	h.run("discover", "orders").want(0)
	ill.Store(true)
	h.unregistered("orders")
	if err := j.stderr.see("the check fails"); err != nil {
		t.Error(err)
	}
	ill.Store(false)
	if err := j.stderr.see("succeeds again"); err != nil {
		t.Error(err)
	}
	h.registered("orders")
	j.signal(syscall.SIGTERM)
	j.want(128 + int(syscall.SIGTERM))
	h.run("discover", "orders").want(66)
}

// The time of a registration is its client's word, and what one has written does not take the others away.
func TestAnInstanceOfAnOddTime(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	for id, at := range map[string]string{"a": "1700000000000000000", "b": "0"} { // milliseconds are meant
		h.run("z", "create", "-p", "/lockkeeper/services/orders/"+id, `{"name":"orders","id":"`+id+`","address":"h","port":1,"registrationTimeUTC":`+at+`}`).want(0)
	}
	h.run("discover", "orders").want(0)
	var lines []instanceLine
	if err := json.Unmarshal([]byte(h.run("discover", "orders", "--json").want(0).stdout.String()), &lines); err != nil {
		t.Fatal(err)
	}
	if len(lines) != 2 || !lines[0].Registered.IsZero() || !lines[1].Registered.Equal(time.UnixMilli(0)) {
		t.Errorf("discover --json: %+v", lines)
	}
}

func TestAServiceIsCheckedByACommand(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("register", "orders", "--port", "8080", "--check", "test -e "+h.dir+"/healthy", "--check-interval", "100ms", "--", "sleep", "1000")
	if err := j.stderr.see("the check fails"); err != nil {
		t.Fatal(err)
	}
	h.run("discover", "orders").want(66)
	if err := os.WriteFile(h.dir+"/healthy", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.registered("orders")
	j.signal(syscall.SIGTERM)
	j.want(128 + int(syscall.SIGTERM))
	h.run("register", "orders", "--", "true").want(64, "no port")
	h.run("register", "orders", "--port", "1", "--check", "", "--", "true").want(64, "register: --check: is empty")
	h.run("register", "a/b", "--port", "1", "--", "true").want(64, "no slash")
	h.run("register", "orders", "--port", "70000", "--", "true").want(64, "65535")
}

// registered waits until a service has an instance, unregistered until it has none.
func (h *home) registered(name string)   { h.t.Helper(); h.discovered(name, 0) }
func (h *home) unregistered(name string) { h.t.Helper(); h.discovered(name, 66) }

func (h *home) discovered(name string, status int) {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if h.run("discover", name).status() == status {
			return
		}
	}
	h.t.Fatalf("discover %s has never ended with status %d", name, status)
}

// The error says what was waited for, and for how long.
func TestAnAnswerThatIsOverdueIsNamed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	servers := muteServer(t, time.Minute)
	var jobs []*job
	for _, args := range [][]string{{"config", "get", "x"}, {"config", "set", "x", "y"}, {"config", "watch", "x"}, {"members", "x"}, {"discover", "x"}} {
		jobs = append(jobs, h.start(append(args, "--servers", servers, "--connect-timeout", "5s")...))
	}
	for _, j := range jobs {
		j.want(69, "no answer within 5s")
	}
}

// What is watched is printed when it has changed, and a server that is away is told of: nothing else says that the list may be old.
func TestAWatchTellsOfOutages(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.run("z", "create", "-p", "/lockkeeper/config/c", "v").want(0)
	watches := map[string]*job{}
	for _, command := range []string{"members g", "discover s", "config watch c"} {
		words := strings.Fields(command)
		watches[command] = h.start(append(words, "--json")...)
		if words[0] != "config" {
			watches[command] = h.start(append(words, "--json", "--watch")...)
			watches[command].see("[]")
		} else {
			watches[command].see(`"text":"v"`)
		}
	}
	srv.Link("").Refuse()
	for command, j := range watches {
		if err := j.stderr.see("lockkeeper: no server since "); err != nil {
			t.Errorf("%s: %v", command, err)
		}
	}
	srv.Link("").Heal()
	for command, j := range watches {
		if err := j.stderr.see("lockkeeper: there is a server again"); err != nil {
			t.Errorf("%s: %v", command, err)
		}
		j.signal(syscall.SIGTERM)
		j.status()
		if lines := strings.Count(j.stdout.String(), "\n"); lines != 1 {
			t.Errorf("%s prints %d lines, want one: %s", command, lines, j.stdout.String())
		}
	}
}
