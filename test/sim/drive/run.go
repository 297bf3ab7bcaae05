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

// String is one line, for those who search logs.
func (s *Summary) String() string {
	violations := 0
	for _, r := range s.Failed {
		violations += len(r.Violations)
	}
	return fmt.Sprintf("sim: seeds=%d schedules_per_second=%.0f per_core=%.0f violations=%d grants=%d losses=%d refusals=%d hash=%016x",
		s.Seeds, float64(s.Seeds)/s.Wall.Seconds(), float64(s.Seeds)/s.CPU.Seconds(), violations, s.Grants, s.Losses, s.Refusals, s.Hash)
}

// ChunkSeeds is how many seeds a process of a worker runs. What exactly a seed does depends, in rare cases, on
// those that the process has run before.
const ChunkSeeds = 50

// Seeds runs n seeds in up to procs processes at once. If first is set, it ends soon after the first violation.
func (w *Worker) Seeds(from uint64, n, procs int, first bool) (*Summary, error) {
	sum := &Summary{}
	began := time.Now()
	var mu sync.Mutex
	var failure error
	next, end := from, from+uint64(n)
	take := func() (seed uint64, count int) {
		mu.Lock()
		defer mu.Unlock()
		if failure != nil || first && len(sum.Failed) > 0 {
			return 0, 0
		}
		seed, count = next, int(min(ChunkSeeds, end-next))
		next += uint64(count)
		return seed, count
	}
	var wg sync.WaitGroup
	for range procs {
		wg.Go(func() {
			for seed, count := take(); count > 0; seed, count = take() {
				reports, cpu, err := w.chunk(seed, count, nil)
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
	reports, _, err := w.chunk(p.Seed, 1, b)
	if err != nil {
		return nil, err
	}
	return reports[0], nil
}

// chunk runs some seeds, or a plan, and returns a report of each. A seed that takes the worker down gets one
// that says so, and the others are run without it.
func (w *Worker) chunk(from uint64, n int, plan []byte) (reports []*world.Report, cpu time.Duration, err error) {
	for end := from + uint64(n); from < end; {
		args := []string{"-test.run=^TestSeeds$", fmt.Sprint("-sim.first=", from), fmt.Sprint("-sim.count=", end-from)}
		if plan != nil {
			args = append(args, "-sim.plan", "-sim.lines")
		}
		got, used, broke, err := w.process(args, plan)
		cpu += used
		if err != nil {
			return reports, cpu, err
		}
		reports = append(reports, got...)
		from += uint64(len(got))
		if from < end {
			reports = append(reports, &world.Report{Seed: from, Violations: []string{"the run broke off: " + broke}})
			from++
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
		} else if line = strings.TrimSpace(line); line != "" {
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
