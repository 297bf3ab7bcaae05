package fire

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

var (
	grants = flag.Int("fire.grants", 40, "how many children to let run")
	seed   = flag.Uint64("fire.seed", 0, "for what is random; 0 for another one each time")
)

const (
	atOnce         = 16 // runs that hold or wait
	locks          = 3
	sessionTimeout = 4 * time.Second // the least that a keeper grants
	faultEvery     = 200 * time.Millisecond
	thawAfter      = 2 * sessionTimeout
	// stuckAfter is how long there may be no grant: the keeper gives a lock of the dead away after the
	// session timeout and a tick, and again if the next one dies, too.
	stuckAfter = 2 * time.Minute
	// gone bounds how long processes may take to end when nothing keeps them.
	gone = time.Minute
)

// child is what runs under a lock: FIRE is the register's folder, $1 the lock's name. It and all that it
// starts keep the register locked; one of them leaves the process group. Told to end, the child waits for that one: what has a
// session of its own and outlives the command is a daemon, which the lock does not cover.
const child = `
trap 'wait; exit 143' TERM
exec 9>>"$FIRE/$1.lock"
flock -n 9 || { echo "$LOCKKEEPER_TOKEN runs beside what is left of another holder of $1" >>"$FIRE/violations"; exit 3; }
last=$(cat "$FIRE/$1.token" 2>/dev/null || echo 0)
[ "$LOCKKEEPER_TOKEN" -gt "$last" ] || echo "token $LOCKKEEPER_TOKEN of $1 comes after $last" >>"$FIRE/violations"
echo "$LOCKKEEPER_TOKEN" >"$FIRE/$1.new" && mv "$FIRE/$1.new" "$FIRE/$1.token" # whole or not at all, if the shell is killed
echo "$1 $LOCKKEEPER_TOKEN" >>"$FIRE/grants"
sleep 0.1 &
setsid --wait sleep 0.1 &
wait
sleep 0.05
`

// A rig is one run of the test.
type rig struct {
	t    *testing.T
	name string // of the mark
	dir  string
	lk   string // the command
	rng  *rand.Rand

	runs   sync.WaitGroup
	over   chan struct{} // closed when no further run shall begin
	mu     sync.Mutex
	begun  int
	status map[int]int // how often a run ended with each exit status; -1 for those that were killed
}

func TestCommandUnderFire(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := newRig(t)
	defer r.putOut()
	began := time.Now()
	for range atOnce {
		r.runs.Go(r.run)
	}
	faults := r.attack()
	close(r.over)
	r.putOutRuns()
	violations := r.lines("violations")
	r.mu.Lock()
	t.Logf("fire: runs=%d grants=%d faults=%d seconds=%.0f statuses=%v violations=%d seed=%d",
		r.begun, len(r.lines("grants")), faults, time.Since(began).Seconds(), r.status, len(violations), *seed)
	r.mu.Unlock()
	for _, v := range violations {
		t.Error(v)
	}
	// Nothing is left but the keeper, and the locks are free.
	for deadline := time.Now().Add(gone); ; time.Sleep(100 * time.Millisecond) {
		left := slices.DeleteFunc(processes(r.name), func(p process) bool { return p.role == keeper })
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("still there: %v", left)
			break
		}
	}
	for i := range locks {
		if out, err := r.command("run", "--wait=1m", lockName(i), "--", "true").CombinedOutput(); err != nil {
			t.Errorf("%s is not free: %v\n%s", lockName(i), err, out)
		}
	}
}

func newRig(t *testing.T) *rig {
	dir, err := os.MkdirTemp("", "lk-fire-") // short, for the socket's sake
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{t: t, name: filepath.Base(dir), dir: dir, lk: filepath.Join(dir, "lockkeeper"), rng: rand.New(rand.NewPCG(*seed, 0)),
		over: make(chan struct{}), status: map[int]int{}}
	if err := proc.BuildCommand(r.lk); err != nil {
		t.Fatal(err)
	}
	return r
}

func lockName(i int) string { return fmt.Sprint("lock", i) }

