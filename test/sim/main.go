// Command sim runs the simulation: many seeds, one of them again, or all mutations. See packages world,
// drive and patch, and docs/proof.md.
//
//	go run . -seeds 10000          as many seeds, from -first on
//	go run . -seed 4711            one seed, with all that happens
//	go run . -teeth                does it notice what it must notice?
//
// It ends with status 1 if an invariant was violated; then it shows the first seed that did so, and the
// shortest script that still does.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/lockkeeper/lockkeeper/test/sim/drive"
	"github.com/lockkeeper/lockkeeper/test/sim/patch"
	"github.com/lockkeeper/lockkeeper/test/sim/world"
)

func main() {
	seeds := flag.Int("seeds", 2000, "how many seeds to run")
	first := flag.Uint64("first", 1, "the first seed")
	procs := flag.Int("procs", runtime.NumCPU(), "how many processes to use")
	teeth := flag.Bool("teeth", false, "build the tree with one mutation after the other, and see whether each is found")
	only := flag.String("only", "", "of the mutations, only those whose name contains this")
	one := flag.Uint64("seed", 0, "run this seed alone and show all that happens")
	flag.Parse()
	if *teeth {
		if !bite(*only, *procs) {
			os.Exit(1)
		}
		return
	}
	bad, err := sim(*first, *seeds, *procs, *one)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if bad {
		os.Exit(1)
	}
}

func sim(first uint64, seeds, procs int, one uint64) (bad bool, err error) {
	dir, err := os.MkdirTemp("", "lockkeeper-sim-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	w, err := drive.Build(dir, nil)
	if err != nil {
		return false, err
	}
	if w.Stock != nil {
		fmt.Println("Go's runtime is not patched, seeds do not replay exactly and processes cannot be stopped:", w.Stock)
	}
	if one != 0 {
		return replay(w, one)
	}
	sum, err := w.Seeds(first, seeds, procs, false)
	if err != nil {
		return false, err
	}
	if len(sum.Failed) > 0 {
		if err := show(w, sum.Failed[0], first); err != nil {
			return true, err
		}
	}
	fmt.Println(sum)
	return len(sum.Failed) > 0, nil
}

// bite shows which mutations are found, as rows of the table in docs/proof.md.
func bite(only string, procs int) bool {
	found, all := 0, 0
	for _, m := range patch.Mutations {
		if !strings.Contains(m.Name, only) {
			continue
		}
		all++
		b, err := drive.Bites(m, procs)
		switch {
		case err != nil:
			fmt.Println(err)
		case !b.Found():
			fmt.Printf("| %s | %s | not within %d | |\n", m.Entry, m.Name, m.Within)
		default:
			found++
			fmt.Printf("| %s | %s | %d | %s |\n", m.Entry, m.Name, b.Seed, b.Violation)
		}
	}
	fmt.Printf("teeth: mutations=%d found=%d\n", all, found)
	return found == all
}

// replay runs a seed twice and shows what happens, and whether it was the same both times.
func replay(w *drive.Worker, seed uint64) (bad bool, err error) {
	p := world.NewPlan(seed)
	r, err := w.Plan(p)
	if err != nil {
		return false, err
	}
	again, err := w.Plan(p)
	if err != nil {
		return false, err
	}
	fmt.Print(p, "\n", strings.Join(r.Lines, "\n"), "\n")
	for _, v := range r.Violations {
		fmt.Println("violated:", v)
	}
	fmt.Printf("sim: seed=%d violations=%d hash=%016x again=%016x same=%v\n", seed, len(r.Violations), r.Hash, again.Hash, r.Hash == again.Hash)
	return len(r.Violations) > 0, nil
}

// show prints a violation and its shortest script. first is the seed that the run began with.
func show(w *drive.Worker, r *world.Report, first uint64) error {
	fmt.Printf("first failing seed: %d\n", r.Seed)
	for _, v := range r.Violations {
		fmt.Println("  violated:", v)
	}
	p, shrunk, err := w.Shrink(world.NewPlan(r.Seed))
	if err != nil {
		return err
	}
	if len(shrunk.Violations) == 0 {
		from := first + (r.Seed-first)/drive.ChunkSeeds*drive.ChunkSeeds
		fmt.Printf("alone, the seed does not show it; behind others it does: go run . -procs 1 -first %d -seeds %d\n", from, r.Seed-from+1)
		return nil
	}
	fmt.Printf("shortest script found: %s", p)
	for _, v := range shrunk.Violations {
		fmt.Println("  violated:", v)
	}
	fmt.Println(strings.Join(shrunk.Lines, "\n"))
	return nil
}
