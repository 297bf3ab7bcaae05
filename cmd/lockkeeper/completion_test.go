//go:build linux

package main

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Tab completes the names of locks and elections, paths, and the values of flags. It starts no keeper.
func TestCompletion(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	complete := func(args ...string) string {
		t.Helper()
		j := h.run(append([]string{"__complete"}, args...)...).want(0)
		lines := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
		return strings.Join(lines[:len(lines)-1], " ") // the last one is a number for the shell
	}
	if got := complete("locks", ""); got != "" {
		t.Errorf("without a keeper: %q", got)
	}
	for _, name := range []string{"nightly", "night-shift", "report"} {
		j := h.start("run", name, "--", "sh", "-c", "echo up; exec sleep 1000")
		j.see("up")
	}
	leader := h.start("elect", "boss", "--", "sh", "-c", "echo up; exec sleep 1000")
	leader.see("up")
	for _, c := range []struct{ line, want string }{
		{"locks night", "night-shift nightly"},
		{"run nightly n", "night-shift"},
		{"run nightly -- n", ""},
		{"run nightly -- cat n", ""},
		{"break r", "report"},
		{"revoke n", "night-shift nightly"},
		{"slots report ", ""},
		{"elect b", "boss"},
		{"locks /lockkeeper/l", "/lockkeeper/locks"},
		{"locks /lockkeeper/locks/nightl", "/lockkeeper/locks/nightly"},
		{"z get /lockkeeper/locks/nightl", "/lockkeeper/locks/nightly"},
		{"z ls ", "/lockkeeper /zookeeper"},
		{"z cp / /zoo", "/zookeeper"},
		{"z grep /zoo", ""},
		{"z grep /zookeeper /zoo", "/zookeeper"},
		{"z import tree.json /zoo", "/zookeeper"},
		{"z import tree.json / /zoo", ""},
		{"run --vouch ", "ping sync write"},
		{"run --acl ", "world creator"},
		{"server --log-format ", "text json"},
	} {
		if got := complete(strings.Split(c.line, " ")...); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
}

// What a shell would take for more than a word is not offered: the line that bash makes of it would be a command of a stranger.
func TestCompletionOffersPlainWordsAlone(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	const plain = "/p/a-1.0_é@b:1,2=%+^~#"
	for _, name := range []string{plain, "/p/$(reboot)a", "/p/$(reboot)b", "/p/`reboot`", "/p/a;reboot", "/p/a b", "/p/a\u202eb", "/p/*", "/p/a!b",
		"/lockkeeper/locks/--force", "/lockkeeper/locks/~root", "/lockkeeper/locks/demo"} {
		h.run("z", "create", "-p", name).want(0)
	}
	for _, c := range []struct{ typed, want string }{{"/p/", plain}, {"/p/$", ""}, {"", "demo"}} {
		got := h.run("__complete", "locks", c.typed).want(0).stdout.String()
		if names := got[:strings.LastIndexByte(got, ':')]; strings.TrimSpace(names) != c.want {
			t.Errorf("locks %q: %q, want %q", c.typed, names, c.want)
		}
	}
}

// Without a terminal, a wait that lasts is told of once, and not at all with --quiet.
func TestAWaitIsToldOf(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	loud := h.start("run", "--wait", "4s", "demo", "--", "true")
	quiet := h.start("run", "--quiet", "--wait", "4s", "demo", "--", "true")
	loud.want(75, "waiting 2s for demo, behind ")
	if n := strings.Count(loud.stderr.String(), "waiting"); n != 1 {
		t.Errorf("%d lines about the wait:\n%s", n, loud.stderr)
	}
	quiet.want(75)
	if strings.Contains(quiet.stderr.String(), "waiting") {
		t.Errorf("--quiet: %s", quiet.stderr)
	}
}

// A session that expires in line is told of, and not with --quiet.
func TestASessionThatExpiresInLineIsToldOf(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	loud := h.start("run", "demo", "--", "true")
	quiet := h.start("run", "--quiet", "demo", "--", "true")
	for _, c := range h.held("demo", 3)[0].Contenders[1:] {
		id, err := strconv.ParseInt(c.Session, 0, 64)
		if err != nil || !srv.Expire(id) {
			t.Errorf("session %s is not there (%v)", c.Session, err)
		}
	}
	h.held("demo", 3) // which were gone when Expire returned
	for _, j := range []*job{loud, quiet} {
		j.signal(syscall.SIGTERM)
		j.want(128 + int(syscall.SIGTERM))
		if told := strings.Contains(j.stderr.String(), "back to the end of the line"); told != (j == loud) {
			t.Errorf("%q says %q", j.cmd.Args[1:], j.stderr)
		}
	}
}

func TestLogFormat(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("server", "--data", h.dir+"/data", "--listen", "127.0.0.1:0", "--log-format", "json")
	if err := j.stderr.see(`"msg":"serving"`); err != nil {
		t.Fatalf("%v: %s", err, j.stderr)
	}
	first, _, _ := strings.Cut(j.stderr.String(), "\n")
	var line struct{ Level, Msg string }
	err := json.Unmarshal([]byte(first), &line)
	if err != nil || line.Level != "INFO" || line.Msg == "" {
		t.Errorf("%q: %v", first, err)
	}
	h.run("server", "--data", h.dir+"/other", "--log-format", "xml").want(64, "--log-format xml: not one of text and json")
	h.run("server", "--data", h.dir+"/other", "--log-level", "loud").want(64, "--log-level", "not one of debug, info, warn and error")
}

// Names are made by strangers, and servers may send names that no ZooKeeper has.
func TestPlainWords(t *testing.T) {
	for name, want := range map[string]bool{"nightly": true, "a/b.c-1": true, "": false, "-x": false, "~a": false, "a b": false, "$(x)": false, "a\u202e": false} {
		if plainWord(name) != want {
			t.Errorf("plainWord(%q) = %v", name, !want)
		}
	}
}

func TestFlagsThatMayHaveBeenMeant(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "--slot", "2", "demo", "--", "true").want(64, "unknown flag: --slot (did you mean --slots?)")
	h.run("run", "-wait", "0", "demo", "--", "true").want(64, "did you mean --wait?")
	h.run("run", "--xyz", "demo", "--", "true").want(64, "see lockkeeper run --help")
}
