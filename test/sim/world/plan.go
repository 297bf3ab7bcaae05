package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
)

// A Plan is everything that a seed decides before the run begins.
type Plan struct {
	Seed      uint64
	Processes int
	Timeout   time.Duration // of sessions
	Tick      time.Duration // of the server
	Latency   time.Duration // of the network, one way
	Sync      time.Duration // that the disk takes
	Followers int           // beside the leader; clients know all of them
	Vouch     client.Vouch  // of all locks
	Keys      int           // how many locks of a kind are used
	Steps     []Step        // by At
}

// A Step is one thing that is done at one moment. What its numbers mean depends on what is done.
type Step struct {
	ID      int           `json:"id"` // as it was planned; what the step does at random follows from it
	At      time.Duration `json:"at"`
	Do      string        `json:"do"`
	Who     int           `json:"who,omitempty"` // process
	Aim     bool          `json:"aim,omitempty"` // it hits the process that has come in last, if one is inside
	Key     int           `json:"key,omitempty"` // which of the locks or znodes of the kind
	N       int           `json:"n,omitempty"`
	Wait    time.Duration `json:"wait,omitempty"`    // limit of the first call
	For     time.Duration `json:"for,omitempty"`     // how long it holds or lasts
	Release time.Duration `json:"release,omitempty"` // limit of the last call
}

func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%9.3fs  #%-3d p%d %-10s", s.At.Seconds(), s.ID, s.Who, s.Do)
	if s.Aim {
		b.WriteString(" aimed")
	}
	for _, f := range []struct {
		name  string
		value int64
		text  string
	}{
		{"key", int64(s.Key), fmt.Sprint(s.Key)},
		{"n", int64(s.N), fmt.Sprint(s.N)},
		{"wait", int64(s.Wait), s.Wait.String()},
		{"for", int64(s.For), s.For.String()},
		{"release", int64(s.Release), s.Release.String()},
	} {
		if f.value != 0 {
			fmt.Fprintf(&b, " %s=%s", f.name, f.text)
		}
	}
	return b.String()
}

// String shows the plan as a script.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d processes, %d followers, timeout %v, tick %v, latency %v, sync %v, vouching by %v\n",
		p.Seed, p.Processes, p.Followers, p.Timeout, p.Tick, p.Latency, p.Sync, p.Vouch)
	for _, s := range p.Steps {
		fmt.Fprintln(&b, s)
	}
	return b.String()
}

// A deed is something that steps do.
type deed struct {
	name   string
	weight int                       // of all deeds of its kind
	plan   func(d *dice, s *Step)    // chooses the step's numbers
	run    func(w *World, step Step) // on a goroutine of its own, of the step's process if it is work
}

// dice are what plans are made with.
type dice struct {
	*rand.Rand
	plan *Plan
}

// upTo returns a duration below the one or the other limit, with the small ones as likely as the large.
func (d *dice) upTo(limits ...time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(limits[d.IntN(len(limits))]))) + 1
}

// turmoil is for how long steps are begun.
const turmoil = 16 * time.Second

// NewPlan returns the plan of a seed.
func NewPlan(seed uint64) *Plan {
	p := &Plan{Seed: seed}
	d := &dice{rand.New(rand.NewPCG(seed, 0)), p}
	p.Processes = 2 + d.IntN(3)
	p.Timeout = 4 * time.Second
	p.Tick = []time.Duration{500 * time.Millisecond, 1200 * time.Millisecond}[d.IntN(2)]
	p.Latency = d.upTo(time.Millisecond, 5*time.Millisecond)
	p.Sync = d.upTo(time.Millisecond, 5*time.Millisecond)
	if d.IntN(3) == 0 {
		p.Followers = 2
	}
	p.Vouch = []client.Vouch{client.VouchSync, client.VouchSync, client.VouchSync, client.VouchWrite, client.VouchPing}[d.IntN(5)]
	p.Keys = 1 + d.IntN(6)/5
	work, trouble := 8+d.IntN(16), d.IntN(10)
	if d.IntN(4) == 0 {
		scenes[d.IntN(len(scenes))](d)
		work, trouble = work/3, trouble/4
	}
	d.add(d.some(works), work)
	pool := d.some(faults)
	if p.Followers > 0 {
		pool = append(pool, ensembleFaults...)
	}
	d.add(pool, trouble)
	d.Rand = rand.New(rand.NewPCG(seed, 1<<32))
	if d.IntN(3) == 0 {
		d.add(closings, 1+d.IntN(3))
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}

// some returns some of the deeds, at least one: plans that leave much out get deeper into the rest.
func (d *dice) some(deeds []deed) []deed {
	left := slices.DeleteFunc(slices.Clone(deeds), func(deed) bool { return d.IntN(3) > 0 })
	if len(left) == 0 {
		left = slices.Clone(deeds[d.IntN(len(deeds)):][:1])
	}
	return left
}

// add plans n steps of some deeds.
func (d *dice) add(deeds []deed, n int) {
	total := 0
	for _, k := range deeds {
		total += k.weight
	}
	for range n {
		pick := d.IntN(total)
		i := 0
		for ; pick >= deeds[i].weight; i++ {
			pick -= deeds[i].weight
		}
		s := Step{ID: len(d.plan.Steps) + 1, At: time.Duration(d.Int64N(int64(turmoil))), Do: deeds[i].name, Who: d.IntN(d.plan.Processes)}
		deeds[i].plan(d, &s)
		d.plan.Steps = append(d.plan.Steps, s)
	}
}

// Everything returns a plan that does everything once.
func Everything() *Plan {
	p := &Plan{Processes: 2, Timeout: 4 * time.Second, Tick: 500 * time.Millisecond, Latency: 1, Sync: 1, Followers: 2, Keys: 2}
	d := &dice{rand.New(rand.NewPCG(0, 0)), p}
	for _, deeds := range [][]deed{works, closings, faults, ensembleFaults} {
		for i := range deeds {
			d.add(deeds[i:i+1], 2)
		}
	}
	slices.SortStableFunc(p.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return p
}
