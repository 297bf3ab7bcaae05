package peer

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const (
	curatorJars  = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar"
	curatorClass = "CuratorPeer"
)

//go:embed testdata/CuratorPeer.java
var curatorSource []byte

//go:embed testdata/kazoo_peer.py
var kazooSource string

// scratch is a directory for what peers are made of; Main removes it.
var scratch = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "lockkeeper-peers-") })

// curatorClasses compiles the Java peer, once, and returns the directory of its classes.
var curatorClasses = sync.OnceValues(func() (string, error) {
	dir, err := scratch()
	if err != nil {
		return "", err
	}
	src := filepath.Join(dir, curatorClass+".java")
	if err := os.WriteFile(src, curatorSource, 0o644); err != nil {
		return "", err
	}
	out, err := exec.Command("/usr/bin/javac", "-d", dir, "-cp", curatorJars, src).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return dir, nil
})

// kazoo returns the command of a kazoo peer. It is the system's Python that has kazoo.
func kazoo(variant string) *exec.Cmd {
	return exec.Command("/usr/bin/python3", "-c", kazooSource, variant)
}
