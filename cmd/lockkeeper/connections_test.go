//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// A line of the file of connections that says nothing of use is an error with file and line, and messages name the file that is read.
func TestConnections(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, config := range []string{"", t.TempDir()} {
		t.Setenv("XDG_CONFIG_HOME", config)
		file := filepath.Join(config, "lockkeeper", "connections")
		if config == "" {
			file = filepath.Join(os.Getenv("HOME"), ".config", "lockkeeper", "connections")
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if servers, err := serversOf("prod"); servers != "prod" || err != nil {
			t.Errorf("without a file: %s, %v", servers, err)
		}
		for text, want := range map[string]string{
			"# ours\n\n\tprod zk1:2181,zk2/app \r\n": "",
			"prod zk1\ntest\n":                       file + ":2: want NAME SERVERS, as in prod zk1:2181,zk2:2181",
			"prod zk1, zk2":                          file + ":1: want NAME SERVERS, as in prod zk1:2181,zk2:2181",
			"prod http://zk1":                        file + ":1: prod: a server is host:port",
		} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			servers, err := serversOf("prod")
			switch {
			case want == "" && (servers != "zk1:2181,zk2/app" || err != nil):
				t.Errorf("%q: %s, %v", text, servers, err)
			case want != "" && (exit.StatusOf(err, exit.OK) != exit.Config || !strings.Contains(err.Error(), want)):
				t.Errorf("%q: %v, want %s", text, err, want)
			}
		}
	}
}
