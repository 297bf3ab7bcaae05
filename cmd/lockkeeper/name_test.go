package main

import (
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

func TestLockPath(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-backup":         "/lockkeeper/locks/nightly-backup",
		"/some/where":            "/some/where",
		"/lockkeeper/locks/x":    "/lockkeeper/locks/x",
		"ünï":                    "/lockkeeper/locks/ünï",
		"-x":                     "/lockkeeper/locks/-x",
		"/zookeepers":            "/zookeepers",
		strings.Repeat("x", 255): "/lockkeeper/locks/" + strings.Repeat("x", 255),
		strings.Repeat("x", 256): "",
		"":                       "",
		"a/b":                    "",
		".":                      "",
		"..":                     "",
		"a\nb":                   "",
		"\xff":                   "",
		"/":                      "",
		"/a/":                    "",
		"/zookeeper":             "",
		"/zookeeper/config":      "",
	} {
		got, err := lockPath(name)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("lockPath(%q) = %q, %v; want %q", name, got, err, want)
		}
		if err != nil && exit.StatusOf(err, 0) != exit.Usage {
			t.Errorf("lockPath(%q): status %d", name, exit.StatusOf(err, 0))
		}
		if err == nil {
			if back, err := lockPath(lockName(got)); back != got {
				t.Errorf("lockName(%q) = %q leads to %q, %v", got, lockName(got), back, err)
			}
		}
	}
}

func TestElectionPath(t *testing.T) {
	for name, want := range map[string]string{"api": "/lockkeeper/elections/api", "/app/leader": "/app/leader", "a/b": "", "": "", "/": ""} {
		if got, err := electionPath(name); got != want || (err != nil) != (want == "") {
			t.Errorf("electionPath(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

// The hint is made of the name that was written, whatever it is of.
func TestANameWithASlashGetsAHint(t *testing.T) {
	for name, want := range map[string]string{
		"orders/":   "(write a name without slashes, such as orders)",
		"shop//web": "(write a name without slashes, such as shop--web)",
		"./":        "(write a name without slashes)",
		"shop/web":  "(write /lockkeeper/config/shop/web for a configuration below the named ones, or a name without slashes, such as shop-web)",
	} {
		if _, err := pathOf(name, "configuration", "/lockkeeper/config"); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
