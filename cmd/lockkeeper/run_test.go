//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Nothing is installed or configured; eight shells start at the same moment. One of them starts the
// keeper, and no two are ever inside together: the register is a file that only one can create.
func TestEightShellsNeverOverlap(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const shells, rounds = 8, 4
	script := fmt.Sprintf(`
for i in $(seq %d); do
	"$LK" run demo -- sh -c 'set -C; : > "$DIR/register" || { echo OVERLAP; exit 1; }; echo "$LOCKKEEPER_TOKEN" >> "$DIR/tokens"; rm "$DIR/register"' || echo "STATUS $?"
done`, rounds)
	var jobs []*job
	for range shells {
		jobs = append(jobs, h.startWith(func(c *exec.Cmd) {
			c.Path, c.Args = "/bin/sh", []string{"sh", "-c", script}
		}))
	}
	for _, j := range jobs {
		j.want(0)
		if j.stdout.String() != "" {
			t.Errorf("a shell says %s%s", j.stdout, j.stderr)
		}
	}
	b, err := os.ReadFile(h.dir + "/tokens")
	if err != nil {
		t.Fatal(err)
	}
	last, tokens := int64(0), strings.Fields(string(b))
	for _, f := range tokens {
		token, err := strconv.ParseInt(f, 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %q after %d", f, last)
		}
		last = token
	}
	if len(tokens) != shells*rounds {
		t.Errorf("%d runs, want %d", len(tokens), shells*rounds)
	}
	log, err := os.ReadFile(h.dir + "/state/lockkeeper/keeper.log")
	if err != nil || strings.Count(string(log), "local keeper ready") != 1 {
		t.Errorf("not exactly one keeper was started: %v\n%s", err, log)
	}
	said := 0
	for _, j := range jobs {
		said += strings.Count(j.stderr.String(), "was started in the background")
	}
	if said != 1 {
		t.Errorf("%d commands have said that a keeper was started, want 1", said)
	}
}

