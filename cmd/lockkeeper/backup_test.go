//go:build linux

package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/backup"
)

// What is in backups is tested in package backup, and with Apache ZooKeeper in test/interop/care.
func TestBackupAndRestoreOfAServerThatRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	h.run("z", "create", "--servers", address, "/app", "text").want(0)
	repeated := h.start("backup", h.dir+"/data", "--to", h.dir+"/often", "--every", "1s", "--keep", "2")
	var line backupLine
	if err := json.Unmarshal([]byte(h.run("backup", h.dir+"/data", "--to", h.dir+"/backups", "--json").want(0).stdout.String()), &line); err != nil {
		t.Fatal(err)
	}
	if line.Znodes != 5 || filepath.Dir(line.Path) != h.dir+"/backups" {
		t.Errorf("backup prints %+v", line)
	}
	if out := h.run("restore", "--check", line.Path).want(0).stdout.String(); !strings.Contains(out, "is whole: zxid "+line.Zxid.String()+", 5 znodes") {
		t.Errorf("restore --check prints %q", out)
	}
	repeated.see("; 1 older backup deleted")
	repeated.signal(syscall.SIGTERM)
	repeated.want(0)
	if kept, err := os.ReadDir(h.dir + "/often"); err != nil || len(kept) < 2 || len(kept) > 3 { // one may not have been counted yet
		t.Errorf("kept: %v, %v", kept, err)
	}
	j.signal(syscall.SIGTERM)
	j.want(0)
	h.run("restore", line.Path, h.dir+"/data").want(1, "holds data: move "+h.dir+"/data/lockkeeper.secret, "+h.dir+"/data/version-2 away")
	h.run("restore", line.Path, line.Path+"/manifest.json/new").want(73, "not a directory")
	h.run("restore", line.Path, h.dir+"/"+strings.Repeat("long", 100)).want(73, "name too long")
	h.run("restore", line.Path, h.dir+"/new").want(0, "stop all members")
	_, address = h.server("--data", h.dir+"/new", "--listen", "127.0.0.1:0")
	if out := h.run("z", "get", "--servers", address, "/app").want(0).stdout.String(); out != "text" {
		t.Errorf("after the restore: %q", out)
	}
}

func TestBackupRefuses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	to := "--to=" + h.dir + "/backups"
	for _, tt := range []struct {
		status int
		want   string
		args   []string
	}{
		{64, "--to is missing", []string{"backup", "/data"}},
		{64, "either a data directory or --admin", []string{"backup", to}},
		{64, "either a data directory or --admin", []string{"backup", to, "/data", "--admin", "http://a"}},
		{64, "name the directory above it", []string{"backup", to, "/data/version-2"}},
		{64, "http://HOST:PORT", []string{"backup", to, "--admin", "zk1:8080"}},
		{64, "for a data directory", []string{"backup", to, "--admin", "http://zk1:8080", "--log-dir", "/logs"}},
		{64, "for https", []string{"backup", to, "--admin", "http://zk1:8080", "--tls-ca", "/ca"}},
		{64, "--keep -1: is negative", []string{"backup", to, "/data", "--keep", "-1"}},
		{64, "--every 10ms: want at least 1s", []string{"backup", to, "/data", "--every", "10ms"}},
		{64, "--every 0s: want at least 1s", []string{"backup", to, "/data", "--every", "0"}},
		{64, "--timeout 0s: want more than 0", []string{"backup", to, "/data", "--timeout", "0"}},
		{64, "lies within " + h.dir, []string{"backup", to, h.dir}},
		{64, "lies within " + h.dir, []string{"backup", "--to=" + h.dir, h.dir}},
		{1, "no data directory", []string{"backup", to, h.dir + "/nothing"}},
		{64, "--check", []string{"restore", h.dir}},
		{64, "leave out", []string{"restore", "--check", h.dir, h.dir + "/data"}},
		{64, "name the directory above it", []string{"restore", h.dir, h.dir + "/version-2"}},
		{1, "no manifest.json", []string{"restore", h.dir, h.dir + "/data"}},
		{1, "no manifest.json", []string{"restore", "--check", h.dir}},
	} {
		h.run(tt.args...).want(tt.status, tt.want)
	}
}

// What has no effect is not passed over.
func TestBackupRefusesFlagsWithoutEffect(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("backup", h.dir, "--to", h.dir+"/backups", "--auth-file", "admin").want(64, "--auth-file is for --admin")
	h.run("restore", "--check", h.dir, "--log-dir", h.dir).want(64, "leave out --log-dir")
}

// The credential comes from a file, and goes to the server that is named and to no other.
func TestBackupShowsCredentialsToTheAdminPort(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var mu sync.Mutex // the next two
	var shown []string
	status := http.StatusForbidden
	show := func(credential string) int {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, credential)
		return status
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { show("elsewhere") }))
	defer other.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", other.URL)
		w.WriteHeader(show(r.Header.Get("Authorization")))
	}))
	defer srv.Close()
	credentials := h.put("admin", "digest:super:open sesame\n")
	command := []string{"backup", "--admin", srv.URL + "/commands/", "--auth-file", credentials, "--to", h.dir + "/backups"}
	h.run(command...).want(77, "refuses these credentials")
	mu.Lock()
	status = http.StatusFound
	mu.Unlock()
	h.run(command...).want(1, "302")
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(shown, ";"); got != "digest super:open sesame;digest super:open sesame" {
		t.Errorf("shown: %s", got)
	}
	if _, err := backup.Check(t.Context(), h.dir+"/backups"); err == nil {
		t.Error("there is a backup")
	}
}
