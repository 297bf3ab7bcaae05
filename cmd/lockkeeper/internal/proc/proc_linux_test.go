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
