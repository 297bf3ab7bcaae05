package world

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/test/sim/model"
	"github.com/lockkeeper/lockkeeper/test/sim/rt"
)

// A World is one run of a plan.
type World struct {
	plan    *Plan
	began   time.Time
	net     *memnet.Network
	keeper  *keeper
	procs   []*proc
	witness *witness
	audit   audit
	znodes  model.History

	steps sync.WaitGroup

	mu        sync.Mutex // guards what follows
	report    Report
	lines     bool
	counted   map[counted]int // step by number
	confirmed map[string]int  // largest number that was confirmed, by path
	broken    int             // faults that are going on
	healed    time.Duration   // when the last of them ended
	hash      interface {
		Write([]byte) (int, error)
		Sum64() uint64
	}
}

// A Report is what came of a run.
type Report struct {
	Seed       uint64
	From       uint64   // the seed that the process began with
	Hash       uint64   // of all that was noted, with its moments, and of all that the server logged
	Violations []string // of invariants
	Grants     int
	Losses     int
	Refusals   int
	Lines      []string `json:",omitempty"` // of all that was noted, if asked for

	world *World
}

// Judge checks the histories against their models, which takes time of the machine and is for when the
// bubble is over.
func (r *Report) Judge() {
	w := r.world
	for _, path := range slices.Sorted(maps.Keys(w.witness.grants)) {
		if ok, _ := w.witness.grants[path].Explained(model.Lock); !ok {
			r.Violations = append(r.Violations, fmt.Sprintf("I1: no lock service could have granted %s like that", path))
		}
	}
	if ok, _ := w.znodes.Explained(model.Znodes); !ok {
		r.Violations = append(r.Violations, "I6: no order of the requests explains what became of the znodes")
	}
}

// Run carries out a plan in the caller's bubble.
func Run(p *Plan, lines bool) *Report {
	rt.Seed(p.Seed)
	w := &World{plan: p, began: time.Now(), net: memnet.New(), lines: lines, hash: fnv.New64a(), counted: map[counted]int{}, confirmed: map[string]int{}}
	w.report.Seed = p.Seed
	w.witness = newWitness(w)
	w.net.Link("", "").Latency(p.Latency)
	w.keeper = startKeeper(w)
	for i := range p.Followers {
		w.keeper.follow(i)
	}
	for i := range p.Processes {
		w.procs = append(w.procs, newProc(w, i))
	}
	for _, s := range p.Steps {
		time.Sleep(time.Until(w.began.Add(s.At)))
		w.begin(s)
	}
	time.Sleep(time.Until(w.began.Add(turmoil)))
	w.settle()
	for _, p := range w.procs {
		p.close()
	}
	for _, r := range w.keeper.followers {
		r.Close()
	}
	w.keeper.close()
	fmt.Fprintf(w.hash, "%x", w.keeper.disk.content())
	w.audit.check(w)
	w.report.world = w
	w.report.Hash = w.hash.Sum64()
	return &w.report
}

// begin begins a step on a goroutine of its own.
func (w *World) begin(s Step) {
	for _, deeds := range [][]deed{works, closings, faults, ensembleFaults} {
		i := slices.IndexFunc(deeds, func(d deed) bool { return d.name == s.Do })
		if i < 0 {
			continue
		}
		w.note(s.Who, "begins #%d %s", s.ID, s.Do)
		w.steps.Go(func() {
			if &deeds[0] == &works[0] || &deeds[0] == &closings[0] {
				rt.Enter(w.procs[s.Who].group)
				deeds[i].run(w, s)
				return
			}
			w.fault(func() { deeds[i].run(w, s) })
		})
		return
	}
	panic("no such deed: " + s.Do)
}

// dice returns what a step decides while it runs.
func (w *World) dice(s Step) *rand.Rand { return rand.New(rand.NewPCG(w.plan.Seed, uint64(s.ID))) }

// now is the time since the world began.
func (w *World) now() time.Duration { return time.Since(w.began) }

// note puts something that happened into the run's record.
func (w *World) note(who int, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.now()
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(w.hash, "%d %d %s\n", at, who, text)
	if w.lines {
		w.report.Lines = append(w.report.Lines, fmt.Sprintf("%9.3fs  p%d %s", at.Seconds(), who, text))
	}
}

// violated notes that an invariant does not hold.
func (w *World) violated(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.note(-1, "VIOLATION %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Violations = append(w.report.Violations, text)
}

// count changes the report's counts.
func (w *World) count(f func(*Report)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.report)
}

// breaks notes that n faults begin or, with n < 0, end. With 0 it notes one that is over already.
func (w *World) breaks(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken += n
	w.healed = w.now()
}

// fault does what breaks something, and mends it in the end.
func (w *World) fault(do func()) {
	w.breaks(1)
	defer w.breaks(-1)
	do()
}

// calm returns when the last fault ended; the end of all time if one is going on.
func (w *World) calm() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken > 0 {
		return model.Never / 2
	}
	return w.healed
}

// within waits until cond holds, at most d, and says whether it does.
func (w *World) within(d time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(d); ; time.Sleep(50 * time.Millisecond) {
		if cond() {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

// admin opens a session that no fault concerns.
func (w *World) admin() (*client.Session, error) {
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	opt := client.Options{SessionTimeout: w.plan.Timeout, Dial: w.net.Dialer("admin")}
	return client.Open(ctx, keeperAddress, clock.With(opt, systemClock))
}

const adminPatience = 10 * time.Second
