package peers

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed foreign/Cycles.java
var javaSource []byte

//go:embed foreign/cycles.py
var pythonSource string

const curatorJars = "/usr/share/java/curator-recipes.jar:/usr/share/java/slf4j-nop.jar"

// foreign runs a workload as a program in another language, which is given the address, the clients, the
// locks, and in milliseconds how long to warm up and to measure, and prints a Result.
func foreign(command func(dir string) (*exec.Cmd, error)) func(context.Context, string, Workload, time.Duration, time.Duration) (Result, error) {
	return func(ctx context.Context, addr string, w Workload, warm, each time.Duration) (r Result, err error) {
		dir, err := os.MkdirTemp("", "lockkeeper-bench-")
		if err != nil {
			return r, err
		}
		defer os.RemoveAll(dir)
		made, err := command(dir)
		if err != nil {
			return r, err
		}
		args := append(made.Args[1:], addr, strconv.Itoa(w.Clients), strconv.Itoa(w.Locks),
			strconv.FormatInt(warm.Milliseconds(), 10), strconv.FormatInt(each.Milliseconds(), 10))
		cmd := exec.CommandContext(ctx, made.Path, args...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return r, fmt.Errorf("%s: %w\n%s", made.Path, err, stderr.Bytes())
		}
		if err := json.Unmarshal(out, &r); err != nil {
			return r, fmt.Errorf("%s printed %q: %w", made.Path, out, err)
		}
		return r, nil
	}
}

// curator compiles the Java program.
func curator(dir string) (*exec.Cmd, error) {
	source := filepath.Join(dir, "Cycles.java")
	if err := os.WriteFile(source, javaSource, 0o644); err != nil {
		return nil, err
	}
	if out, err := exec.Command("/usr/bin/javac", "-cp", curatorJars, "-d", dir, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("javac: %w\n%s", err, out)
	}
	return exec.Command("/usr/bin/java", "-Xmx1g", "-cp", curatorJars+":"+dir, "Cycles"), nil
}

// kazoo is for the system's Python, which has kazoo.
func kazoo(string) (*exec.Cmd, error) {
	return exec.Command("/usr/bin/python3", "-c", pythonSource), nil
}

// debianVersion returns what says which version of a Debian package is installed.
func debianVersion(pkg string) func() string {
	return func() string {
		out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", pkg).Output()
		if err != nil {
			return "unknown"
		}
		return string(out)
	}
}