func TestF42_ExitStatuses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // it accepts, in the kernel, and never says a word
	plain := h.dir + "/plain"
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	script := h.dir + "/script"
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	holder := h.start("run", "taken", "--label", "nightly job", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")

	for _, c := range []struct {
		args   string // separated by blanks
		status int
		words  []string
	}{
		{"run free -- true", 0, nil},
		{"run free -- false", 1, nil},
		{"run --wait 0 free -- sh -c exit\x0042", 42, nil},
		{"run free -- sh -c kill\x00-INT\x00$$", 130, nil},
		{"run --wait 0 taken -- true", 75, []string{"taken", "nightly job", "pid"}},
		{"run --wait 100ms taken -- true", 75, []string{"taken", "100ms", "nightly job"}},
		{"run --wait 0 --busy-code 3 taken -- true", 3, nil},
		{"run --servers 127.0.0.1:1 --connect-timeout 300ms free -- true", 69, []string{"127.0.0.1:1", "refused", "lockkeeper status"}},
		{"run --servers " + silent.Addr().String() + " --connect-timeout 300ms free -- true", 69, []string{silent.Addr().String()}},
		{"locks --servers :0", 64, []string{":0"}},
		{"locks --servers=", 64, []string{"names no server"}},
		{"run --servers= free -- true", 64, []string{"names no server"}},
		{"run --servers a:b:c free -- true", 64, []string{"a:b:c"}},
		{"run free true", 64, []string{"--"}},
		{"run free --", 64, nil},
		{"run -- true", 64, nil},
		{"run --frob free -- true", 64, []string{"--frob", "--help"}},
		{"run free sh -c true", 64, []string{"behind --"}},
		{"run a/b -- true", 64, []string{"a/b", "/lockkeeper/locks/a/b", "a-b"}},
		{"run ../foo -- true", 64, []string{"../foo", "without slashes"}},
		{"run /a//b -- true", 64, []string{"/a//b"}},
		{"run / -- true", 64, nil},
		{"run /zookeeper/x -- true", 64, []string{"reserved"}},
		{"run .. -- true", 64, nil},
		{"run --grace 20s free -- true", 64, []string{"20s", "30s", "9s"}},
		{"run --session-timeout 1h --grace 25s free -- true", 64, []string{"1m0s", "25s"}}, // the keeper grants a minute
		{"run --session-timeout 1ms free -- true", 64, nil},
		{"run --wait -1s free -- true", 64, []string{"--wait"}},
		{"run --vouch maybe free -- true", 64, []string{"maybe", "sync"}},
		{"run --lost-code 256 free -- true", 64, []string{"256"}},
		{"run --status-file /no/such/dir/file free -- true", 73, []string{"/no/such/dir/file"}},
		{"run free -- /no/such/program", 127, []string{"/no/such/program"}},
		{"run free -- make\x00all", 127, []string{"make all: ", "there is no shell", "sh -c"}},
		{"join free -- make\x00all", 127, []string{"there is no shell"}},
		{"run free -- no-such-program-in-path", 127, []string{"no-such-program-in-path"}},
		{"run free -- " + plain, 126, []string{plain}},
		{"run free -- " + script, 127, []string{script, "its interpreter"}},
		{"frob", 64, []string{"frob", "lockkeeper --help"}},
		{"verson", 64, []string{`"verson"`, "did you mean version?)\n"}},
		{"--frob", 64, []string{"--frob", "see lockkeeper --help"}},
		{"server check --frob", 64, []string{"server check", "--frob", "see lockkeeper server check --help"}},
		{"break taken", 64, []string{"--force"}},
		{"break", 64, []string{"break: an argument is missing", "lockkeeper break LOCK"}},
		{"server check", 64, []string{"server check: an argument is missing", "lockkeeper server check DIR"}},
		{"server x", 64, []string{`"server x"`, "lockkeeper server --help"}},
		{"server chek", 64, []string{`"server chek"`, "did you mean check?"}},
		{"help server chek", 64, []string{`"server chek"`, "did you mean check?"}},
		{"help run x", 64, []string{`"run x"`}},
		{"run --wait 10 free -- true", 64, []string{"--wait", "a duration has a unit: 10s, 10m or 10h"}},
		{"run --wait 2 free -- true", 64, []string{"--wait 2: not a duration", "2s, 2m or 2h"}},
		{"run --wait soon free -- true", 64, []string{"run: --wait soon: not a duration", "10s, 10m or 10h"}},
		{"run --wait 9999999h free -- true", 64, []string{"run: --wait 9999999h: longer than the longest duration, which is about 292 years"}},
		{"run --slots many free -- true", 64, []string{"run: --slots many: not a whole number"}},
		{"lock free -- true", 64, []string{`"lock"`, "run"}},
		{"help exit-code", 64, []string{"did you mean help exit-codes?"}},
		{"elect --http 8090 free -- true", 64, []string{"--http 8090: not host:port"}},
		{"run", 64, []string{"no lock and no command", "LOCK… -- COMMAND"}},
		{"run free --", 64, []string{"no command behind"}},
		{"elect a b -- true", 64, []string{"2 elections are more than 1"}},
		{"locks --servers http://a:2181/x", 64, []string{"host:port, without http://"}},
		{"status https://a:2181", 64, []string{"host:port, without https://"}},
		{"locks a b", 64, []string{`locks: "b" is one argument too many`, "lockkeeper locks [LOCK|PATH]"}},
		{"version x", 64, []string{"version:", `"x"`}},
		{"bench x", 64, []string{"bench:", `"x"`}},
		{"locks --servers a\x00b:2181", 64, []string{"a b:2181", "blank"}},
		{"run --servers a\x00b free -- true", 64, []string{"a b", "blank"}},
		{"status --servers a\x00b:xx", 64, []string{"a b:xx", "blank"}},
		{"status b:1 a:xx", 64, []string{`status "b:1,a:xx"`, "not a number from 1 to 65535"}},
		{"doctor a\x00b:xx", 64, []string{"a b:xx", "blank"}},
		{"run --acl all --servers a free -- true", 64, []string{"--acl all: not one of world and creator"}},
		{"status 127.0.0.1:1", 69, nil},
		{"version --frob", 64, nil},
		{"version", 0, nil},
		{"--version", 0, nil},
		{"help run", 0, nil},
		{"help server check", 0, nil},
		{"help verson", 64, []string{`"verson"`, "did you mean version?"}},
		{"completion bash", 0, nil},
		{"completion tcsh", 64, []string{`"completion tcsh"`, "see lockkeeper completion --help"}},
	} {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		h.run(args...).want(c.status, c.words...)
	}
	h.run("run", "free", "--", "").want(64, "run: the name of the command behind the -- is empty")
	h.run("status", "").want(64, "names no server") // of a variable that is not set
	empty := *h
	empty.env = append(slices.Clone(h.env), "LOCKKEEPER_SERVERS=")
	empty.run("run", "free", "--", "true").want(64, "LOCKKEEPER_SERVERS", "names no server")
	holder.signal(syscall.SIGTERM)
	holder.want(143)
	if help := h.run("help").want(0).stdout.String(); !strings.Contains(help, "completion ") {
		t.Errorf("help does not know all commands:\n%s", help)
	}
	h.env = append(h.env, serversVariable+"=http://a:2181")
	h.run("run", "free", "--", "true").want(64, serversVariable, "without http://")
	h.run("status").want(64, serversVariable, "without http://")
}

