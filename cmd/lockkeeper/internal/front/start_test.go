//go:build linux

package front

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
)

// F43: a signal that arrives after the grant has been read and before the child is executed is seen by
// the last look, and the child never runs.
func TestF43_TheLastLookBeforeExecSeesASignal(t *testing.T) {
	cell, err := link.NewCell()
	if err != nil {
		t.Fatal(err)
	}
	cell.Store(link.Now().Add(time.Hour))
	f := &front{
		cfg:     Config{Name: "demo", Program: "/bin/true", Argv: []string{"true"}},
		cell:    cell,
		signals: make(chan os.Signal, 1),
		granted: link.Note{Is: link.IsGranted, Timeout: time.Minute, Token: 1},
	}
	f.signals <- syscall.SIGTERM
	out, started := f.start()
	if started || out.Kind != Signalled || out.Status != 128+int(syscall.SIGTERM) {
		t.Errorf("start = %+v, %v, want no start because of SIGTERM", out, started)
	}
}
