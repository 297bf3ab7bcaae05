package engine

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

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
	for looks, unsure := 0, 0; unsure < 100; looks++ {
		found, sure := w.marked()
		if !sure {
			unsure++
		} else if !slices.ContainsFunc(found, func(p proc.Process) bool { return p.Pid == cmd.Process.Pid }) {
			t.Fatalf("look %d: what works under the lock is not seen", looks)
		}
	}
}
