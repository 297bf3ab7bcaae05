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
