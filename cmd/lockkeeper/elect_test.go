//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/front"
)

// service is a command that must run alone: it holds a file lock for as long as anything of it lives, and
// says in a file for which process it runs: the parent of the guard, which is its own.
const service = `exec 9>"$DIR/register"; flock -n 9 || { echo OVERLAP >> "$DIR/overlaps"; exit 1; }
read -r _ _ _ elector _ < /proc/$PPID/stat
echo "$elector $$ $LOCKKEEPER_TOKEN" >> "$DIR/terms"; `

// forever keeps a service running, and TERM does not impress it.
const forever = `trap "" TERM; (while :; do sleep 1000; done) & while :; do sleep 1000; done`

// A termLine is what a service has written down.
type termLine struct {
	elector, command int // processes
	token            int64
}

// terms returns what services have written down.
func (h *home) terms() (all []termLine) {
	h.t.Helper()
	b, err := os.ReadFile(h.dir + "/terms")
	if err != nil && !os.IsNotExist(err) {
		h.t.Fatal(err)
	}
	for _, line := range strings.SplitAfter(string(b), "\n") {
		if !strings.HasSuffix(line, "\n") {
			break // being written
		}
		var l termLine
		if _, err := fmt.Sscan(line, &l.elector, &l.command, &l.token); err != nil {
			h.t.Fatalf("%q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

// term waits for another term than the first n, and returns it.
func (h *home) term(n int) termLine {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if all := h.terms(); len(all) > n {
			return all[n]
		}
	}
	h.t.Fatalf("no candidate has led after %d terms", n)
	return termLine{}
}

// alone checks that no two services ran at once, and that tokens grew.
func (h *home) alone() {
	h.t.Helper()
	if b, err := os.ReadFile(h.dir + "/overlaps"); err == nil {
		h.t.Errorf("two commands ran at once: %s", b)
	}
	if all := h.terms(); !slices.IsSortedFunc(all, func(a, b termLine) int { return int(a.token - b.token) }) {
		h.t.Errorf("tokens do not grow: %+v", all)
	}
}

// standing waits until so many stand for the election of these tests.
func (h *home) standing(n int) {
	h.t.Helper()
	h.held(electionsPath+"/demo", n)
}

// Whatever becomes of a leader, its command is gone before another leads, and each process that lives stands again.
func TestF37_WhateverBecomesOfALeader(t *testing.T) {
	t.Parallel()
	short := []string{"--session-timeout", "6s", "--grace", "600ms"}
	stop := func(pid int) { syscall.Kill(pid, syscall.SIGSTOP) }
	kill := func(pid int) { syscall.Kill(pid, syscall.SIGKILL) }
	for _, c := range []struct {
		name  string
		flags []string
		left  int  // candidates that stand afterwards
		rude  bool // the lock passes on before the leader can know
		do    func(t *testing.T, h *home, l termLine)
	}{
		{"lockkeeper killed", nil, 1, false, func(_ *testing.T, _ *home, l termLine) { kill(l.elector) }},
		{"command killed", nil, 2, false, func(_ *testing.T, _ *home, l termLine) { kill(l.command) }},
		{"guard killed", nil, 2, false, func(t *testing.T, _ *home, l termLine) { kill(guardOf(t, l.elector)) }},
		{"engine killed", short, 2, false, func(t *testing.T, _ *home, l termLine) { kill(engineOf(t, l.elector)) }},
		{"engine stopped", short, 2, false, func(t *testing.T, _ *home, l termLine) { stop(engineOf(t, l.elector)) }},
		{"election broken", nil, 2, true, func(_ *testing.T, h *home, l termLine) {
			h.run("break", "--force", electionsPath+"/demo").want(0)
		}},
		{"keeper frozen", short, 2, false, func(t *testing.T, h *home, l termLine) {
			keeper := h.keeperPid()
			stop(keeper)
			wantGone(t, l.command)
			syscall.Kill(keeper, syscall.SIGCONT)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			args := append(append([]string{"elect"}, c.flags...), "demo", "--", "sh", "-c", service+forever)
			jobs := []*job{h.start(args...), h.start(args...)}
			h.standing(2)
			first := h.term(0)
			began := time.Now()
			c.do(t, h, first)
			next := h.term(1)
			if next.token <= first.token {
				t.Errorf("the token was %d and is %d", first.token, next.token)
			}
			if d := time.Since(began); c.flags == nil && d > sessionTimeoutDefault/2 {
				t.Errorf("another led only after %v", d)
			}
			wantGone(t, first.command)
			h.standing(c.left)
			for _, j := range jobs {
				select {
				case <-j.done:
					if c.left == 2 || j.cmd.Process.Pid != first.elector {
						t.Errorf("a candidate has ended: %s", j.stderr)
					}
				default:
				}
			}
			if !c.rude {
				h.alone()
			}
		})
	}
}

// The keeper dies and is started again: no term ends.
func TestElectionOutlivesTheKeeper(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	args := []string{"elect", "demo", "--", "sh", "-c", service + forever}
	h.start(args...)
	h.start(args...)
	h.standing(2)
	h.term(0)
	old := h.keeperPid()
	syscall.Kill(old, syscall.SIGKILL)
	wantGone(t, old)
	h.standing(2)
	if h.keeperPid() == old {
		t.Error("the keeper is the old one")
	}
	if n := len(h.terms()); n != 1 {
		t.Errorf("%d terms, want the first to go on", n)
	}
}

// TERM: the leader's command has the time that it needs to stop, and then another leads. A candidate that waits just
// leaves.
func TestF39_OrderlyHandOver(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	args := []string{"elect", "demo", "--", "sh", "-c", `trap 'sleep 0.5; echo stopped; exit 0' TERM; ` + service + `while :; do sleep 0.01; done`}
	jobs := map[int]*job{}
	for range 3 {
		j := h.start(args...)
		jobs[j.cmd.Process.Pid] = j
	}
	h.standing(3)
	for n := range len(jobs) - 1 {
		leader := h.term(n)
		jobs[leader.elector].signal(syscall.SIGTERM)
		jobs[leader.elector].want(0)
		if jobs[leader.elector].stdout.String() != "stopped\n" {
			t.Errorf("the leader's command says %q", jobs[leader.elector].stdout)
		}
		delete(jobs, leader.elector)
	}
	leader := h.term(2)
	waiter := h.start(args...)
	h.standing(2)
	waiter.signal(syscall.SIGUSR1) // means something to a command, and there is none
	waiter.signal(syscall.SIGTERM)
	waiter.want(128 + int(syscall.SIGTERM))
	h.standing(1)
	jobs[leader.elector].signal(syscall.SIGTERM)
	jobs[leader.elector].want(0)
	h.alone()
}

// A command that ends is followed by another candidate's at once, and without one by its own after a pause
// that grows. Each has the standard streams.
func TestElectRestarts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	args := func(backoff string) []string {
		return []string{"elect", "--backoff", backoff, "--backoff-max", "1h", "demo", "--", "sh", "-c", service + `read line; echo "has $line"; exit 3`}
	}
	j := h.startWith(func(c *exec.Cmd) { c.Stdin = in }, args("100ms")...)
	in.Close()
	began := time.Now()
	for _, line := range []string{"one", "two", "three"} {
		fmt.Fprintln(out, line)
		j.see("has " + line)
	}
	if d := time.Since(began); d < 300*time.Millisecond {
		t.Errorf("three runs within %v", d)
	}
	for _, words := range []string{"exit status 3; standing for election again in 100ms", "again in 200ms"} {
		if !strings.Contains(j.stderr.String(), words) {
			t.Errorf("it says %q, want %q", j.stderr, words)
		}
	}
	h.term(3)
	other := h.start(args("1h")...) // stdin has ended, so each term of its is over at once
	h.standing(2)
	fmt.Fprintln(out, "four")
	j.see("has four")
	began = time.Now()
	other.see("has")
	if d := time.Since(began); d > sessionTimeoutDefault/2 {
		t.Errorf("the other one took over after %v", d)
	}
	h.alone()
	if err := other.stderr.see("again in 1h"); err != nil {
		t.Fatalf("%v: %s", err, other.stderr)
	}
	other.signal(syscall.SIGTERM) // while it pauses
	other.want(128 + int(syscall.SIGTERM))
}

// One that stands again and again does not grow, in descriptors or in memory that is shared with engines.
func TestElectLetsGoOfEverything(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("elect", "--backoff", "0", "--backoff-max", "0", "demo", "--", "sh", "-c",
		`read -r _ _ _ elector _ < /proc/$PPID/stat; set -- /proc/$elector/fd/*
		echo "$# $(grep -c memfd: /proc/$elector/maps)" >> "$DIR/sizes"`)
	const terms = 12
	var sizes []string
	for end := time.Now().Add(limit); len(sizes) < terms; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no term within %v after %d of them: %s", limit, len(sizes), j.stderr)
		}
		b, _ := os.ReadFile(h.dir + "/sizes")
		now := strings.Split(strings.TrimSpace(string(b)), "\n")
		if len(now) > len(sizes) {
			sizes, end = now, time.Now().Add(limit)
		}
	}
	var fds, maps [2]int
	for i, line := range []string{sizes[2], sizes[len(sizes)-1]} {
		if _, err := fmt.Sscan(line, &fds[i], &maps[i]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	if fds[1] > fds[0]+5 || maps[1] > maps[0] {
		t.Errorf("descriptors and shared memory, a term a line: %q", sizes)
	}
	j.signal(syscall.SIGTERM)
	j.status()
}

// A command that asks for a lock by the name of an election is told of the election.
func TestElectionOfThatName(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start("elect", "demo", "--", "sh", "-c", "echo up; exec sleep 1000").see("up")
	path := electionsPath + "/demo"
	for _, args := range []string{"break --force demo", "revoke demo", "locks demo"} {
		h.run(strings.Fields(args)...).want(66, "demo: no such lock", path)
	}
	for _, args := range []string{"break --force other", "revoke other", "locks other", "locks " + path} {
		if j := h.run(strings.Fields(args)...); strings.Contains(j.stderr.String(), "election") {
			t.Errorf("%s: %s", args, j.stderr)
		}
	}
	h.held(path, 1)
}

func TestElectExitStatuses(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, c := range []struct {
		args   string // separated by blanks
		status int
		words  []string
	}{
		{"elect --restart never demo -- false", 1, nil},
		{"elect --restart never demo -- true", 0, nil},
		{"elect --restart on-failure demo -- true", 0, nil},
		{"elect --restart sometimes demo -- true", 64, []string{"sometimes", "on-failure"}},
		{"elect --backoff -1s demo -- true", 64, []string{"-1s"}},
		{"elect --backoff 2m demo -- true", 64, []string{"--backoff-max"}},
		{"elect --id-only demo -- true", 64, []string{"--id"}},
		{"elect --grace 20s demo -- true", 64, []string{"20s"}},
		{"elect --session-timeout 1h --grace 25s demo -- true", 64, []string{"1m0s"}},
		{"elect --vouch maybe demo -- true", 64, []string{"maybe"}},
		{"elect demo true", 64, []string{"--"}},
		{"elect a/b -- true", 64, []string{"election name", "/a/b"}},
		{"elect --frob demo -- true", 64, []string{"--frob", "behind --"}},
		{"elect demo -- no-such-program-in-path", 127, []string{"no-such-program-in-path"}},
	} {
		h.run(strings.Fields(c.args)...).want(c.status, c.words...)
	}
	if j := h.run("elect", "--restart", "never", "demo", "--", "sh", "-c", "echo $LOCKKEEPER_LOCK"); j.stdout.String() != electionsPath+"/demo\n" {
		t.Errorf("the command sees LOCKKEEPER_LOCK=%q", j.stdout)
	}
}

// A signal that comes after the command has ended, here while the command of --on-lost runs, is none that was passed on: it ends the
// candidate.
func TestASignalBetweenTwoTermsEndsACandidate(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGQUIT} {
		h := newHome(t)
		j := h.start("elect", "--on-lost", "echo between >&2; until [ -e $DIR/end ]; do sleep 0.02; done", "demo", "--", "sh", "-c", stay)
		j.see("up")
		h.run("break", "--force", electionsPath+"/demo").want(0)
		j.seeError("between")
		j.signal(sig)
		h.put("end", "")
		j.want(128 + int(sig))
	}
}

// A server that cannot be reached is looked for until it can.
func TestElectWaitsForServers(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("elect", "--servers", "127.0.0.1:1", "--connect-timeout", "300ms", "--backoff", "0", "demo", "--", "true")
	for _, pause := range []string{"at once", "in 100ms", "in 200ms"} {
		if err := j.stderr.see("election again " + pause); err != nil {
			t.Fatalf("%v: %s", err, j.stderr)
		}
	}
	j.signal(syscall.SIGTERM)
	j.want(128+int(syscall.SIGTERM), "127.0.0.1:1", "refused")
}

func TestStandsAgain(t *testing.T) {
	ran := func(status int) front.Outcome {
		return front.Outcome{Kind: front.Ran, Status: status, Child: &front.ChildEnd{Exit: status}}
	}
	bySignal := func(status int, name string) front.Outcome {
		return front.Outcome{Kind: front.Ran, Status: status, Child: &front.ChildEnd{Exit: status, Signal: name}}
	}
	for _, c := range []struct {
		name    string
		out     front.Outcome
		heard   []syscall.Signal
		restart string // the policies with which it stands again
	}{
		{"success", ran(0), nil, "always"},
		{"failure", ran(3), nil, "always on-failure"},
		{"crash", bySignal(139, "SIGSEGV"), nil, "always on-failure"},
		{"TERM", ran(0), []syscall.Signal{syscall.SIGTERM}, ""},
		{"TERM long ago", ran(3), []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM}, ""},
		{"^C", bySignal(130, "SIGINT"), nil, ""},
		{"^C that was caught", ran(130), nil, ""},
		{"a terminal that closes", bySignal(129, "SIGHUP"), []syscall.Signal{syscall.SIGHUP}, ""},
		{"a reload, and then a crash", bySignal(139, "SIGSEGV"), []syscall.Signal{syscall.SIGHUP}, "always on-failure"},
		{"ended by a signal that means something to it", bySignal(138, "SIGUSR1"), []syscall.Signal{syscall.SIGUSR1}, "always on-failure"},
		{"lost", front.Outcome{Kind: front.Lost, Status: exit.Lost}, nil, "always on-failure never"},
		{"lost, and told to end", front.Outcome{Kind: front.Lost, Status: exit.Lost}, []syscall.Signal{syscall.SIGINT}, ""},
		{"left the line", front.Outcome{Kind: front.Signalled, Status: 129}, []syscall.Signal{syscall.SIGHUP}, ""},
		{"no server", front.Outcome{Kind: front.Failed, Status: exit.Unreachable}, nil, "always on-failure never"},
		{"the engine died", front.Outcome{Kind: front.Failed, Status: exit.Internal}, nil, "always on-failure never"},
		{"refused", front.Outcome{Kind: front.Failed, Status: exit.NotPermitted}, nil, ""},
		{"contradicts itself", front.Outcome{Kind: front.Failed, Status: exit.Usage}, nil, ""},
		{"program replaced", front.Outcome{Kind: front.NotExecutable, Status: exit.NotExecutable}, nil, "always on-failure"},
	} {
		for _, restart := range []string{restartAlways, restartOnFailure, restartNever} {
			want := slices.Contains(strings.Fields(c.restart), restart)
			if got := standsAgain(restart, c.out, c.heard); got != want {
				t.Errorf("%s, --restart %s: stands again %v, want %v", c.name, restart, got, want)
			}
		}
	}
}

