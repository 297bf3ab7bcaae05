//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
)

// What it answers is compared with the real zkCli in test/interop/zkcli.
func TestZkcliCommandLine(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.steps("zkcli", []zStep{
		{line: "create /a one", out: "Connecting to …", err: "Created /a"},
		{line: "-server " + srv.Addr() + " get /a", out: "Connecting to " + srv.Addr() + "\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\none\n…"},
		{line: "-timeout 5000 -waitforconnection get /nope", status: 1, out: "Connecting…", err: "Node does not exist: /nope"},
		{line: "frob", status: 127, out: "Connecting…", err: "Command not found: Command not found frob"},
		{in: "rmr /a\nquit\nls /\n", out: "Connecting…"},
		{in: "ls /", out: "Connecting to " + srv.Addr() + "\nWelcome to ZooKeeper!\nJLine support is disabled\n\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null\n[zookeeper]\n…"},
		{in: "ls /nope", status: 1, out: "Connecting…", err: "Node does not exist: /nope"}, // as the last line
		{in: "frob\n\nquit\n", status: 127, out: "Connecting…", err: "Command not found frob"},
		{in: "ls /nope\nls /\nquit\n", out: "Connecting…", err: "Node does not exist: /nope"},
		{in: "redo 7\n", status: 1, out: "Connecting…", err: "Command index out of range"},
		{in: "ls /\nredo 0\nredo 1\n", out: "Connecting…"},
		{in: "close\nls /\n", out: "Connecting…"},
		{in: "create /b one\nset -- /b -5\n", out: "Connecting…", err: "Created /b"},
		{line: "-server", status: 64, err: "-server wants a value"},
		{line: "-timeout x ls /", status: 64, err: "it is a number of milliseconds"},
		{line: "-r ls /", status: 64, err: "read-only sessions are not offered"},
		{line: "-client-configuration f ls /", status: 64, err: "--tls-ca"},
		{line: "-server zk://a ls /", status: 64, err: "a server is host:port"},
		{line: "--frob x", status: 64, err: "unknown flag: --frob"},
		{line: "--help", out: "Take the lines of…"},
	})
	if got := h.run("z", "get", "/b").want(0).stdout.String(); got != "-5" { // what follows -- is an argument
		t.Errorf("/b has %q", got)
	}
}

func TestZkcliAtATerminal(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	term := ptytest.Open(t)
	slave := term.Slave()
	defer slave.Close()
	j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave }, "zkcli")
	term.WaitFor("[zk: " + srv.Addr() + "(CONNECTED) 0] ")
	term.Type("create /a one\r")
	term.WaitFor("Created /a")
	term.WaitFor("(CONNECTED) 1] ")
	term.Type("get -w /a\r")
	term.WaitFor("one")
	term.WaitFor("(CONNECTED) 2] ")
	h.run("z", "set", "/a", "two").want(0)
	term.WaitFor("type:NodeDataChanged path:/a") // above the prompt
	term.Type("removewatches /a\r")
	term.WaitFor("No such watcher for /a")
	term.Type("get -w /a\r")
	term.WaitFor("two")
	term.Type("removewatches -d /a\r")
	term.WaitFor("type:DataWatchRemoved path:/a")
	term.Type("close\r")
	term.WaitFor("(CLOSED) 6] ")
	term.Type("ls /\r")
	term.WaitFor("Not connected")
	term.Type("connect\r")
	term.WaitFor("(CONNECTED) 8] ")
	term.Type("quit\r")
	j.want(0)
	j = h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave }, "zkcli")
	term.WaitFor("(CONNECTED) 0] ")
	j.signal(syscall.SIGTERM)
	j.want(143)
}

// It waits neither for a line that does not come, once it is told to end, nor for ever for a server that was lost.
func TestZkcliEnds(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	lines, typed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer typed.Close()
	j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin = lines }, "zkcli", "--connect-timeout", "5s")
	lines.Close()
	fmt.Fprintln(typed, "ls /")
	j.see("[zookeeper]")
	srv.Link("").Refuse()
	fmt.Fprintln(typed, "ls /")
	if err := j.stderr.see("no server for 5s"); err != nil {
		t.Error(err)
	}
	j.signal(syscall.SIGTERM)
	j.want(143)
}
