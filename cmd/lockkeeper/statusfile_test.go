//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A command's own 75 and 74 are told apart from ours by the status file.
func TestF42_StatusFile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := h.dir + "/status"
	outcome := func() (o outcomeLine) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &o)
		}
		if err != nil {
			t.Fatalf("%v: %q", err, b)
		}
		return o
	}
	h.run("run", "--status-file", path, "demo", "--", "sh", "-c", "exit 75").want(75)
	if o := outcome(); o.Outcome != "ran" || o.Status != 75 || o.Token == 0 || o.Command == nil || o.Command.Exit != 75 {
		t.Errorf("the command's own 75: %+v", o)
	}
	h.run("run", "--status-file", path, "demo", "--", "no-such-program-in-path").want(127)
	if o := outcome(); o.Outcome != "not-executable" || o.Status != 127 || o.Command != nil || !strings.Contains(o.Message, "no-such-program") {
		t.Errorf("a command that is not found: %+v", o)
	}
	for _, mistake := range [][]string{{"--wait", "-1s", "demo"}, {""}} {
		h.run(append(append([]string{"run", "--status-file", path}, mistake...), "--", "true")...).want(64)
		if o := outcome(); o.Outcome != "failed" || o.Status != 64 || o.Command != nil || o.Message == "" {
			t.Errorf("the mistake %q: %+v", mistake, o)
		}
	}
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	h.run("run", "--status-file", path, "--wait", "0", "demo", "--", "true").want(75)
	if o := outcome(); o.Outcome != "busy" || o.Status != 75 || o.Command != nil || o.Message == "" {
		t.Errorf("busy: %+v", o)
	}
	quiet := h.run("run", "--status-file", path, "--wait", "0", "--busy-code", "0", "demo", "--", "true").want(0)
	if o := outcome(); quiet.stderr.String() != "" || o.Outcome != "busy" || o.Status != 0 || o.Message == "" {
		t.Errorf("busy, and no failure: %+v, and standard error has %q", o, quiet.stderr.String())
	}
	waiter := h.start("run", "--status-file", path, "--lost-code", "9", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	h.held("demo", 2)
	holder.signal(syscall.SIGTERM)
	waiter.see("up")
	h.run("break", "--force", "demo").want(0, "put", "out")
	waiter.want(9, "the lock on demo was lost")
	if o := outcome(); o.Outcome != "lost" || o.Status != 9 || o.Command == nil || o.Command.Signal != "SIGKILL" {
		t.Errorf("lost: %+v", o)
	}
	// A descriptor will do, too.
	j := h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `"$LK" run --status-file /dev/fd/3 demo -- true 3>&- 3>&1`}
	})
	j.want(0)
	if !strings.Contains(j.stdout.String(), `"outcome":"ran"`) {
		t.Errorf("through a descriptor: %q", j.stdout)
	}
	// It goes where the descriptor stands: what is in its file stays.
	log := filepath.Join(t.TempDir(), "log")
	for _, script := range []string{
		`exec 3>>` + log + `; echo before >&3; "$LK" run --status-file /dev/fd/3 demo -- sh -c 'echo command >&3'; echo after >&3`,
		`exec >` + log + `; echo before; "$LK" run --status-file /dev/stdout demo -- echo command; echo after`,
	} {
		j := h.startWith(func(c *exec.Cmd) { c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script} })
		j.want(0)
		b, err := os.ReadFile(log)
		if lines := strings.Split(string(b), "\n"); err != nil || len(lines) != 5 || lines[0] != "before" || lines[1] != "command" ||
			!strings.HasPrefix(lines[2], `{"outcome":"ran"`) || lines[3] != "after" {
			t.Errorf("%s: %v, %q", script, err, b)
		}
		os.Remove(log)
	}
	h.run("run", "--status-file", "", "demo", "--", "true").want(64, "--status-file: is empty")
	h.run("run", "--status-file", "/dev/fd/77", "demo", "--", "true").want(73, "/dev/fd/77: bad file descriptor")
	h.startWith(func(c *exec.Cmd) { c.Env = append(c.Env, "LOCKKEEPER_CONFIG=/no/such/file") }, "run", "--status-file", path, "demo", "--", "true").want(78)
	if o := outcome(); o.Outcome != "failed" || o.Status != 78 {
		t.Errorf("a client configuration that is not there: %+v", o)
	}
}
