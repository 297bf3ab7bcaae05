package crash

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/proc"
)

const (
	tick       = 200 * time.Millisecond
	startLimit = 20 * time.Second
	startPoll  = time.Millisecond
)

// A victim is the command lockkeeper server over one directory and at one address, as often as it takes.
type victim struct {
	t       *testing.T
	addr    string
	data    string // directory
	args    []string
	binary  string
	log     *os.File
	process *proc.Process
}

func newVictim(t *testing.T) *victim {
	t.Helper()
	dir := t.TempDir()
	v := &victim{t: t, binary: filepath.Join(dir, "lockkeeper"), data: filepath.Join(dir, "data")}
	var err error
	if v.addr, err = proc.FreeAddress(); err != nil {
		t.Fatal(err)
	}
	v.args = []string{"server", "--data", v.data, "--listen", v.addr,
		"--set", "tickTime=200", "--set", "maxSessionTimeout=60000",
		"--set", "snapCount=2000", "--set", "preAllocSize=256"} // so that crashes meet snapshots and new logs
	if err := proc.BuildCommand(v.binary); err != nil {
		t.Fatal(err)
	}
	if v.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.kill()
		if t.Failed() {
			b, _ := os.ReadFile(v.log.Name())
			t.Logf("end of the server's log:\n%s", b[max(0, len(b)-8<<10):])
		}
		v.log.Close()
	})
	return v
}

// start starts the server and returns when it listens.
func (v *victim) start() {
	v.t.Helper()
	cmd := exec.Command(v.binary, v.args...)
	cmd.Stdout, cmd.Stderr = v.log, v.log
	var err error
	if v.process, err = proc.Start(cmd); err != nil {
		v.t.Fatal(err)
	}
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); {
		if nc, err := net.Dial("tcp", v.addr); err == nil {
			nc.Close()
			return
		}
		select {
		case <-v.process.Exited():
			v.t.Fatal("the server does not start again")
		case <-time.After(startPoll):
		}
	}
	v.t.Fatalf("the server does not listen after %v", startLimit)
}

// kill ends the server as kill -9 does.
func (v *victim) kill() {
	if v.process != nil {
		v.process.Kill()
	}
}
