//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

// A name that was mistyped is not shown as a free lock.
func TestALockThatDoesNotExistIsNoFreeLock(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("locks").want(0, "no lock is in use on ")
	if j := h.run("locks", "/").want(0, "no lock is in use on "); j.stdout.String() != h.run("locks").stdout.String() {
		t.Errorf("the root is shown as a lock:\n%s", j.stdout)
	}
	h.run("run", "once", "--", "true").want(0)
	if j := h.run("locks", "/lockkeeper/locks").want(0, "no lock is in use on "); strings.Contains(j.stdout.String(), "free") {
		t.Errorf("the directory of all locks is shown as a lock:\n%s", j.stdout)
	}
	h.start("run", "nightly-backup", "--", "sh", "-c", stay).see("up")
	for _, command := range []string{"locks", "revoke", "break --force"} {
		args := append(strings.Fields(command), "nigthly-backup")
		h.run(args...).want(66, "nigthly-backup: no such lock on ", "did you mean nightly-backup?")
	}
	j := h.run("locks", "another").want(66)
	if strings.Contains(j.stderr.String(), "did you mean") {
		t.Errorf("a name of another kind is suggested: %s", j.stderr)
	}
	if j := h.run("locks", "--json", "another").want(66); j.stdout.String() != "[]\n" {
		t.Errorf("JSON of no lock: %s", j.stdout)
	}
}

// Programs that keep their locks at several depths below a path are shown them all.
func TestLocksBelowAPathAreShown(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, path := range []string{"/apps/web/deploy", "/apps/web/jobs/1", "/apps/mail"} {
		h.start("run", path, "--", "sh", "-c", stay).see("up")
	}
	for _, c := range []struct {
		path string
		want string
	}{
		{"/apps", "/apps/mail /apps/web/deploy /apps/web/jobs/1"},
		{"/apps/web", "/apps/web/deploy /apps/web/jobs/1"},
		{"/apps/mail", "/apps/mail"},
		{"/apps/", "/apps/mail /apps/web/deploy /apps/web/jobs/1"},
		{"/", "/apps/mail /apps/web/deploy /apps/web/jobs/1"},
	} {
		j := h.run("locks", "--json", c.path)
		var lines []lockLine
		if err := json.Unmarshal([]byte(j.want(0).stdout.String()), &lines); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range lines {
			if len(l.Contenders) == 1 {
				got = append(got, l.Path)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("locks %s shows %v, want %s", c.path, got, c.want)
		}
	}
	h.run("locks", "--watch", "/").want(64, "locks --watch /: it is no lock")
	h.run("locks", "/zookeeper").want(64, "reserved by ZooKeeper")
}

// Each change is one line with one object.
func TestAWatchInJSONPrintsALineForEachChange(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	watch := h.start("locks", "--watch", "--json", "demo")
	watch.see("\n")
	h.run("run", "demo", "--", "true").want(0)
	watch.see(`"state":"held"`)
	watch.signal(syscall.SIGINT)
	watch.wantInterrupted()
	for line := range strings.Lines(watch.stdout.String()) {
		var change locksChange
		if err := json.Unmarshal([]byte(line), &change); err != nil || len(change.Locks) != 1 || change.Time.IsZero() {
			t.Errorf("the line %q: %v", line, err)
		}
	}
}

func TestSimilarNames(t *testing.T) {
	names := []string{"nightly-backup", "nightly-report", "web", "db"}
	for wanted, want := range map[string]string{
		"nightly-backp": "nightly-backup", "nigthly-report": "nightly-report", "nightly": "nightly-backup", "wbe": "web", "quite-different": "", "": "",
	} {
		if got := similarTo(wanted, names); got != want {
			t.Errorf("similarTo(%q) = %q, want %q", wanted, got, want)
		}
	}
}