// The reader of our standard error has gone, which ends neither the command nor its exit status.
func TestAWordThatNobodyReadsEndsNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j := h.startWith(func(c *exec.Cmd) { c.Stderr = w }, "run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	w.Close()
	j.see("up")
	r.Close()
	h.run("break", "--force", "demo").want(0)
	j.want(74)
}

// Whose command is ended because no server can be reached is told why none can.
func TestF16_WhyNoServerWasHeard(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	j := h.start("run", "--servers", address, "--session-timeout", "6s", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	server.signal(syscall.SIGKILL)
	j.want(74, "the lock on demo was lost", "in time (no connection: ", address+": connection refused")
}

// What is too much for our own processes is said, and not waited for.
func TestALabelThatIsTooLong(t *testing.T) {
	t.Parallel()
	newHome(t).run("run", "--label", strings.Repeat("\x01", 60_000), "demo", "--", "true").want(64, "too long") // six bytes each, as JSON
}

// What an order just has room for has room in the answer, too, which has the znodes of the holds.
func TestNamesThatAnOrderJustHasRoomFor(t *testing.T) {
	t.Parallel()
	args := []string{"run", "-q"}
	for i := range 100 {
		args = append(args, fmt.Sprintf("/%03d%s%s", i, strings.Repeat("<", 316), strings.Repeat("x", 681))) // six bytes for a <, as JSON
	}
	newHome(t).run(append(args, "--", "true")...).want(0)
}

func TestF41_ASignalWhileWaitingLeavesTheLine(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		waiter := h.start("run", "demo", "--", "echo", "never")
		h.held("demo", 2)
		waiter.signal(sig)
		if sig == syscall.SIGINT { // a status would let the script or the loop around it go on
			waiter.wantEndedBy(sig)
		} else {
			waiter.want(128 + int(sig))
		}
		if waiter.stdout.String() != "" {
			t.Errorf("%v: the command ran", sig)
		}
		if line := h.run("locks", "--json", "demo"); strings.Count(line.stdout.String(), `"node"`) != 1 {
			t.Errorf("%v: a node is left behind: %s", sig, line.stdout)
		}
	}
}

func TestF41_ASignalWhileRunningFreesTheLockAfterTheChild(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		j := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
		j.see("up")
		engine := engineOf(t, j.cmd.Process.Pid)
		j.signal(sig)
		j.want(128 + int(sig))
		wantGone(t, engine)
		h.run("run", "--wait", "0", "demo", "--", "true").want(0)
	}
}

