//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
)

// A line of which a part would be dropped is refused, and the longest one that is read whole is done.
func TestALineThatWouldBeCutIsRefused(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.env = append(h.env, "NO_COLOR=1")
	for _, command := range []string{"shell", "zkcli"} {
		term := ptytest.Open(t)
		slave := term.Slave()
		defer slave.Close()
		j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave }, command)
		prompt := map[string]string{"shell": ":/> ", "zkcli": "(CONNECTED) 0] "}[command]
		term.WaitFor(prompt)
		create := "create /" + command + " "
		term.Type(create + strings.Repeat("x", lineMax) + "\r")
		term.WaitFor("a line of 4096 characters or more is not read at a terminal: nothing has been done")
		term.WaitFor(prompt)
		h.run("z", "get", "/"+command).want(1)
		whole := strings.Repeat("y", lineMax-1-len(create))
		term.Type(create + whole + "\r")
		term.WaitFor("/" + command + "\r\n")
		term.Type("quit\r")
		j.want(0)
		if got := h.run("z", "get", "/"+command).want(0).stdout.String(); got != whole {
			t.Errorf("%s: the data has %d bytes, want %d", command, len(got), len(whole))
		}
	}
}

// The history has no credentials, however addauth is written, and is not written through a link, nor into a directory of others.
func TestHistoryFile(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	file := historyFile("shell-history")
	h := lineHistory{file: file}
	for _, line := range []string{"ls /", `add"auth" digest ann:secret`, `\addauth digest ann:secret`, "ADDAUTH digest ann:secret", "get /"} {
		h.Add(line)
	}
	kept, err := os.ReadFile(file)
	if err != nil || string(kept) != "ls /\nget /\n" {
		t.Errorf("the history is %q, %v", kept, err)
	}

	victim := filepath.Join(t.TempDir(), "victim")
	for _, err := range []error{os.WriteFile(victim, []byte("theirs\n"), 0o600), os.Remove(file), os.Symlink(victim, file)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h = lineHistory{file: file}
	h.load()
	h.Add("stat /")
	kept, err = os.ReadFile(victim)
	if err != nil || string(kept) != "theirs\n" || strings.Contains(strings.Join(h.lines, "\n"), "theirs") {
		t.Errorf("through a link: the file is %q, %v, and the history %q", kept, err, h.lines)
	}

	err = os.Chmod(filepath.Join(state, "lockkeeper"), 0o777)
	if err != nil {
		t.Fatal(err)
	}
	if file := historyFile("shell-history"); file != "" {
		t.Errorf("in a directory that others can write to: %s", file)
	}
}
