//go:build linux

package main

import (
	"strings"
	"testing"
)

// runHelpLinesMax is how many lines a screen has for the help of run.
const runHelpLinesMax = 60

func TestRunHelpFitsOnAScreen(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	help := h.run("run", "--help").want(0).stdout.String()
	if n := strings.Count(help, "\n"); n > runHelpLinesMax {
		t.Errorf("run --help has %d lines, more than %d", n, runHelpLinesMax)
	}
	for topic, words := range map[string][]string{
		"exit-codes":  {"   76  ", "--status-file"},
		"signals":     {"setsid", "--revocable", "lk-guard"},
		"environment": {"LOCKKEEPER_TOKEN", "LOCKKEEPER_TLS_CA"},
	} {
		if !strings.Contains(help, "help "+topic) {
			t.Errorf("run --help does not name the topic %s", topic)
		}
		page := h.run("help", topic).want(0).stdout.String()
		for _, w := range words {
			if !strings.Contains(page, w) {
				t.Errorf("help %s has no %q:\n%s", topic, w, page)
			}
		}
	}
}

func TestEachCommandHasAnExample(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if cmd.Runnable() && !cmd.Hidden && cmd.Name() != "help" && cmd.Name() != "completion" && !strings.Contains(cmd.Example+cmd.Long, "  lockkeeper ") {
			t.Errorf("lockkeeper %s --help shows no example", cmd.Name())
		}
	}
}

func TestVersionIsTheRelease(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	if v := h.run("version").want(0).stdout.String(); !strings.HasPrefix(v, "lockkeeper 0.1.0 ") {
		t.Errorf("version says %q", v)
	}
}

func TestEachCommandTakesAConnectTimeout(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("locks", "--servers=127.0.0.1:1", "--connect-timeout=200ms").want(69, "within 200ms")
	h.run("members", "a", "--servers=127.0.0.1:1", "--connect-timeout=200ms").want(69, "within 200ms")
	h.run("locks", "--connect-timeout=0s").want(64, "--connect-timeout 0s")
	h.run("run", "--connect-timeout=0s", "a", "--", "true").want(64, "--connect-timeout 0s")
}
