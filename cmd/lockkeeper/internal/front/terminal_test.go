//go:build linux

package front

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
)

// A child with jobs of its own gives the terminal to one of them. When all are dead, the terminal comes back to us.
func TestTheTerminalComesBackFromAJobOfTheChild(t *testing.T) {
	x := ptytest.Open(t)
	tty := x.Slave()
	defer tty.Close()
	s := playWith(t, func(c *exec.Cmd) {
		c.Stdin = tty
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	}, "sh", "-mc", "sh -c 'echo up; exec sleep 1000'; exit 1")
	foreground := func() int {
		t.Helper()
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		group, err := strconv.Atoi(fields[5]) // tpgid, proc_pid_stat(5)
		if err != nil {
			t.Fatal(err)
		}
		return group
	}
	child := s.run()
	s.want("up")
	if got := foreground(); got == child || got == s.cmd.Process.Pid {
		t.Fatalf("group %d has the terminal: no job of the child %d", got, child)
	}
	s.tell(link.Note{Is: link.IsLost, Gone: true, Text: "gone"})
	s.order(link.DoRelease)
	if got := foreground(); got != s.cmd.Process.Pid {
		t.Errorf("group %d has the terminal, want %d, ours", got, s.cmd.Process.Pid)
	}
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(74, Lost)
}

// What is left of a signal when the child's group is empty does not reach another group of that number.
func TestAnEmptyGroupGetsNoSignal(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { other.Wait(); close(ended) }()
	f := &front{cfg: Config{Argv: []string{"sh"}}, self: -1} // nothing is below it
	f.child.pid, f.child.ended = other.Process.Pid, true
	f.signal(syscall.SIGTERM, nil)
	f.kill()
	f.forward(syscall.SIGTERM)
	select {
	case <-ended:
		t.Error("a stranger in a group of the child's number was ended")
	case <-time.After(100 * time.Millisecond):
	}
	f.child.ended = false
	f.forward(syscall.SIGKILL)
	<-ended
}
