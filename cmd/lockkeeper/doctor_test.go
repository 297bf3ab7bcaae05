//go:build linux

package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// What it finds in ensembles is tested in package doctor, and against real ones in test/interop/tour.
func TestDoctor(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	other := zktest.New(t, zktest.Options{})
	j := h.run("doctor").want(1, "doctor: 1 warning")
	for _, words := range []string{"note      " + srv.Addr() + ": it is a single server", "warning   any client may change the root", "→ an ensemble of three"} {
		if !strings.Contains(j.stdout.String(), words) {
			t.Errorf("doctor prints %q, want %q", j.stdout, words)
		}
	}
	h.run("z", "acl", "set", "/", "world:anyone:r").want(0)
	h.run("doctor").want(0, "nothing worse than a note")
	var findings []doctor.Finding
	j = h.run("doctor", "--json", srv.Addr(), other.Addr(), "127.0.0.1:1").want(2, "critical")
	if err := json.Unmarshal([]byte(j.stdout.String()), &findings); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range findings {
		found[f.Check] = true
	}
	if findings[0].Severity != doctor.Critical || !found["unreachable"] || !found["separate"] {
		t.Errorf("doctor finds %+v", findings)
	}
	h.run("doctor", "--servers", "a", "b").want(64, "leave out one")
	h.run("doctor", "zk://a").want(64, "a server is host:port")
}
