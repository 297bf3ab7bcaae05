package ensemble

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// child starts a shell that waits until the end of the test, under a command line of its own.
func child(t *testing.T, files []*os.File, args ...string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", append([]string{"-c", "read line", "java"}, args...)...)
	cmd.ExtraFiles = files
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait() // read fails at the end of its input
	})
	return cmd.Process.Pid
}

// pid leaves the file that zkServer.sh start leaves.
func pid(t *testing.T, src *Source) {
	n := child(t, nil, serverClass, "/nowhere/zoo.cfg")
	if err := os.WriteFile(filepath.Join(src.Dir, "zookeeper_server.pid"), fmt.Append(nil, n), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newSource returns a data directory with an empty log.
func newSource(t *testing.T) Source {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, versionName), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, versionName, "log.1"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return Source{Dir: dir}
}

// A server of Apache ZooKeeper's takes no lock: its command line, its configuration and its open files give it away.
func TestAServerThatRuns(t *testing.T) {
	t.Parallel()
	t.Run("stopped", func(t *testing.T) {
		t.Parallel()
		src := newSource(t)
		if err := os.WriteFile(filepath.Join(src.Dir, "zookeeper_server.pid"), fmt.Append(nil, os.Getpid()), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := src.stopped(); err != nil { // the number was given to another program since
			t.Error(err)
		}
	})
	t.Run("configured", func(t *testing.T) {
		t.Parallel()
		src := newSource(t)
		config := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(config, []byte("# a comment\ndataDir="+src.Dir+"/\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		n := child(t, nil, serverClass, config)
		if err := src.stopped(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("as process %d ", n)) {
			t.Errorf("stopped = %v", err)
		}
	})
	t.Run("arguments", func(t *testing.T) {
		t.Parallel()
		src := newSource(t)
		child(t, nil, serverClass, "2181", src.Dir)
		if err := src.stopped(); err == nil || !strings.Contains(err.Error(), "is at work there") {
			t.Errorf("stopped = %v", err)
		}
	})
	t.Run("a new directory", func(t *testing.T) {
		t.Parallel()
		if err := ApacheAt(filepath.Join(t.TempDir(), "new")); err != nil {
			t.Error(err)
		}
	})
	t.Run("open file", func(t *testing.T) {
		t.Parallel()
		src := newSource(t)
		f, err := os.OpenFile(filepath.Join(src.Dir, versionName, "log.1"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		child(t, []*os.File{f})
		if err := src.stopped(); err == nil || !strings.Contains(err.Error(), "has log.1 open") {
			t.Errorf("stopped = %v", err)
		}
	})
	t.Run("answers", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.ReadFull(c, make([]byte, 4))
				c.Write([]byte("Zxid: 0x5\nMode: standalone\n"))
				c.Close()
			}
		}()
		s := newSpec(t, FormatLocal, "127.0.0.1:1:2:3", "127.0.0.1:4:5:6", "127.0.0.1:7:8:9")
		if err := s.Silent(t.Context()); err != nil {
			t.Errorf("Silent = %v", err)
		}
		if err := s.Silent(t.Context(), l.Addr().String()); err == nil || !strings.Contains(err.Error(), "stop it first") {
			t.Errorf("Silent = %v", err)
		}
		s.Members[1].Client = l.Addr().(*net.TCPAddr).Port
		p := &Plan{Spec: *s, Source: Source{Dir: t.TempDir() + "/gone"}}
		if _, err := p.Verify(t.Context(), talk(nil)); err == nil || !strings.Contains(err.Error(), "lets clients in already") {
			t.Errorf("Verify = %v", err)
		}
	})
}

// A child that has not begun its own program yet has our files open, and is us. One that has begun is not, nor is another process
// with our arguments.
func TestAChildIsOursUntilItsProgramBegins(t *testing.T) {
	t.Parallel()
	ours, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		parent  int
		cmdline []byte
		want    bool
	}{
		"not begun":     {os.Getpid(), ours, true},
		"begun":         {os.Getpid(), []byte("java\x00"), false},
		"another's":     {1, ours, false},
		"of our number": {os.Getpid() * 10, ours, false},
	} {
		process := t.TempDir()
		status := fmt.Sprintf("Name:\tx\nPPid:\t%d\nUid:\t0\n", tt.parent)
		if err := errors.Join(os.WriteFile(filepath.Join(process, "status"), []byte(status), 0o644), os.WriteFile(filepath.Join(process, "cmdline"), tt.cmdline, 0o644)); err != nil {
			t.Fatal(err)
		}
		if got := isOurs(process); got != tt.want {
			t.Errorf("%s: ours %v, want %v", name, got, tt.want)
		}
	}
	if !isOurs(fmt.Sprintf("/proc/%d", os.Getpid())) {
		t.Error("this process is not ours")
	}
}
