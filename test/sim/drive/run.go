package drive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/test/sim/world"
)

// A Summary is what came of many seeds.
type Summary struct {
	Seeds, Grants, Losses, Refusals int
	Failed                          []*world.Report // with violations, by seed
	Wall, CPU                       time.Duration
	Hash                            uint64 // of all reports, whatever the order in which they came
}

// String is one line, for those that search logs.
func (s *Summary) String() string {
	violations := 0
	for _, r := range s.Failed {
		violations += len(r.Violations)
	}
	return fmt.Sprintf("sim: seeds=%d schedules_per_second=%.0f per_core=%.0f violations=%d grants=%d losses=%d refusals=%d hash=%016x",
		s.Seeds, float64(s.Seeds)/s.Wall.Seconds(), float64(s.Seeds)/s.CPU.Seconds(), violations, s.Grants, s.Losses, s.Refusals, s.Hash)
}

// How many seeds a process of a worker runs: many, because it takes as long as some of them to start, but all
// processes shall have something to do until the end.
const (
	chunkMin = 50
	chunkMax = 200
)

// Seeds runs n seeds in up to procs processes at once. If stop is set, it ends soon after the first violation:
// no seed before that is left out.
func (w *Worker) Seeds(from uint64, n, procs int, stop bool) (*Summary, error) {
	sum := &Summary{}
	began := time.Now()
	var mu sync.Mutex
	var failure error
	next, end := from, from+uint64(n)
	take := func() (seed uint64, count int) {
		mu.Lock()
		defer mu.Unlock()
		if failure != nil || stop && len(sum.Failed) > 0 {
			return 0, 0
		}
		left := int(end - next)
		seed, count = next, min(max(left/(2*procs), chunkMin), chunkMax, left)
		next += uint64(count)
		return seed, count
	}
	var wg sync.WaitGroup
	for range procs {
		wg.Go(func() {
			for seed, count := take(); count > 0; seed, count = take() {
				reports, cpu, err := w.run(task{from: seed, count: count, stop: stop})
				mu.Lock()
				for _, r := range reports {
					sum.add(r)
				}
				sum.CPU += cpu
				if err != nil {
					failure = err
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	sum.Wall = time.Since(began)
	return sum, failure
}

func (s *Summary) add(r *world.Report) {
	s.Seeds++
	s.Grants, s.Losses, s.Refusals = s.Grants+r.Grants, s.Losses+r.Losses, s.Refusals+r.Refusals
	s.Hash += r.Hash * (2*r.Seed + 1)
	if len(r.Violations) > 0 {
		i := len(s.Failed)
		for i > 0 && s.Failed[i-1].Seed > r.Seed {
			i--
		}
		s.Failed = append(s.Failed[:i:i], append([]*world.Report{r}, s.Failed[i:]...)...)
	}
}

// Plan runs one plan and reports all that happened.
func (w *Worker) Plan(p *world.Plan) (*world.Report, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	reports, _, err := w.run(task{from: p.Seed, count: 1, plan: b, lines: true})
	if err != nil {
		return nil, err
	}
	return reports[0], nil
}

// Range runs the seeds from one to another in one process, and reports of the last all that happened.
func (w *Worker) Range(from, to uint64) ([]*world.Report, error) {
	reports, _, err := w.run(task{from: from, count: int(to-from) + 1, lines: true})
	return reports, err
}

// A task is what a process of a worker is to do.
type task struct {
	from  uint64
	count int    // of seeds
	plan  []byte // instead of the seed's
	stop  bool   // with the first violation
	lines bool   // all that happened in the last seed is reported
}

func (t task) args() []string {
	args := []string{"-test.run=^TestSeeds$", fmt.Sprint("-sim.first=", t.from), fmt.Sprint("-sim.count=", t.count)}
	for flag, set := range map[string]bool{"-sim.plan": t.plan != nil, "-sim.stop": t.stop, "-sim.lines": t.lines} {
		if set {
			args = append(args, flag)
		}
	}
	return args
}

// run carries out a task and returns a report of each seed. A seed that takes the worker down gets one that
// says so, and the others are run without it.
func (w *Worker) run(t task) (reports []*world.Report, cpu time.Duration, err error) {
	for t.count > 0 {
		began := t.from
		got, used, broke, err := w.process(t.args(), t.plan)
		cpu += used
		if err != nil {
			return reports, cpu, err
		}
		reports = append(reports, got...)
		t.from, t.count = t.from+uint64(len(got)), t.count-len(got)
		if t.stop && len(got) > 0 && len(got[len(got)-1].Violations) > 0 {
			break
		}
		if t.count > 0 {
			reports = append(reports, &world.Report{Seed: t.from, From: began, Violations: []string{"the run broke off: " + broke}})
			t.from, t.count = t.from+1, t.count-1
		}
	}
	return reports, cpu, nil
}

// silenceMax is how long a worker may take for one seed before it is given up: virtual time stands still.
const silenceMax = time.Minute

// process runs a worker's process to its end.
func (w *Worker) process(args []string, stdin []byte) (reports []*world.Report, cpu time.Duration, broke string, err error) {
	cmd := exec.Command(w.Path, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Stdin = bytes.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, "", err
	}
	silent := false
	watchdog := time.AfterFunc(silenceMax, func() {
		silent = true
		cmd.Process.Kill()
	})
	var rest []string // what is no report, such as a panic
	for in := bufio.NewReader(out); ; {
		line, rerr := in.ReadString('\n')
		watchdog.Reset(silenceMax)
		if text, ok := strings.CutPrefix(line, "@report "); ok && rerr == nil {
			r := new(world.Report)
			if err := json.Unmarshal([]byte(text), r); err != nil {
				return nil, 0, "", err
			}
			reports = append(reports, r)
		} else if line := strings.TrimSpace(line); line != "" {
			rest = append(rest, line)
		}
		if rerr != nil {
			break
		}
	}
	cmd.Wait() // its status is in what it reported, or broke off at
	watchdog.Stop()
	cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	rest = append(rest, strings.Split(errs.String(), "\n")...)
	return reports, cpu, reason(rest, silent), nil
}

// reason finds what says most in the output of a process that broke off.
func reason(lines []string, silent bool) string {
	if silent {
		return fmt.Sprintf("no end within %v: virtual time stands still", silenceMax)
	}
	for _, l := range lines {
		for _, mark := range []string{"panic: ", "fatal error: ", "deadlock: "} {
			if i := strings.Index(l, mark); i >= 0 {
				return l[i:]
			}
		}
	}
	return strings.Join(lines[:min(len(lines), 5)], "; ")
}
