//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What waits for changes ends with the reader of what it prints, not with the change after that.
func TestAWatchEndsWithItsReader(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	h.run("run", "demo", "--", "true").want(0)
	h.run("config", "set", "orders", "1").want(0)
	for _, command := range []string{"locks --watch demo", "config watch orders", "members --watch workers", "discover --watch web --json"} {
		t.Run(command, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.SetReadDeadline(time.Now().Add(limit))
			j := h.startWith(func(cmd *exec.Cmd) { cmd.Stdout = w }, strings.Fields(command)...)
			w.Close()
			if _, err := r.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			r.Close()
			j.wantEndedBy(syscall.SIGPIPE)
		})
	}
}