// stubborn is a command with a grandchild, which both ignore TERM and hold a lock of the kernel, the
// outside register, for as long as they live.
const stubborn = `exec 9>"$DIR/register"; flock -n 9 || { echo OVERLAP; exit 1; }
trap "" TERM; (while :; do sleep 1000; done) & echo up; while :; do sleep 1000; done`

// successor is a command that finds out whether the one before it still works.
const successor = `exec 9>"$DIR/register"; flock -n 9 && echo alone || echo OVERLAP`

func TestF41_KillingTheFrontKillsTheChildAndFreesTheLockAtOnce(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("run", "demo", "--", "sh", "-c", stubborn)
	j.see("up")
	next := h.start("run", "demo", "--", "sh", "-c", successor)
	h.held("demo", 2)
	start := time.Now()
	j.signal(syscall.SIGKILL)
	next.see("alone")
	next.want(0)
	if took := time.Since(start); took > sessionTimeoutDefault/3 {
		t.Errorf("the next one had to wait for %v: the session was not closed", took)
	}
}

// The child's jobs are in groups of their own, as those of an interactive shell are. Nothing tells the
// engine about them.
func TestF41_KillingTheFrontKillsJobsInOtherGroups(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("run", "demo", "--", "bash", "-c", `set -m; sh -c 'exec 9>"$DIR/register"; flock -n 9 && echo up; while :; do sleep 1000; done' & wait`)
	j.see("up")
	next := h.start("run", "demo", "--", "sh", "-c", successor)
	h.held("demo", 2)
	j.signal(syscall.SIGKILL)
	next.want(0)
	if next.stdout.String() != "alone\n" {
		t.Errorf("the next one says %q", next.stdout)
	}
}

func TestF40_TheChildIsDeadBeforeTheNextGrant(t *testing.T) {
	t.Parallel()
	for name, disturb := range map[string]func(*testing.T, *home, *job){
		"engine stopped": func(t *testing.T, _ *home, j *job) { syscall.Kill(engineOf(t, j.cmd.Process.Pid), syscall.SIGSTOP) },
		"engine killed":  func(t *testing.T, _ *home, j *job) { syscall.Kill(engineOf(t, j.cmd.Process.Pid), syscall.SIGKILL) },
		"node deleted":   func(_ *testing.T, h *home, _ *job) { h.run("break", "--force", "demo").want(0) },
		"front stopped, keeper frozen": func(t *testing.T, h *home, j *job) {
			j.signal(syscall.SIGSTOP)
			keeper := h.keeperPid()
			syscall.Kill(keeper, syscall.SIGSTOP)
			for _, pid := range childrenOf(t, guardOf(t, j.cmd.Process.Pid)) {
				wantGone(t, pid) // by the others, since the front is stopped
			}
			syscall.Kill(keeper, syscall.SIGCONT)
			j.signal(syscall.SIGCONT)
		},
		"keeper frozen": func(_ *testing.T, h *home, j *job) {
			keeper := h.keeperPid()
			syscall.Kill(keeper, syscall.SIGSTOP)
			j.want(74, "the lock on demo was lost")
			syscall.Kill(keeper, syscall.SIGCONT)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			j := h.start("run", "--session-timeout", "6s", "--grace", "600ms", "demo", "--", "sh", "-c", stubborn)
			j.see("up")
			next := h.start("run", "demo", "--", "sh", "-c", successor)
			h.held("demo", 2)
			disturb(t, h, j)
			if name == "node deleted" {
				// Nothing can prevent the overlap here, because the lock passes on before the holder
				// hears of it. It must be short.
				next.want(0)
			} else {
				next.want(0)
				if next.stdout.String() != "alone\n" {
					t.Errorf("the next one says %q", next.stdout)
				}
			}
			j.want(74)
		})
	}
}

