// Package drive builds workers, which run plans of package world, and makes something of their reports: a
// summary over many seeds, the shortest script of a violation, and whether mutations are found.
package drive

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lockkeeper/lockkeeper/test/sim/patch"
)

// A Worker is a program that runs plans.
type Worker struct {
	Path  string
	Stock error // why Go's runtime is not patched; nil if it is
}

// Build builds a worker from the tree with some patches applied. It is written into dir.
func Build(dir string, patches []patch.Patch) (*Worker, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	here, err := goList("-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	goroot, err := run(here, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	patches = append(patches[:len(patches):len(patches)], patch.Server...)
	w := &Worker{Path: filepath.Join(dir, "worker")}
	args := []string{"test", "-c", "-vet=off", "-o", w.Path}
	overlay, err := patch.Overlay(dir, root, goroot, append(patches[:len(patches):len(patches)], patch.Runtime...))
	if err == nil {
		args = append(args, "-tags", "simruntime")
	} else {
		w.Stock = err
		if overlay, err = patch.Overlay(dir, root, goroot, patches); err != nil {
			return nil, err
		}
	}
	_, err = run(here, "go", append(args, "-overlay", overlay, "./world")...)
	return w, err
}

// Root returns the folder of the product's module.
func Root() (string, error) {
	return goList("-m", "-f", "{{.Dir}}", "github.com/lockkeeper/lockkeeper")
}

func goList(args ...string) (string, error) {
	return run("", "go", append([]string{"list"}, args...)...)
}

func run(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &errs, append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}
