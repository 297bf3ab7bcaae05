//go:build linux

package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
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
		"signals":     {"setsid", "--revocable", "lk-guard", "trap \"\" PIPE"},
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
	t.Parallel()
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.Name() == "help" || cmd.Name() == "completion" || cmd.Hidden {
			return
		}
		text := cmd.Example + "\n" + cmd.Long
		if cmd.Runnable() && !cmd.HasSubCommands() && !strings.Contains(text, "  lockkeeper ") {
			t.Errorf("%s --help shows no example", cmd.CommandPath())
		}
		for line := range strings.Lines(text) {
			if example, ok := strings.CutPrefix(strings.TrimSpace(line), "lockkeeper "); ok && strings.HasPrefix(line, "  ") {
				tryExample(t, example)
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRoot())
}

// tryExample checks that the command of an example is there and takes its flags and arguments.
func tryExample(t *testing.T, line string) {
	words, err := ztree.Words(strings.ReplaceAll(line, "$$", "1"))
	if err != nil {
		t.Errorf("example %q: %v", line, err)
		return
	}
	if i := slices.IndexFunc(words, func(w string) bool { return strings.Contains("| > < &&", w) }); i >= 0 {
		words = words[:i] // the rest is the shell's
	}
	cmd, args, err := newRoot().Find(words)
	if err == nil && !cmd.DisableFlagParsing {
		if err = cmd.ParseFlags(args); err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
	}
	if err != nil {
		t.Errorf("example %q: %v", line, err)
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
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // nothing is accepted, and nothing is answered
	out := h.run("status", silent.Addr().String(), "--connect-timeout=200ms").want(69, "no server has answered").stdout.String()
	if !strings.Contains(out, "no answer within 200ms") {
		t.Errorf("status prints %s", out)
	}
	h.run("status", silent.Addr().String(), "--connect-timeout=0s").want(64, "--connect-timeout 0s")
	h.run("locks", "--connect-timeout=0s").want(64, "--connect-timeout 0s")
	h.run("run", "--connect-timeout=0s", "a", "--", "true").want(64, "--connect-timeout 0s")
}
