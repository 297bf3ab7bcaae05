//go:build linux

package front

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// guardPid returns the process that guards the stage's child.
func (s *stage) guardPid() int {
	s.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		table, err := proc.Table()
		if err != nil {
			s.t.Fatal(err)
		}
		if i := slices.IndexFunc(table, func(p proc.Process) bool {
			return p.Parent == s.cmd.Process.Pid && slices.Contains(proc.Args(p), link.GuardCommand)
		}); i >= 0 {
			return table[i].Pid
		}
	}
	s.t.Fatal("the front has no guard")
	return 0
}

// freeze stops the front, and returns when every thread of it stands.
func (s *stage) freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
		if err != nil {
			s.t.Fatal(err)
		}
		if !slices.ContainsFunc(threads, func(path string) bool {
			stat, err := os.ReadFile(path)
			return err == nil && !bytes.Contains(stat, []byte(") T "))
		}) {
			return
		}
	}
	s.t.Fatal("the front does not stop")
}

// Without a guard nothing is started, whether it has died before the lock was granted or after.
func TestF41_WithoutAGuardNothingIsStarted(t *testing.T) {
	for _, granted := range []bool{false, true} {
		s := play(t, "echo", "never")
		guard := s.guardPid()
		if granted {
			s.freeze()
			s.grant(time.Hour)
		}
		syscall.Kill(guard, syscall.SIGKILL)
		s.signal(syscall.SIGCONT)
		s.order(link.DoCancel)
		s.enc.Encode(say{Exit: true})
		out := s.wantOutcome(70, Failed)
		if got := s.rest(); got != "" || !strings.Contains(out.Text, "guard") {
			t.Errorf("granted %v: the child ran and said %q, or the outcome does not say why: %+v", granted, got, out)
		}
	}
}

// The guard is the parent of all: a process that has left the group, the session and the environment is killed with
// the rest when the front is.
func TestF41_NobodyGetsAwayFromTheGuard(t *testing.T) {
	s := play(t, "sh", "-c", "env -i sh -c 'setsid sh -c \"trap : HUP TERM; echo up; while :; do sleep 1000; done\" & exit'; wait; exec sleep 1000")
	s.run()
	s.want("up")
	s.signal(syscall.SIGKILL)
	if got := s.rest(); got != "" {
		t.Errorf("%q", got)
	}
}

// The deadline may move on after the guard has killed the child: a heartbeat is answered in the margin before it.
func TestF40_AChildThatTheGuardHasKilledDidNotJustRun(t *testing.T) {
	s := play(t, "sleep", "1000")
	s.grant(6 * time.Second)
	child := s.order(link.DoStarted).Group
	s.freeze()
	for end := time.Now().Add(limit); proc.GroupAlive(child); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the guard has not killed the child")
		}
	}
	engine, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/%d", s.pid, link.FDCell), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	cell, err := link.OpenCell(engine)
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	cell.Store(link.Now().Add(time.Hour))
	s.signal(syscall.SIGCONT)
	s.release()
	if out, want := s.wantOutcome(74, Lost), "no heartbeat was answered in time"; !strings.Contains(out.Text, want) {
		t.Errorf("the outcome %q does not say %q", out.Text, want)
	}
}
