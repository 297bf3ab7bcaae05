//go:build linux

package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// clan is a command whose processes are in every place where one can be: in its group, in a group and in
// a session of their own, without a parent; unmarked is one more, without the environment that marks the
// others. None listens to TERM, and all hold the register, a lock of the kernel, for as long as they live.
const clan = `exec 9>"$DIR/register"; flock -n 9 || { echo OVERLAP; exit 1; }
trap "" TERM HUP INT
(echo a; exec sleep 1000) &
bash -c 'set -m; (echo b; exec sleep 1000) & wait' &
setsid sh -c 'echo c; exec sleep 1000' &
sh -c 'setsid sh -c "echo d; exec sleep 1000" & exit'
wait`

const unmarked = `env -i DIR="$DIR" PATH="$PATH" sh -c 'setsid sh -c "echo e; exec sleep 1000" & exit'`

// startClan starts a clan under a lock and returns when all of it are where they are to be.
func (h *home) startClan(more bool) *job {
	h.t.Helper()
	script, names := clan, []string{"a", "b", "c", "d"}
	if more {
		script, names = strings.Replace(clan, "\nwait", "\n"+unmarked+"\nwait", 1), append(names, "e")
	}
	j := h.start("run", "--session-timeout", "6s", "--grace", "600ms", "demo", "--", "sh", "-c", script)
	for _, name := range names {
		j.see(name + "\n")
	}
	return j
}

// F40, F41: of the processes behind a run any two may be killed or frozen at once. The command and all
// that it has started is dead before the next one gets the lock.
func TestF40_F41_AnyTwoProcessesOfARunMayFail(t *testing.T) {
	t.Parallel()
	kill := func(pid int) { syscall.Kill(pid, syscall.SIGKILL) }
	stop := func(pid int) { syscall.Kill(pid, syscall.SIGSTOP) }
	const engineAlone = "guard and front killed" // it is no ancestor of the command's, and goes by the marks
	for name, disturb := range map[string]func(front, engine, guard int){
		"engine and front killed":      func(front, engine, _ int) { kill(engine); kill(front) },
		"front and engine killed":      func(front, engine, _ int) { kill(front); kill(engine) },
		"engine stopped, front killed": func(front, engine, _ int) { stop(engine); kill(front) },
		"front stopped, engine killed": func(front, engine, _ int) { stop(front); kill(engine) },
		"front and engine stopped":     func(front, engine, _ int) { stop(front); stop(engine) },
		"guard killed":                 func(_, _, guard int) { kill(guard) },
		"guard and engine killed":      func(_, engine, guard int) { kill(guard); kill(engine) },
		"guard stopped, engine killed": func(_, engine, guard int) { stop(guard); kill(engine) },
		"engine stopped, guard killed": func(_, engine, guard int) { stop(engine); kill(guard) },
		"guard stopped, front killed":  func(front, _, guard int) { stop(guard); kill(front) },
		"front killed":                 func(front, _, _ int) { kill(front) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			j := h.startClan(name != engineAlone)
			next := h.start("run", "demo", "--", "sh", "-c", successor)
			h.held("demo", 2)
			front := j.cmd.Process.Pid
			engine, guard := engineOf(t, front), guardOf(t, front)
			disturb(front, engine, guard)
			next.want(0)
			if next.stdout.String() != "alone\n" {
				t.Errorf("the next one says %q", next.stdout)
			}
			for _, pid := range []int{front, engine, guard} {
				syscall.Kill(pid, syscall.SIGCONT)
			}
			if got := j.status(); got != 74 && got != -1 {
				t.Errorf("exit status %d, want 74 or the end by KILL; it says %s", got, j.stderr)
			}
			wantGone(t, engine)
			wantGone(t, guard)
		})
	}
}

// F41: a kill of all processes of the command's name, the local keeper among them, leaves the guard,
// which has another.
func TestF41_KillingByNameLeavesTheGuard(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.startClan(true)
	front := j.cmd.Process.Pid
	guard := guardOf(t, front)
	name, err := os.ReadFile("/proc/" + strconv.Itoa(front) + "/comm")
	if err != nil {
		t.Fatal(err)
	}
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	var named []proc.Process
	for _, p := range table {
		comm, _ := os.ReadFile("/proc/" + strconv.Itoa(p.Pid) + "/comm")
		if h.started(p) && (string(comm) == string(name) || strings.Contains(strings.Join(proc.Args(p), " "), "lockkeeper")) {
			named = append(named, p)
		}
	}
	if len(named) != 3 {
		t.Errorf("%d processes have the name, want front, engine and keeper", len(named))
	}
	for _, p := range named { // when all are known: one ends when another does
		proc.Signal(p, syscall.SIGKILL)
	}
	next := h.run("run", "demo", "--", "sh", "-c", successor)
	next.want(0)
	if next.stdout.String() != "alone\n" {
		t.Errorf("the next one says %q", next.stdout)
	}
	wantGone(t, guard)
}

// A guard that is stopped is made to go on, or the end of the command would not be heard.
func TestAStoppedGuardGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	j := h.startWith(func(c *exec.Cmd) { c.Stdin = in }, "run", "demo", "--", "sh", "-c", "echo up; read x; exit 5")
	j.see("up")
	syscall.Kill(guardOf(t, j.cmd.Process.Pid), syscall.SIGSTOP)
	out.WriteString("go\n")
	j.want(5)
}

// So is one that is stopped before it has said that the command has begun.
func TestAGuardThatIsStoppedAtTheStartGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for range 5 { // the guard may be quicker
		h.run("run", "demo", "--", "sh", "-c", "kill -STOP $PPID; exit 5").want(5)
	}
}