func TestAStoppedFrontKeepsTheLock(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	j := h.startWith(func(c *exec.Cmd) { c.Stdin = in }, "run", "--session-timeout", "6s", "demo", "--", "sh", "-c", "echo up; read x; echo done")
	j.see("up")
	j.signal(syscall.SIGSTOP)
	h.run("run", "--wait", "7s", "demo", "--", "true").want(75)
	j.signal(syscall.SIGCONT)
	out.WriteString("go\n")
	j.see("done")
	j.want(0)
}

func TestF43_NestedLocksAndStreams(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.run("run", "outer", "--", "sh", "-c", `echo "$LOCKKEEPER_LOCK $LOCKKEEPER_TOKEN"; "$LK" run inner -v -- true 2>/dev/null || echo refused; `+
		`"$LK" run inner -- sh -c 'echo "$LOCKKEEPER_LOCK $LOCKKEEPER_TOKEN $#" "$@"' sh -v -- "a  b"`).want(0)
	var outer, inner int64
	lines := strings.Split(j.stdout.String(), "\n")
	if _, err := fmt.Sscanf(lines[0], "/lockkeeper/locks/outer %d", &outer); err != nil {
		t.Errorf("outer: %v in %q", err, j.stdout)
	}
	if lines[1] != "refused" {
		t.Errorf("the unknown flag -v: %q", lines[1])
	}
	var rest string
	if _, err := fmt.Sscanf(lines[2], "/lockkeeper/locks/inner %d 3 %s", &inner, &rest); err != nil || !strings.HasSuffix(lines[2], "-v -- a  b") {
		t.Errorf("inner: %v in %q", err, lines[2])
	}
	if inner <= outer {
		t.Errorf("tokens: inner %d, outer %d", inner, outer)
	}

	blob := make([]byte, 10<<20)
	rand.NewChaCha8([32]byte{1}).Read(blob)
	j = h.startWith(func(c *exec.Cmd) { c.Stdin = bytes.NewReader(blob) }, "run", "demo", "--", "cat").want(0)
	if j.stdout.String() != string(blob) {
		t.Error("10 MiB through cat have changed")
	}
}

// A run that would wait for the lock under which it was started is refused at once, and others wait.
func TestAWaitForTheOwnLockIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const words = "held by the lockkeeper that has started this one"
	for _, flags := range []string{"", "--slots 1", "--shared"} {
		fields := strings.Fields(flags)
		for _, wait := range []string{"", "--wait 0", "--wait 1h"} {
			script := `"$LK" run ${FLAGS#--shared} ` + wait + ` b c -- true; echo $?; exec sleep 0`
			j := h.startWith(func(c *exec.Cmd) { c.Env = append(c.Env, "FLAGS="+flags) },
				append(append([]string{"run"}, fields...), "a", "b", "--", "sh", "-c", script)...)
			j.want(0, "lock /lockkeeper/locks/b is "+words, "run the command without")
			if j.stdout.String() != "76\n" || strings.Count(j.stderr.String(), words) != 1 {
				t.Errorf("%q %q: status %s and %s", flags, wait, j.stdout, j.stderr)
			}
		}
		holder := h.start(append(append([]string{"run"}, fields...), "b", "--", "sh", "-c", stay)...)
		holder.see("up")
		other := h.startWith(func(c *exec.Cmd) { // held once, no more
			c.Env = append(c.Env, "LOCKKEEPER_LOCK=/lockkeeper/locks/b", "LOCKKEEPER_UNDER=/lockkeeper/locks/b/lock-0000000000")
		}, append(append([]string{"run"}, strings.Fields(strings.TrimPrefix(flags, "--shared"))...), "--wait", "100ms", "b", "--", "true")...)
		other.want(75)
		if strings.Contains(other.stderr.String(), words) {
			t.Errorf("%q: another run is refused: %s", flags, other.stderr)
		}
		holder.signal(syscall.SIGTERM)
		holder.want(143)
	}
}

