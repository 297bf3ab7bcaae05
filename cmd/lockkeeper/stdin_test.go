//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A standard input that is closed is no data: what is there stays. One that is empty is.
func TestAClosedStandardInputIsNoData(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("z", "create", "/kept", "old").want(0)
	h.run("config", "set", "kept", "old").want(0)
	shell := func(script string) *job {
		return h.startWith(func(c *exec.Cmd) { c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script} })
	}
	for _, line := range []string{`"$LK" z set /kept`, `"$LK" config set kept -`, `"$LK" z import -`, `"$LK" z rm --force -`} {
		shell(line+" <&-").want(71, "read /dev/stdin: file already closed")
	}
	if got := h.run("z", "get", "/kept").want(0).stdout.String() + h.run("config", "get", "kept").want(0).stdout.String(); strings.Count(got, "old") != 2 {
		t.Errorf("what is there now: %q", got)
	}
	shell(`"$LK" z set /kept </dev/null`).want(0)
	if got := h.run("z", "get", "/kept").want(0).stdout.String(); strings.TrimSpace(got) != "" {
		t.Errorf("after an empty input: %q", got)
	}
}

// A script that cannot be read is not one that has ended.
func TestAScriptThatCannotBeReadFails(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	dir, err := os.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for _, command := range []string{"shell", "zkcli"} {
		h.startWith(func(c *exec.Cmd) { c.Stdin = dir }, command).want(71, "read /dev/stdin: is a directory")
	}
	h.startWith(input("pwd\n"+strings.Repeat("x", dataBytesMax)), "shell").want(64, "line 2: it has 16777216 bytes or more")
}
