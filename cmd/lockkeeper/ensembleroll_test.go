//go:build linux

package main

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/roll"
)

// A member whose command failed is not skipped.
func TestEnsembleRollSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	f := rollFlags{restart: "ssh {host} reboot"}
	got := f.goOn(roll.Options{Members: []string{"a:1", "b:1", "c:1", "d:1"}, Skip: []string{"d:1"}},
		&roll.Error{Restarted: []string{"a:1"}, Unknown: "c:1", Left: []string{"b:1"}})
	want := "lockkeeper ensemble roll --servers a:1,b:1,c:1,d:1 --skip d:1,a:1 --restart 'ssh {host} reboot'"
	if got != want {
		t.Errorf("goOn = %s, want %s", got, want)
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
	} {
		h.run(append([]string{"ensemble", "roll"}, tt.args...)...).want(tt.status, tt.want)
	}
}
