// Command sim runs the simulation: many seeds, one of them again, or all mutations. See packages world,
// drive and patch, and docs/proof.md.
//
//	go run . -seeds 10000          as many seeds, from -first on
//	go run . -seed 4711            one seed, with all that happens
//	go run . -from 4701 -seed 4711 the same, behind others in one process
//	go run . -teeth                does it notice what it must notice?
//
// It ends with status 1 if an invariant was violated; then it says how each seed that did so is run again, and
// shows the shortest script of the first that still does.
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
	procs := flag.Int("procs", runtime.GOMAXPROCS(0), "how many processes to use")
	teeth := flag.Bool("teeth", false, "build the tree with one mutation after the other, and see whether each is found")
	only := flag.String("only", "", "of the mutations, only those whose name contains this")
	one := flag.Uint64("seed", 0, "run this seed alone and show all that happens")
	from := flag.Uint64("from", 0, "with -seed: run it in one process behind all those from this one on")
	flag.Parse()
	if *teeth {
		if !bite(*only, *procs) {
			os.Exit(1)
		}
		return
	}
	bad, err := sim(*first, *seeds, *procs, *from, *one)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sim:", err)
		os.Exit(2)
	}
	if bad {
		os.Exit(1)
	}
}

func sim(first uint64, seeds, procs int, from, one uint64) (bad bool, err error) {
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
		return replay(w, from, one)
	}
	sum, err := w.Seeds(first, seeds, procs, false)
	if err != nil {
		return false, err
	}
	if err := show(w, sum.Failed); err != nil {
		return true, err
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

// replay runs a seed twice, alone or behind others, and shows what happens, and whether it was the same both
// times.
func replay(w *drive.Worker, from, seed uint64) (bad bool, err error) {
	if from == 0 || from > seed {
		from = seed
	}
	var r [2]*world.Report
	for i := range r {
		all, err := w.Range(from, seed)
		if err != nil {
			return false, err
		}
		r[i] = all[len(all)-1]
	}
	fmt.Print(world.NewPlan(seed), "\n", strings.Join(r[0].Lines, "\n"), "\n")
	for _, v := range r[0].Violations {
		fmt.Println("violated:", v)
	}
	fmt.Printf("sim: seed=%d violations=%d hash=%016x again=%016x same=%v\n", seed, len(r[0].Violations), r[0].Hash, r[1].Hash, r[0].Hash == r[1].Hash)
	return len(r[0].Violations) > 0, nil
}

// failuresShown is how many of the seeds that fail are run again.
const failuresShown = 10

// show runs seeds that have failed again, each alone in a process of its own, and says how that is done, and
// what they violate. Of the first that fails alone it prints the shortest script.
func show(w *drive.Worker, failed []*world.Report) error {
	var plan *world.Plan
	for _, r := range failed[:min(len(failed), failuresShown)] {
		again, err := w.Range(r.Seed, r.Seed)
		if err != nil {
			return err
		}
		alone, how := again[0], fmt.Sprintf("make sim SEED=%d", r.Seed)
		switch {
		case len(alone.Violations) == 0:
			how = fmt.Sprintf("make sim FROM=%d SEED=%d, for alone it does not", r.From, r.Seed)
		case plan == nil:
			plan = world.NewPlan(r.Seed)
		}
		fmt.Printf("seed %d fails: hash=%016x alone=%016x again: %s\n", r.Seed, r.Hash, alone.Hash, how)
		for _, v := range r.Violations {
			fmt.Println("  violated:", v)
		}
	}
	if plan == nil {
		return nil
	}
	p, shrunk, err := w.Shrink(plan)
	if err != nil {
		return err
	}
	fmt.Printf("shortest script found: %s", p)
	for _, v := range shrunk.Violations {
		fmt.Println("  violated:", v)
	}
	fmt.Println(strings.Join(shrunk.Lines, "\n"))
	return nil
}