// What a candidate ends with that was told to end while something else befell it.
func TestToldToEnd(t *testing.T) {
	term := []syscall.Signal{syscall.SIGTERM}
	for _, c := range []struct {
		kind   string
		status int
		heard  []syscall.Signal
		want   int
	}{
		{front.Ran, 3, term, 3},
		{front.Signalled, 143, term, 143},
		{front.Failed, exit.Unreachable, term, 143},
		{front.Lost, exit.Lost, term, 143},
		{front.Failed, exit.NotPermitted, nil, exit.NotPermitted},
		{front.NotExecutable, 126, []syscall.Signal{syscall.SIGUSR1}, 126},
	} {
		if got := told(front.Outcome{Kind: c.kind, Status: c.status}, c.heard); got.Status != c.want {
			t.Errorf("%s with status %d, having heard %v: %d, want %d", c.kind, c.status, c.heard, got.Status, c.want)
		}
	}
}

func TestPacer(t *testing.T) {
	p := pacer{min: time.Second, max: 5 * time.Second}
	for i, c := range []struct{ lasted, want time.Duration }{
		{0, 1}, {4, 2}, {5, 4}, {0, 5}, {0, 5}, {6, 1}, {0, 2},
	} {
		if got := p.next(c.lasted * time.Second); got != c.want*time.Second {
			t.Errorf("pause %d after %v: %v, want %v", i, c.lasted*time.Second, got, c.want*time.Second)
		}
	}
	// Also without a wish to pause there is a pause when the command ends at once each time, or else never.
	atOnce, never := pacer{max: time.Minute}, pacer{}
	for i, want := range []time.Duration{0, 100, 200, 400} {
		if got := atOnce.next(0); got != want*time.Millisecond {
			t.Errorf("pause %d behind none: %v, want %v", i, got, want*time.Millisecond)
		}
		if got := never.next(0); got != 0 {
			t.Errorf("without any pause there is one of %v", got)
		}
	}
}

// A leader that is willing hears that it is asked to let another lead, once, and may end; then another leads.
func TestElectRevocable(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := electionsPath + "/demo"
	willing := h.start("elect", "--revocable", "usr1", "--restart", "never", "--label", "willing", "demo", "--", "sh", "-c",
		`trap 'echo asked; exit 7' USR1; echo up; while :; do sleep 0.05; done`)
	willing.see("up")
	other := h.start("elect", "demo", "--", "sh", "-c", stay)
	h.standing(2)
	h.run("revoke", path).want(0, "asked willing")
	willing.want(7)
	if n := strings.Count(willing.stdout.String(), "asked"); n != 1 {
		t.Errorf("the command was asked %d times, want once", n)
	}
	other.see("up")
	h.run("revoke", path).want(0) // and this one does not hear it
	h.standing(1)
	other.signal(syscall.SIGTERM)
	other.want(143)
	h.run("elect", "--revocable", "nonsense", "demo", "--", "true").want(64, "nonsense")
}
