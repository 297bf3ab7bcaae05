//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/doctor"
	"github.com/lockkeeper/lockkeeper/zk"
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
	if f := findings[0]; f.Evidence == "" || f.Mend == "" {
		t.Errorf("a finding without evidence or remedy: %+v", f)
	}
	h.run("doctor", "--servers", "a", "b").want(64, "leave out one")
	h.run("doctor", "--admin-port", "1,2", "a").want(64, "2 ports, and there are 1 servers")
	h.run("doctor", "--admin-port", "http", "a").want(64, `"http" is no port`)
	h.run("doctor", "zk://a").want(64, "a server is host:port")
}

// A walk finds what is large, and what is below what may be read; the rest of the ensemble is looked at as well.
func TestDoctorDeep(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.run("z", "acl", "set", "/", "world:anyone:cr").want(0)
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, 600_000), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("z", "create", "-p", "/a/large", "--file", large).want(0)
	if j := h.run("doctor").want(1); strings.Contains(j.stdout.String(), "jute.maxbuffer") {
		t.Errorf("without --deep doctor prints %q", j.stdout)
	}
	j := h.run("doctor", "--deep", "--admin-port=0", srv.Addr()+"/a").want(1)
	if got := j.stdout.String(); !strings.Contains(got, "/a/large (600000 bytes)") || !strings.Contains(got, "single server") {
		t.Errorf("with --deep doctor prints %q", got)
	}
}

// A walk ends at its limits, says so, and lists nothing that is too wide.
func TestTheWalkHasLimits(t *testing.T) {
	t.Parallel()
	s, err := client.Open(t.Context(), zktest.New(t, zktest.Options{}).Addr(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.WithoutCancel(t.Context())) })
	for _, path := range []string{"/wide", "/wide/1", "/wide/2", "/wide/3", "/wide/4", "/wide/4/below", "/x"} {
		if _, err := s.Create(t.Context(), path, []byte(path), zk.Persistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	limits := deepLimits{znodes: 100, listed: 3, time: time.Minute}
	tree := surveyTree(t.Context(), s, limits)
	if tree.Stopped != "" || len(tree.Skipped) != 1 || tree.Skipped[0] != "/wide" || tree.Znodes != 6 || tree.Widest[0] != (doctor.Znode{Path: "/wide", Bytes: 5, Children: 4}) {
		t.Errorf("with a limit of 3 children: %+v", tree)
	}
	limits.znodes = 2
	tree = surveyTree(t.Context(), s, limits)
	if tree.Stopped != "it looks at no more" || tree.Znodes != 2 {
		t.Errorf("with a limit of 2 znodes: %+v", tree)
	}
	limits.time = time.Nanosecond
	tree = surveyTree(t.Context(), s, limits)
	if tree.Stopped != "1ns are over" {
		t.Errorf("with a limit of a nanosecond: %+v", tree)
	}
}

// The machine of a member is looked at with servers and alone.
func TestDoctorOfAMachine(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nadmin.serverAddress=127.0.0.1\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\nsyncLimit=5\nautopurge.purgeInterval=1\n", dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	j := h.run("doctor", "--config", config).want(2, "doctor: 2 critical")
	for _, words := range []string{"critical  " + config + ": initLimit is missing", "critical  " + dir + "/myid: it is missing", "note      " + config + ": the transaction log"} {
		if !strings.Contains(j.stdout.String(), words) {
			t.Errorf("doctor prints %q, want %q", j.stdout, words)
		}
	}
	if strings.Contains(j.stdout.String(), "single server") {
		t.Errorf("with --config alone, doctor asks a server: %q", j.stdout)
	}
	if j := h.run("doctor", "--config", config, srv.Addr()).want(2); !strings.Contains(j.stdout.String(), "single server") || !strings.Contains(j.stdout.String(), "initLimit") {
		t.Errorf("with both, doctor prints %q", j.stdout)
	}
	wrong := filepath.Join(dir, "wrong.cfg")
	err := os.WriteFile(wrong, []byte(strings.Replace(text, "\n", "\nmaxClientCnxns=many\n", 1)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	j = h.run("doctor", "--config", wrong).want(2)
	if line := "critical  " + wrong + ":2: maxClientCnxns=many: is no whole number"; !strings.Contains(j.stdout.String(), line) {
		t.Errorf("%q is not in %q", line, j.stdout)
	}
	h.run("doctor", "--config", config, "--deep").want(64, "name them as well")
	h.run("doctor", "--config", config+".old").want(78, "zoo.cfg.old: no such file")
}

func TestDoctorSaysWhatItChecks(t *testing.T) {
	t.Parallel()
	help := newHome(t).run("doctor", "--help").want(0).stdout.String()
	for _, group := range doctor.Checks {
		for _, c := range group.Checks {
			if !strings.Contains(help, "  "+c.Name+" ") || !strings.Contains(help, c.What) {
				t.Errorf("doctor --help does not name the check %s: %s", c.Name, c.What)
			}
		}
	}
}
