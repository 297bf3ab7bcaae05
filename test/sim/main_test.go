package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/test/sim/drive"
	"github.com/lockkeeper/lockkeeper/test/sim/patch"
	"github.com/lockkeeper/lockkeeper/test/sim/world"
)

// shortSeeds is how many seeds the short form runs; make sim runs as many as one likes.
const shortSeeds = 1000

var build = sync.OnceValues(func() (*drive.Worker, error) {
	dir, err := os.MkdirTemp("", "lockkeeper-sim-")
	if err != nil {
		return nil, err
	}
	builtIn = dir
	return drive.Build(dir, nil)
})

var builtIn string // where build has put its worker

func TestMain(m *testing.M) {
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

func worker(t *testing.T) *drive.Worker {
	t.Helper()
	w, err := build()
	if err != nil {
		t.Fatal(err)
	}
	if w.Stock != nil && strings.HasPrefix(runtime.Version(), "go1.26") {
		t.Fatalf("the patches of Go's runtime (patch.Runtime) do not apply: %v", w.Stock)
	}
	return w
}

// The invariants hold in as many schedules as there is time for.
func TestSeeds(t *testing.T) {
	w := worker(t)
	sum, err := w.Seeds(1, shortSeeds, runtime.GOMAXPROCS(0), false)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(sum) // not a log, which is shown only if a test fails
	if err := show(w, sum.Failed); err != nil {
		t.Error(err)
	}
	for _, r := range sum.Failed {
		t.Errorf("seed %d: %v", r.Seed, r.Violations)
	}
	if sum.Grants < shortSeeds || sum.Losses == 0 || sum.Refusals == 0 {
		t.Errorf("the schedules do not reach what they are to test: %v", sum)
	}
}

// Seeds are the same runs every time, alone and behind others.
func TestReplay(t *testing.T) {
	const seeds = 100
	w := worker(t)
	if w.Stock != nil {
		t.Logf("with this Go (%s) seeds do not replay exactly: %v", runtime.Version(), w.Stock)
		return
	}
	behind, err := w.Range(1, seeds)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range behind {
		alone, err := w.Range(r.Seed, r.Seed)
		if err != nil {
			t.Fatal(err)
		}
		if alone[0].Hash != r.Hash {
			t.Errorf("seed %d: hash %016x alone, and %016x behind others", r.Seed, alone[0].Hash, r.Hash)
		}
	}
}

// Every mutation can still be made: none has been overtaken by the code that it changes.
func TestMutationsApply(t *testing.T) {
	root, err := drive.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range patch.Mutations {
		if m.Short {
			continue // TestTeeth builds and runs it
		}
		overlay, err := patch.Overlay(t.TempDir(), root, "", m.Patches)
		if err != nil {
			t.Errorf("%s: %v", m.Name, err)
			continue
		}
		compile := exec.Command("go", "build", "-overlay", overlay)
		for _, p := range m.Patches {
			compile.Args = append(compile.Args, "./"+path.Dir(p.File))
		}
		compile.Dir = root
		if out, err := compile.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", m.Name, err, out)
		}
	}
}

// The simulation notices when a cure is missing. make teeth tries all mutations.
func TestTeeth(t *testing.T) {
	for _, m := range patch.Mutations {
		if !m.Short {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			b, err := drive.Bites(m, runtime.GOMAXPROCS(0))
			if err != nil {
				t.Fatal(err)
			}
			if !b.Found() {
				t.Fatalf("not found within %d seeds", m.Within)
			}
			t.Logf("seed %d: %s", b.Seed, b.Violation)
		})
	}
}

// What shrinking leaves shows a violation, and every step of it is needed.
func TestShrink(t *testing.T) {
	dir := t.TempDir()
	i := 0
	for ; patch.Mutations[i].Name != "there is no cleaner"; i++ {
	}
	w, err := drive.Build(dir, patch.Mutations[i].Patches)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := w.Seeds(1, 100, 1, true)
	if err != nil || len(sum.Failed) == 0 {
		t.Fatalf("no seed of 100 fails: %v", err)
	}
	before := world.NewPlan(sum.Failed[0].Seed)
	p, r, err := w.Shrink(before)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Violations) == 0 || len(p.Steps) >= len(before.Steps) || len(p.Steps) == 0 {
		t.Errorf("%d steps became %d, which show %v", len(before.Steps), len(p.Steps), r.Violations)
	}
	t.Logf("%d steps became %d:\n%v", len(before.Steps), len(p.Steps), p)
}
