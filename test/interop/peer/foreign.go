package peer

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

const (
	curatorJars  = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-simple.jar"
	curatorClass = "CuratorPeer"
)

// curatorSources are the Java program, one class a file.
//
//go:embed testdata/curator/*.java
var curatorSources embed.FS

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
	if err := os.CopyFS(dir, curatorSources); err != nil {
		return "", err
	}
	names, err := fs.Glob(curatorSources, "testdata/curator/*.java")
	if err != nil {
		return "", err
	}
	args := []string{"-d", dir, "-cp", curatorJars}
	for _, n := range names {
		args = append(args, filepath.Join(dir, n))
	}
	out, err := exec.Command("/usr/bin/javac", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("javac: %w\n%s", err, out)
	}
	return dir, nil
})

// kazoo returns the command of a kazoo peer. It is the system's Python that has kazoo.
func kazoo(variant string) *exec.Cmd {
	return exec.Command("/usr/bin/python3", "-c", kazooSource, variant)
}
