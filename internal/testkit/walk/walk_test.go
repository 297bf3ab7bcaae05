package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// filesMax is how many files of lock a reader of an uncontended Lock and Release may have to open. More than that do not fit into a
// head: merge what is one idea, or keep what only other kinds of locks need off the way.
const filesMax = 12

// A free mutex is taken and given back, and all files of the library are listed whose statements that runs.
func TestWalkOfAFreeLock(t *testing.T) {
	ran := walked(t)
	files := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(ran)) {
		part, _, _ := strings.Cut(name, "/")
		files[part] = append(files[part], name+" "+strconv.Itoa(ran[name]))
	}
	for _, part := range []string{"lock", "client", "internal"} {
		t.Logf("%d files of %s, and how many statements ran:\n\t%s", len(files[part]), part, strings.Join(files[part], "\n\t"))
	}
	if len(files["client"]) == 0 {
		t.Error("no file of client: this test does not see the walk")
	}
	if n := len(files["lock"]); n == 0 || n > filesMax {
		t.Errorf("%d files of lock, want 1 to %d", n, filesMax)
	}
}

var block = regexp.MustCompile(`(?m)^github\.com/lockkeeper/lockkeeper/(\S+?):\S+ (\d+) [1-9]\d*$`)

// walked returns how many statements of each file ran.
func walked(t *testing.T) map[string]int {
	t.Helper()
	dir := t.TempDir()
	program, text := filepath.Join(dir, "walk"), filepath.Join(dir, "text")
	counters, afterwards := filepath.Join(dir, "counters"), filepath.Join(dir, "afterwards")
	for _, d := range []string{counters, afterwards} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+afterwards) // of the program's end
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	packages := "-coverpkg=."
	for _, p := range []string{"lock", "lock/internal/queue", "client", "internal/ending", "internal/lease", "internal/clock"} {
		packages += ",github.com/lockkeeper/lockkeeper/" + p
	}
	run("go", "build", "-cover", "-covermode=atomic", packages, "-o", program, ".")
	run(program, counters)
	run("go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+text)
	data, err := os.ReadFile(text)
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, m := range block.FindAllStringSubmatch(string(data), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m[1], "internal/testkit/") {
			ran[m[1]] += n
		}
	}
	return ran
}
