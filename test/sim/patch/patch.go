// Package patch changes source text between the tree and the compiler, with the go command's -overlay, so
// that what is shipped has no switches for tests.
//
// There are three uses. Server makes followers in the simulation behave like Apache ZooKeeper's. Runtime makes Go's scheduler follow a seed and lets it stop a process (see package
// rt). Mutations take one cure at a time out of the product; the simulation must notice each (see
// docs/proof.md).
package patch

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Patch replaces a text that occurs once in a file, or wherever it does if All is set. An empty Old makes a
// new file.
type Patch struct {
	File     string // from Root, or from GOROOT/src if Go is set
	Go       bool
	All      bool
	Old, New string
}

// Overlay writes patched copies of files into dir, and a file there that go build's -overlay takes, whose
// name it returns. root is the product's module, goroot Go's.
func Overlay(dir, root, goroot string, patches []Patch) (string, error) {
	texts := map[string]string{}
	for _, p := range patches {
		file := filepath.Join(root, p.File)
		if p.Go {
			file = filepath.Join(goroot, "src", p.File)
		}
		text, err := apply(texts, file, p)
		if err != nil {
			return "", err
		}
		texts[file] = text
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for file, text := range texts {
		copied := filepath.Join(dir, fmt.Sprintf("%d-%s", len(overlay.Replace), filepath.Base(file)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[file] = copied
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, b, 0o600)
}

// apply returns the text of a file with one more patch applied.
func apply(texts map[string]string, file string, p Patch) (string, error) {
	if p.Old == "" {
		return p.New, nil
	}
	text, ok := texts[file]
	if !ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text = string(b)
	}
	if n := strings.Count(text, p.Old); n == 0 || n > 1 && !p.All {
		return "", fmt.Errorf("%s has %d times, want once: %q", file, n, p.Old)
	}
	return strings.ReplaceAll(text, p.Old, p.New), nil
}
