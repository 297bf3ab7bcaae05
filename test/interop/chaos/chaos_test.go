package chaos

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/netns"
)

var (
	rigFlag  = flag.String("chaos.rig", "proxy", "proxy, or netns: hosts in network namespaces")
	minutes  = flag.Float64("chaos.minutes", 0.75, "how long faults happen")
	seedFlag = flag.Uint64("chaos.seed", 0, "of the schedule; 0 for a fresh one")
	results  = flag.String("chaos.results", "../../../results", "folder for histories that are violations")
)

// insideVariable is the environment variable of a process that has namespaces of its own.
const insideVariable = "LOCKKEEPER_CHAOS_INSIDE"

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	if config := os.Getenv(clientVariable); config != "" {
		if err := runClient(config, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			return 1
		}
		return 0
	}
	if err := apache.Require(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch {
	case *rigFlag == "proxy":
		return m.Run()
	case *rigFlag != "netns":
		fmt.Fprintf(os.Stderr, "no such rig: %s\n", *rigFlag)
		return 1
	case os.Getenv(insideVariable) == "":
		return inside()
	}
	var err error
	if network, err = netns.New(); err != nil {
		fmt.Fprintln(os.Stderr, "network:", err)
		return 1
	}
	return m.Run()
}

// network is for the rig "netns"; nil for the other.
var network *netns.Network

// inside runs this binary again, with namespaces of its own.
func inside() int {
	cmd := netns.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "namespaces of our own:", err)
		return 1
	}
	return cmd.ProcessState.ExitCode()
}

// sideBySide lets a test run beside the others, unless they share one network: each has an ensemble of its own and
// mostly waits.
func sideBySide(t *testing.T) {
	if network == nil {
		t.Parallel()
	}
}

// All kinds of faults on a real ensemble, and no violation. It prints one line that begins with "chaos:".
func TestChaos(t *testing.T) {
	sideBySide(t)
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	fmt.Printf("seed %d\n", seed)
	r := newRun(t, network, fmt.Sprintf("%s-%d", *rigFlag, seed), seed, sessionTimeout, ensembleConfig)
	length := time.Duration(*minutes * float64(time.Minute))
	r.torment(newSchedule(seed, r.rig.faults()), length)
	r.conclude("chaos", seed)
}

// A seed is a schedule: the same steps at every run.
func TestScheduleRepeats(t *testing.T) {
	a, b := newSchedule(7, anyRig), newSchedule(7, anyRig)
	seen := map[fault]bool{}
	for range anyRig {
		st := a.next()
		if got := b.next(); got.String() != st.String() || got.which != st.which || got.clients != st.clients {
			t.Errorf("%v, the second time %v", st, got)
		}
		for _, f := range st.faults {
			seen[f] = true
		}
		if st.length < lengthMin || st.length > lengthMax || st.calm < calmMin || st.calm > calmMax {
			t.Errorf("out of bounds: %v", st)
		}
	}
	for _, f := range anyRig {
		if !seen[f] {
			t.Errorf("%s was not in the first round", f)
		}
	}
	if c := newSchedule(8, anyRig); slices.EqualFunc([]step{c.next(), c.next()}, []step{a.next(), a.next()}, func(x, y step) bool { return x.String() == y.String() }) {
		t.Error("another seed, the same steps")
	}
}

// conclude ends the clients, judges what they did and prints one line about it that begins with machine.
func (r *run) conclude(machine string, seed uint64) {
	r.t.Helper()
	end := now()
	h := r.history()
	violations := judge(r.t, h, *results, r.name)
	for _, v := range violations {
		r.t.Error(v)
	}
	lost, stale := 0, 0
	for _, h := range h.holds {
		if h.lost {
			lost++
		}
	}
	for _, o := range h.operations {
		if o.stale {
			stale++
		}
	}
	for text, n := range h.failures {
		r.t.Logf("%d × %s", n, text)
	}
	fmt.Printf("%s: minutes=%.2f faults=%d grants=%d longest_gap=%.1fs violations=%d lost=%d refused=%d rig=%s seed=%d\n", machine,
		time.Duration(end-r.begin).Minutes(), r.faults, len(h.holds), h.longestGap(r.begin, end, keyOf).Seconds(), len(violations), lost, stale, *rigFlag, seed)
	if len(h.holds) < 10*len(keys) {
		r.t.Errorf("%d grants: nothing was shown", len(h.holds))
	}
}
