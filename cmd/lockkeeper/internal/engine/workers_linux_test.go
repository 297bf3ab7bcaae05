package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// Seed 5050431252892972005 of the command under fire: front and guard were killed, the engine looked in the moment in
// which what was left executed another program, saw no variables of the lock, and gave the lock back.
func TestAProcessThatExecutesIsNotTakenForGone(t *testing.T) {
	again := t.TempDir() + "/again"
	if err := os.WriteFile(again, []byte("exec sh "+again+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := workers{env: []string{"LOCKKEEPER_LOCK=/a", "LOCKKEEPER_TOKEN=1"}, spare: func(proc.Process) bool { return false }}
	self, err := proc.Find(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	w.since = self.Start
	cmd := exec.Command("sh", again)
	cmd.Env = append(os.Environ(), "LONG="+strings.Repeat("x", 8<<10)) // more than one small read
	cmd.Env = append(cmd.Env, w.env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for looks, unsure := 0, 0; unsure < 20; looks++ {
		found, sure := w.marked()
		if !sure {
			unsure++
		} else if !slices.ContainsFunc(found, func(p proc.Process) bool { return p.Pid == cmd.Process.Pid }) {
			t.Fatalf("look %d: what works under the lock is not seen", looks)
		}
	}
}

// A process that never shows an environment keeps no lock for ever: here one that has unmapped it.
func TestAnEnvironmentThatIsNeverShown(t *testing.T) {
	cmd := exec.Command(os.Args[0], strings.Repeat("x", 16<<10)) // which lies between the stack and the environment
	cmd.Env = []string{unmapVariable + "=yes"}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	if n, err := out.Read(make([]byte, 1)); n != 1 {
		t.Fatal(n, err)
	}
	p, err := proc.Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if env, known := proc.Env(p); known {
		t.Fatalf("the environment is shown: %q", env)
	}
	synctest.Test(t, func(t *testing.T) {
		w := workers{env: []string{"LOCKKEEPER_LOCK=/a"}, spare: func(proc.Process) bool { return false }, since: p.Start}
		if !w.kill() {
			t.Error("at the first look it is no worker")
		}
		time.Sleep(doubtMax)
		if w.kill() {
			t.Errorf("after %v it may still be a worker", doubtMax)
		}
	})
}

const unmapVariable = "LOCKKEEPER_TEST_UNMAP"

// init unmaps the page in which the environment of a process begins that is started for that, and waits until its standard input ends.
func init() {
	if os.Getenv(unmapVariable) == "" {
		return
	}
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		panic(err)
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	start, err := strconv.ParseUint(string(fields[47]), 10, 64) // env_start, proc_pid_stat(5)
	if err != nil {
		panic(err)
	}
	page := uint64(os.Getpagesize())
	_, _, errno := syscall.RawSyscall(syscall.SYS_MUNMAP, uintptr(start&^(page-1)), uintptr(page), 0)
	fmt.Print(int(errno))
	os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}