// command returns the command with these arguments, as the next run.
func (r *rig) command(args ...string) *exec.Cmd {
	r.mu.Lock()
	r.begun++
	run := r.begun
	r.mu.Unlock()
	cmd := exec.Command(r.lk, args...)
	cmd.Env = append(os.Environ(), "HOME="+r.dir, "XDG_STATE_HOME="+r.dir+"/state", "XDG_RUNTIME_DIR="+r.dir,
		"LOCKKEEPER_SERVERS=local", "FIRE="+r.dir, fmt.Sprintf("%s=%s/%d", mark, r.name, run))
	return cmd
}

// run runs the command again and again.
func (r *rig) run() {
	for {
		select {
		case <-r.over:
			return
		default:
		}
		r.mu.Lock()
		lock := lockName(r.rng.IntN(locks))
		r.mu.Unlock()
		cmd := r.command("run", "--session-timeout", sessionTimeout.String(), "--grace", "200ms", lock, "--", "sh", "-c", child, "child", lock)
		cmd.Run() // its status says it all
		r.mu.Lock()
		r.status[cmd.ProcessState.ExitCode()]++
		r.mu.Unlock()
	}
}

// attack kills and freezes until there were enough grants, and returns how often.
func (r *rig) attack() (faults int) {
	last, lastAt := 0, time.Now()
	var frozen sync.WaitGroup
	defer frozen.Wait()
	for {
		time.Sleep(faultEvery)
		switch n := len(r.lines("grants")); {
		case n >= *grants:
			return faults
		case n > last:
			last, lastAt = n, time.Now()
		case time.Since(lastAt) > stuckAfter:
			r.t.Errorf("no grant for %v; there are %v", stuckAfter, processes(r.name))
			return faults
		}
		if len(r.lines("violations")) > 0 {
			return faults
		}
		faults++
		r.fault(&frozen)
	}
}

// fault kills or freezes the keeper, or up to two of the three processes of a run.
func (r *rig) fault(frozen *sync.WaitGroup) {
	all := processes(r.name)
	if len(all) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	victim := all[r.rng.IntN(len(all))]
	hit := []process{victim}
	if victim.role != keeper && r.rng.IntN(2) == 0 {
		for _, p := range all {
			if p.run == victim.run && p.role != victim.role {
				hit = append(hit, p)
				break
			}
		}
	}
	for _, p := range hit {
		if r.rng.IntN(2) == 0 {
			syscall.Kill(p.pid, syscall.SIGKILL) // or it was faster
			continue
		}
		syscall.Kill(p.pid, syscall.SIGSTOP)
		after, sig := time.Duration(r.rng.Int64N(int64(thawAfter))), syscall.SIGCONT
		if r.rng.IntN(3) == 0 {
			sig = syscall.SIGKILL
		}
		frozen.Go(func() {
			time.Sleep(after)
			syscall.Kill(p.pid, sig)
		})
	}
}

// putOutRuns ends what runs, as an operator would, and waits for it.
func (r *rig) putOutRuns() {
	done := make(chan struct{})
	go func() { r.runs.Wait(); close(done) }()
	limit := time.After(gone)
	for {
		for _, p := range processes(r.name) {
			if p.role == front {
				syscall.Kill(p.pid, syscall.SIGTERM)
			}
		}
		select {
		case <-done:
			return
		case <-limit:
			r.t.Fatalf("runs do not end: %v", processes(r.name))
		case <-time.After(time.Second):
		}
	}
}

// putOut ends everything.
func (r *rig) putOut() {
	for _, p := range processes(r.name) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
}

// lines returns the lines of a file of the register.
func (r *rig) lines(file string) []string {
	b, _ := os.ReadFile(filepath.Join(r.dir, file))
	return strings.FieldsFunc(string(b), func(c rune) bool { return c == '\n' })
}

// TestRegisterBites lets two children run at once, without a lock; again, if one was over before the other began.
func TestRegisterBites(t *testing.T) {
	r := &rig{dir: t.TempDir()}
	for try := 0; !strings.Contains(strings.Join(r.lines("violations"), "\n"), "runs beside"); try++ {
		if try == 20 {
			t.Fatal("two at once were not noticed")
		}
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				cmd := exec.Command("sh", "-c", child, "child", "lock")
				cmd.Env = append(os.Environ(), "FIRE="+r.dir, "LOCKKEEPER_TOKEN="+strconv.Itoa(2*try+i+1))
				cmd.Run()
			})
		}
		both.Wait()
	}
}
