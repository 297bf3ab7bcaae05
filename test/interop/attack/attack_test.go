package attack

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

var (
	howLong = flag.Duration("attack.time", time.Second, "how long each attack lasts")
	full    = flag.Bool("attack.full", false, "also limit latencies, and attack Apache ZooKeeper; wants a machine to itself")
	beside  = flag.Bool("attack.apache", true, "attack Apache ZooKeeper too, if full")
	only    = flag.String("attack.only", "", "a part of the names of the attacks to run; all if empty")
	counter = flag.String("attack.counter", "", "a file that counts the random frames of all runs")
	build   = flag.String("attack.binary", "", "the command to attack; built if empty")
)

// What must hold under every attack. Latencies are those beyond what the machine alone makes a client wait meanwhile.
const (
	rssMax   = 512 << 20 // beyond what the server had before the attack
	p99Max   = 50 * time.Millisecond
	worstMax = 500 * time.Millisecond
)

// shortNames is by how much the large directories are smaller in the short form, which would take most of its time to
// make them.
const shortNames = 4

// The environment of an attacker's process: which attack, where, and for how long.
const (
	nameVariable = "ATTACK_NAME"
	addrVariable = "ATTACK_ADDR"
	timeVariable = "ATTACK_TIME"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(nameVariable); name != "" {
		attackFrom(name)
		return
	}
	if os.Getenv(controlVariable) != "" {
		if err := echo(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(apache.Main(m))
}

// attackFrom is the attacker's process. It prints how many random frames it has sent. It ends with its time and waits for
// no connection: behind others on a busy machine it may get a hundredth of a processor, and fifty frames that are half
// made would keep it for half a minute.
func attackFrom(name string) {
	d, _ := time.ParseDuration(os.Getenv(timeVariable))
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for _, a := range attacks {
		if a.name == name {
			go a.run(ctx, os.Getenv(addrVariable))
		}
	}
	<-ctx.Done()
	fmt.Println(fuzzed.Load())
}

// result is what one attack did to one server.
type result struct {
	crashed     bool
	rss         int64 // peak beyond what there was before
	p99, max    time.Duration
	machine     latencies // of the control
	failed      int       // requests of the victim
	lost        int       // healthy sessions
	frames      int64
	unprepared  error
	unsupported bool
}

func (r result) String() string {
	switch {
	case r.unsupported:
		return fmt.Sprintf("%6s %8s %8s %6s", "-", "-", "-", "-")
	case r.unprepared != nil:
		return fmt.Sprintf("not prepared: %v", r.unprepared)
	}
	crashed := ""
	if r.crashed {
		crashed = " CRASHED"
	}
	return fmt.Sprintf("%5dM %8s %8s %6d%s", r.rss>>20, millis(r.p99), millis(r.max), r.lost, crashed)
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1fms", d.Seconds()*1000) }

// held reports whether the server kept what is promised.
func (r result) held(latencies bool) bool {
	return r.unprepared == nil && !r.crashed && r.lost == 0 && r.rss <= rssMax &&
		(!latencies || r.p99 <= p99Max+r.machine.quantile(0.99) && r.max <= worstMax+r.machine.max() && r.failed == 0)
}

func TestAttacks(t *testing.T) {
	binary := *build
	if binary == "" {
		binary = filepath.Join(t.TempDir(), "lockkeeper")
		if err := proc.BuildCommand(binary); err != nil {
			t.Fatal(err)
		}
	}
	const heading = "%6s %8s %8s %6s"
	columns := fmt.Sprintf(heading, "memory", "p99", "max", "lost")
	if *full {
		t.Logf("load before: %s", load())
	}
	if !*full {
		names /= shortNames
	}
	var (
		mu         sync.Mutex // the following
		held, rows int
		line       = "%-38s | %-31s | %-17s | %s\n"
		table      = fmt.Sprintf(line, "", "this server", "the machine alone", "Apache ZooKeeper")
	)
	table += fmt.Sprintf(line, "attack", columns, fmt.Sprintf("%8s %8s", "p99", "max"), columns)
	t.Run("each", func(t *testing.T) {
		for _, a := range attacks {
			if !strings.Contains(a.name, *only) {
				continue
			}
			t.Run(strings.ReplaceAll(a.name, " ", "-"), func(t *testing.T) {
				if !*full {
					t.Parallel() // each has a server of its own, and latencies are not looked at
				}
				ours := runAttack(t, startOurs(t, binary, nil), a)
				if !ours.held(*full) {
					t.Errorf("%s: %v, %d of the victim's requests failed; by the machine alone: p99 %v, max %v",
						a.name, ours, ours.failed, ours.machine.quantile(0.99), ours.machine.max())
				}
				theirs := result{unsupported: true}
				if *full && *beside && !a.secure {
					theirs = runAttack(t, startApache(t), a)
				}
				machine := fmt.Sprintf("%8s %8s", millis(ours.machine.quantile(0.99)), millis(ours.machine.max()))
				row := fmt.Sprintf(line, a.name, ours, machine, theirs)
				t.Log(row)
				mu.Lock()
				defer mu.Unlock()
				countFrames(t, ours.frames)
				table += row
				rows++
				if ours.held(*full) {
					held++
				}
			})
		}
	})
	t.Log("\n" + table)
	t.Logf("attack: rows=%d held=%d violations=%d load=%s", rows, held, rows-held, load())
}

// runAttack prepares a server, opens the victim's sessions, attacks, and measures.
func runAttack(t *testing.T, s *target, a attack) (r result) {
	ctx := t.Context()
	if a.prepare != nil {
		if err := a.prepare(ctx, s.addr); err != nil {
			return result{unprepared: err}
		}
	}
	v := newVictim(t, s.addr)
	defer v.close()
	c := startControl(t)
	before := s.rss()

	var watching sync.WaitGroup
	over, peak := make(chan struct{}), int64(0)
	s.watchMemory(&watching, over, &peak)
	attacker := startAttacker(t, s, a)
	measuring, stop := context.WithTimeout(ctx, *howLong)
	alone := make(chan latencies, 1)
	go func() { alone <- c.watch(measuring) }()
	l := v.watch(measuring)
	stop()
	machine := <-alone
	out, err := attacker.wait()
	if err != nil {
		t.Errorf("the attacker: %v: %s", err, out)
	}
	close(over)
	watching.Wait()
	r = result{
		crashed: s.dead(), rss: peak - before, p99: l.quantile(0.99), max: l.max(),
		failed: l.failed, lost: v.lost(), machine: machine,
	}
	r.frames, _ = strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	return r
}

type attacker struct {
	cmd *exec.Cmd
	out strings.Builder
}

// startAttacker runs the attack in a process that the victim's takes precedence over: a stranger has a machine of
// its own.
func startAttacker(t *testing.T, s *target, a attack) *attacker {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr := s.addr
	if a.secure {
		addr = s.secure
	}
	k := &attacker{cmd: exec.Command(self)}
	k.cmd.Env = append(os.Environ(), nameVariable+"="+a.name, addrVariable+"="+addr, timeVariable+"="+howLong.String())
	k.cmd.Stdout, k.cmd.Stderr = &k.out, &k.out
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	syscall.Setpriority(syscall.PRIO_PROCESS, k.cmd.Process.Pid, attackerNice)
	return k
}

// attackerNice is how far the attacker's process stands back.
const attackerNice = 10

func (k *attacker) wait() (string, error) {
	// The attacker ends by itself; this is for one that hangs.
	alarm := time.AfterFunc(*howLong+30*time.Second, func() { k.cmd.Process.Kill() })
	defer alarm.Stop()
	err := k.cmd.Wait()
	return k.out.String(), err
}

// countFrames adds the random frames of this run to those of the runs before.
func countFrames(t *testing.T, n int64) {
	t.Helper()
	if *counter == "" || n == 0 {
		return
	}
	b, _ := os.ReadFile(*counter)
	sum, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	sum += n
	if err := os.WriteFile(*counter, fmt.Appendln(nil, sum), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("attack: frames=%d frames_of_all_runs=%d", n, sum)
}

// load is the machine's load average.
func load() string {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	return first
}
