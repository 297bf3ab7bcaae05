//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// With --log-format json each message of run and elect is an object on a line of its own, and nothing else is said.
func TestMessagesOfJobsAsJSON(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	holder := h.start("run", "demo", "--", "sh", "-c", stay)
	holder.see("up")
	messages := func(args ...string) (levels, all string) {
		t.Helper()
		for line := range strings.Lines(h.run(args...).stderr.String()) {
			var m struct{ Time, Level, Msg string }
			if err := json.Unmarshal([]byte(line), &m); err != nil || m.Time == "" || strings.Contains(m.Msg, "lockkeeper:") {
				t.Errorf("%q says %q (%v)", args, line, err)
			}
			levels, all = levels+m.Level+" ", all+m.Msg+"\n"
		}
		return levels, all
	}
	levels, all := messages("run", "--log-format", "json", "--wait", "0", "demo", "--", "true")
	if levels != "ERROR " || !strings.Contains(all, "held by sleep") {
		t.Errorf("run says %q: %q", levels, all)
	}
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "LOCKKEEPER_SERVERS=") })
	levels, all = messages("run", "--log-format", "json", "--wait", "0", "demo", "--", "true")
	if levels != "WARN ERROR " || !strings.Contains(all, "this lock is for this machine only") {
		t.Errorf("run without servers says %q: %q", levels, all)
	}
	for _, less := range []string{"--log-level=error", "-q"} {
		if levels, all := messages("run", "--log-format", "json", less, "--wait", "0", "demo", "--", "true"); levels != "ERROR " {
			t.Errorf("run %s says %q: %q", less, levels, all)
		}
	}
	levels, all = messages("elect", "--log-format", "json", "--restart", "on-failure", "--backoff", "0", "e", "--",
		"sh", "-c", "test -e "+h.dir+"/again || { : > "+h.dir+"/again; exit 5; }")
	if levels != "WARN WARN " || !strings.Contains(all, "exit status 5; standing for election again at once") {
		t.Errorf("elect says %q: %q", levels, all)
	}
	levels, all = messages("elect", "--log-format", "json", "--http", "127.0.0.1:0", "--restart", "never", "e", "--", "true")
	if levels != "WARN WARN " || !strings.Contains(all, "/leader answers 200") {
		t.Errorf("elect --http says %q: %q", levels, all)
	}
	levels, all = messages("run", "--log-format", "json", "--log-level", "info", "--servers", "local", "told", "--", "sh", "-c", "exit 3")
	if levels != "INFO INFO " || !strings.Contains(all, "told: the lock is held, token ") || !strings.Contains(all, "told: the command has ended with status 3") {
		t.Errorf("run --log-level info says %q: %q", levels, all)
	}
	levels, all = messages("elect", "--log-format", "json", "--log-level", "info", "--servers", "local", "--restart", "never", "e", "--", "true")
	if levels != "INFO INFO " || !strings.Contains(all, "e: this candidate leads, token ") || !strings.Contains(all, "e: the command has ended with status 0") {
		t.Errorf("elect --log-level info says %q: %q", levels, all)
	}
	j := h.start("run", "--log-format", "json", "--on-lost", "exit 3", "other", "--", "sh", "-c", stay)
	j.see("up")
	h.run("break", "--force", "other").want(0)
	j.want(74, `"msg":"--on-lost: exit status 3"`)
	h.run("run", "--log-format", "xml", "demo", "--", "true").want(64, "--log-format xml: not one of text and json")
}