// The run that holds the lock may have started this one through other runs.
func TestAWaitForTheLockOfAnOuterRunIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, wait := range []string{"", "--wait 0 --busy-code 0", "--wait 1h"} {
		script := `"$LK" run b -- "$LK" run c d -- "$LK" run ` + wait + ` a -- true; echo $?`
		j := h.start("run", "a", "--", "sh", "-c", script).want(0, "lock /lockkeeper/locks/a is held by the lockkeeper that has started")
		if j.stdout.String() != "76\n" {
			t.Errorf("%q: status %s and %s", wait, j.stdout, j.stderr)
		}
	}
	h.run("run", "a", "--", "sh", "-c", `"$LK" run --wait 0 b -- "$LK" run --wait 0 c -- true`).want(0)
	slots := h.start("run", "--slots", "2", "s", "--", "sh", "-c",
		`"$LK" run --slots 2 s -- sh -c '"$LK" run --slots 2 s -- true; echo $?'; "$LK" run --slots 2 s -- echo one is free`)
	slots.want(0, "lock /lockkeeper/locks/s is held by the lockkeeper that has started")
	if slots.stdout.String() != "76\none is free\n" {
		t.Errorf("slots: status %s and %s", slots.stdout, slots.stderr)
	}
}

// A guard that is killed by the command before it has said that the command was started does not hide that it was.
func TestAGuardThatIsKilledEarlyIsALoss(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for range 12 {
		h.run("run", "demo", "--", "sh", "-c", "kill -9 $PPID; sleep 1000").want(74)
	}
}

// A session timeout that the servers shorten is not what was asked for, and said once.
func TestAShorterSessionTimeoutIsSaid(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const words = "session timeout of 1m0s, less than the 1h0m0s of --session-timeout"
	h.run("run", "--session-timeout", "1h", "demo", "--", "true").want(0, words)
	for _, args := range []string{"run demo -- true", "run --session-timeout 1m demo -- true"} {
		if j := h.run(strings.Fields(args)...).want(0); strings.Contains(j.stderr.String(), "timeout") {
			t.Errorf("%s says %s", args, j.stderr)
		}
	}
	j := h.start("elect", "--session-timeout", "1h", "--backoff", "1ms", "demo", "--", "true")
	if err := j.stderr.see("again in 4ms"); err != nil {
		t.Fatalf("%v: %s", err, j.stderr)
	}
	j.signal(syscall.SIGTERM)
	j.status()
	if n := strings.Count(j.stderr.String(), words); n != 1 {
		t.Errorf("told %d times: %s", n, j.stderr)
	}
}

// A TERM at any moment between the start and the first breath of the child: the status is always the
// same, and nothing is left, whether the child ran or not.
func TestF43_TermAtAnyMoment(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	ran := 0
	for range 25 {
		j := h.start("run", "demo", "--", "sh", "-c", "echo ran; exec sleep 1000")
		time.Sleep(time.Duration(rng.IntN(80)) * time.Millisecond) // the moment, not a barrier
		// Before the front listens, TERM ends it as it ends any process, and nothing has been started.
		j.signal(syscall.SIGTERM)
		if got := j.status(); got != 143 && got != -1 {
			t.Errorf("exit status %d, want 143\n%s", got, j.stderr)
		}
		ran += strings.Count(j.stdout.String(), "ran")
		h.run("run", "--wait", "10s", "demo", "--", "true").want(0)
		if left := h.run("locks", "--json", "demo").stdout.String(); strings.Contains(left, `"node"`) {
			t.Errorf("left behind: %s", left)
		}
	}
	t.Logf("the child ran %d times of 25", ran)
}

// A server that takes its time to let us in does not take it from the time for waiting: a lock that is free is not busy.
func TestWaitIsForTheLockAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	const wait = 2 * time.Second
	slow, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	go func() {
		for {
			c, err := slow.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer s.Close()
				time.Sleep(wait + 100*time.Millisecond) // what is slow
				go io.Copy(s, c)
				io.Copy(c, s)
			}()
		}
	}()
	h.run("run", "--servers", slow.Addr().String(), "--wait", wait.String(), "demo", "--", "true").want(0)
}
