package proc

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " 4 4 4 4 4 4 4 4 4 4 4 4 4 6 4 77 0"
	got, err := parseStat([]byte("12 (a) b) (c) S 3 5 7" + rest + "\n"))
	want := Process{Pid: 12, Parent: 3, Group: 5, Session: 7, State: 'S', Threads: 6, Start: 77}
	if err != nil || got != want {
		t.Errorf("parseStat = %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "12", "12 (a", "12 (a) S 1", "x (a) S 3 5 7" + rest} {
		if p, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) = %+v without error", bad, p)
		}
	}
}

func TestBelow(t *testing.T) {
	table := []Process{
		{Pid: 2, Parent: 1}, {Pid: 3, Parent: 2}, {Pid: 4, Parent: 3, State: 'Z'}, {Pid: 5, Parent: 4},
		{Pid: 6, Parent: 2}, {Pid: 7, Parent: 6}, // spared with what is below
		{Pid: 8, Parent: 1},                         // a stranger
		{Pid: 9, Parent: 2, State: 'Z', Threads: 2}, // only its first thread has ended
		{Pid: 2, Parent: 5},                         // no tree
	}
	var got []int
	for _, p := range Below(table, 2, func(p Process) bool { return p.Pid == 6 }) {
		got = append(got, p.Pid)
	}
	slices.Sort(got)
	if want := []int{2, 3, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("Below = %v, want %v", got, want)
	}
}

// In a process namespace of its own, with the /proc of another, a process would take strangers for its children.
func TestNumbersOfAnotherNamespaceAreNotUsed(t *testing.T) {
	ours, other := t.TempDir(), t.TempDir()
	for dir, pid := range map[string]int{ours: os.Getpid(), other: os.Getpid() + 1} {
		if err := os.Symlink(strconv.Itoa(pid), dir+"/self"); err != nil {
			t.Fatal(err)
		}
	}
	if err := numbersAsOurs(ours); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{other, t.TempDir()} {
		if err := numbersAsOurs(dir); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("a table that is not ours: %v", err)
		}
	}
}

func TestAChildIsFoundAndSignalled(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, _ := cmd.StdinPipe()
	defer stdin.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	table, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(table, func(p Process) bool { return p.Pid == cmd.Process.Pid })
	if i < 0 || table[i].Parent != os.Getpid() || table[i].Group != cmd.Process.Pid {
		t.Fatalf("child %d of %d not in the table as it should be", cmd.Process.Pid, os.Getpid())
	}
	child := table[i]
	other := child
	other.Start++ // an earlier process of the same number
	if err := Signal(other, syscall.SIGKILL); err != nil {
		t.Errorf("Signal to a process that is no more: %v", err)
	}
	if !GroupAlive(child.Group) {
		t.Error("GroupAlive = false while the child lives: the signal went to the wrong process")
	}
	if err := Signal(child, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	// Until it is waited for, the child is a zombie, and its group has no live member.
	for GroupAlive(child.Group) {
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("child ended with %v, want SIGTERM", err)
	}
}

// A process has no environment for a moment when it executes another program. It must not pass for one that was started
// with none.
func TestTheEnvironmentOfAProcessThatExecutes(t *testing.T) {
	again := t.TempDir() + "/again"
	if err := os.WriteFile(again, []byte("exec sh "+again+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", again)
	cmd.Env = []string{"MARK=1", "PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for { // from here on it has the environment and no other
		if env, _ := Env(Process{Pid: cmd.Process.Pid}); slices.Contains(env, "MARK=1") {
			break
		}
	}
	looks, unknown := 0, 0
	for ; unknown < 100; looks++ {
		switch env, known := Env(Process{Pid: cmd.Process.Pid}); {
		case !known:
			unknown++
		case !slices.Contains(env, "MARK=1"):
			t.Fatalf("look %d: the environment is %q", looks, env)
		}
	}
	t.Logf("not known at %d of %d looks", unknown, looks)
}

func TestWhatHasNoEnvironmentIsKnownToHaveNone(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.Env = []string{}
	stdin, _ := cmd.StdinPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child := Process{Pid: cmd.Process.Pid}
	env, known := Env(child)
	for !known {
		env, known = Env(child)
	}
	if len(env) > 0 {
		t.Errorf("started without variables, it has %q", env)
	}
	stdin.Close()
	for p, err := Find(child.Pid); err == nil; p, err = Find(child.Pid) {
		child = p
	}
	if env, known := Env(child); len(env) > 0 || !known { // a zombie
		t.Errorf("once ended: %q, known %v", env, known)
	}
	cmd.Wait()
	if _, known := Env(child); !known {
		t.Error("nothing is known of a process that is no more")
	}
	if comm, _ := os.ReadFile("/proc/2/comm"); string(comm) == "kthreadd\n" { // it is not shown in every namespace
		if _, known := Env(Process{Pid: 2}); !known {
			t.Error("the environment of a thread of the kernel is not known")
		}
	}
}
