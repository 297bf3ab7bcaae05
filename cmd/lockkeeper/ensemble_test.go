//go:build linux

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/roll"
)

// A member whose command failed is not skipped.
func TestEnsembleRollSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	cmd := newEnsembleRoll()
	err := cmd.ParseFlags([]string{"--timeout=30s", "--auth-file", "it's", "--servers", "b:1", "--skip", "d:1", "--plan=false", "--restart", "x"})
	if err != nil {
		t.Fatal(err)
	}
	f := rollFlags{restart: "ssh {host} reboot"}
	got := f.goOn(cmd.Flags(), roll.Options{Members: []string{"a:1", "b:1", "c:1", "d:1"}, Skip: []string{"d:1"}},
		&roll.Error{Restarted: []string{"a:1"}, Unknown: "c:1", Left: []string{"b:1"}})
	want := "lockkeeper ensemble roll --servers a:1,b:1,c:1,d:1 --auth-file 'it'\\''s' --timeout 30s --skip d:1,a:1 --restart 'ssh {host} reboot'"
	if got != want {
		t.Errorf("goOn = %s, want %s", got, want)
	}
	got = f.goOn(cmd.Flags(), roll.Options{Members: []string{"a:1", "b:1"}}, &roll.Error{Unknown: "a:1", Left: []string{"b:1"}})
	if strings.Contains(got, "--skip") {
		t.Errorf("goOn = %s, and nothing is to be skipped", got)
	}
}

// The roll itself is tested in package roll, and with Apache ZooKeeper in test/interop/care.
func TestEnsembleRollRefuses(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	for _, tt := range []struct {
		status int
		want   string
		args   []string
	}{
		{64, "--restart is missing", nil},
		{64, "the same for all members", []string{"--restart", "reboot"}},
		{64, "{name}: not one of", []string{"--restart", "ssh {name}"}},
		{64, "--servers has all members", []string{"--servers", "local", "--restart", "ssh {host}"}},
		{64, "without a chroot", []string{"--servers", "a:1,b:1/app", "--restart", "ssh {host}"}},
		{64, "a:1 is there twice", []string{"--servers", "a:1,a:1", "--restart", "ssh {host}"}},
		{64, "--skip c:1: it is not in --servers", []string{"--servers", "a:1,b:1", "--skip", "c:1", "--restart", "ssh {host}"}},
		{64, "cannot be put into a shell command", []string{"--servers", "$(reboot):1", "--restart", "ssh {host}"}},
		{64, "--timeout is more than 0", []string{"--timeout", "0s", "--restart", "ssh {host}"}},
		{1, srv.Addr() + " is standalone: it is no member of an ensemble", []string{"--restart", "touch " + h.dir + "/{port}"}},
		{1, "would not begin: " + srv.Addr() + " is standalone", []string{"--plan", "--restart", "touch " + h.dir + "/{port}"}},
		{1, "would not begin: " + srv.Addr() + " is standalone", []string{"--plan"}},
	} {
		h.run(append([]string{"ensemble", "roll"}, tt.args...)...).want(tt.status, tt.want)
	}
}

// What was said wrong is a usage error, and nothing is written.
func TestEnsembleInitRefusesValues(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("ensemble", "init", "--set", "tickTime=abc").want(64, "--set tickTime=abc: want a whole number")
	h.run("ensemble", "init", "--heap", "foo").want(64, "--heap \"foo\"", "512m or 2g")
	h.run("ensemble", "init", "--heap", "1").want(64, "--heap \"1\"", "at least a megabyte")
	h.run("ensemble", "init", "--members", "-1").want(64, "--members -1: want at least 1")
	h.run("ensemble", "init", "--format", "kubernetes", "--name", "Foo_").want(64, "--name \"Foo_\": Kubernetes wants")
	h.run("ensemble", "init", "--format", "kubernetes", "--name", "1zk").want(64, "--name \"1zk\": Kubernetes wants")
	h.run("ensemble", "init", "--format", "kubernetes", "--namespace", strings.Repeat("n", 64)).want(64, "63 at most")
	h.run("ensemble", "init", "--format", "kubernetes", "--namespace", strings.Repeat("n", 63), "--out", "long").want(0)
	h.run("ensemble", "grow", "--from", "").want(64, "--from: is empty")
	h.run("ensemble", "init", "--out", "").want(64, "--out: is empty")
	if _, err := os.Stat(h.dir + "/ensemble"); err == nil {
		t.Error("something was written")
	}
}

// What a file has does not reach the terminal as it is.
func TestEnsembleGrowShowsSettings(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for settings, words := range map[string]string{"my\x1b[31m=1": "my?[31m", "clientPort=\x1b[31m": "clientPort=?[31m", "initLimit=\x1b[31m": "initLimit=?[31m"} {
		if err := os.WriteFile(h.dir+"/zoo.cfg", []byte("dataDir=/no/such\n"+settings+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		j := h.run("ensemble", "grow", "--from", "zoo.cfg")
		if text := j.stderr.String(); !strings.Contains(text, words) || strings.Contains(text, "\x1b") {
			t.Errorf("grow shows %q, want %s", text, words)
		}
	}
}
