//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
