//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/sigtest"
)

// The test binary is the command, too: with this variable it does what lockkeeper does, and so do the
// engine and the keeper that it starts.
const asCommand = "LOCKKEEPER_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(execute(os.Args[1:]))
	}
	sigtest.Defaults()
	os.Exit(m.Run())
}

// limit is how long a test waits for what should happen at once.
const limit = 30 * time.Second

// A home is a user without configuration: empty directories and, once a command has needed it, a local
// keeper, which goes at the end of the test.
type home struct {
	t    testing.TB
	self string // the command
	dir  string
	env  []string
}

func newHome(t testing.TB, env ...string) *home {
	t.Helper()
	dir, err := os.MkdirTemp("", "lk") // short: a socket is below it
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := &home{t: t, self: self, dir: dir}
	h.env = append(os.Environ(), asCommand+"=1", "GORACE=atexit_sleep_ms=0", "HOME="+dir, "XDG_STATE_HOME="+dir+"/state",
		"XDG_RUNTIME_DIR="+dir, "LOCKKEEPER_SERVERS=local", "LK="+self, "DIR="+dir)
	h.env = append(h.env, env...)
	t.Cleanup(func() {
		h.clear()
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/state/lockkeeper/keeper.log")
			t.Logf("the keeper's log:\n%s", log)
		}
		os.RemoveAll(dir)
	})
	return h
}

// started reports whether p was started by this test, by whatever way.
func (h *home) started(p proc.Process) bool {
	env, _ := proc.Env(p)
	return slices.Contains(env, "DIR="+h.dir)
}

// clear ends what the test has left: engines are let finish, since one that says goodbye to a keeper
// that is gone would start another, and then everything that carries the home's name is killed.
func (h *home) clear() {
	patience := time.Now().Add(limit / 3)
	for {
		table, err := proc.Table()
		if err != nil {
			h.t.Fatal(err)
		}
		var engines, others []proc.Process
		for _, p := range table {
			if p.Dead() || !h.started(p) {
				continue
			}
			proc.Signal(p, syscall.SIGCONT) // in case the test has stopped it
			if args := proc.Args(p); len(args) > 1 && args[1] == "engine" && time.Now().Before(patience) {
				engines = append(engines, p)
			} else {
				others = append(others, p)
			}
		}
		if len(engines) == 0 {
			for _, p := range others {
				proc.Signal(p, syscall.SIGKILL)
			}
			if len(others) == 0 {
				return
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// keeperPid returns the process of the local keeper that was started last, or 0.
func (h *home) keeperPid() int {
	b, err := os.ReadFile(h.dir + "/state/lockkeeper/keeper.json")
	if err != nil {
		return 0
	}
	var a struct{ Pid int }
	if err := json.Unmarshal(b, &a); err != nil {
		h.t.Fatal(err)
	}
	return a.Pid
}

// A job is a command that runs in the background of a test.
type job struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *screen
	stderr *screen
	done   chan struct{}
}

// start starts a command.
func (h *home) start(args ...string) *job {
	h.t.Helper()
	return h.startWith(func(*exec.Cmd) {}, args...)
}

func (h *home) startWith(how func(*exec.Cmd), args ...string) *job {
	h.t.Helper()
	j := &job{t: h.t, stdout: newScreen(), stderr: newScreen(), done: make(chan struct{})}
	j.cmd = exec.Command(h.self, args...)
	j.cmd.Env, j.cmd.Dir = h.env, h.dir
	j.cmd.Stdout, j.cmd.Stderr = j.stdout, j.stderr
	j.cmd.WaitDelay = limit
	how(j.cmd)
	if err := j.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { j.cmd.Wait(); j.stdout.end(); j.stderr.end(); close(j.done) }()
	h.t.Cleanup(func() {
		if h.t.Failed() {
			h.t.Logf("%q says:\n%s%s", j.cmd.Args[1:], j.stdout, j.stderr)
		}
		j.cmd.Process.Signal(syscall.SIGCONT)
		j.cmd.Process.Kill()
		<-j.done
	})
	return j
}

// status waits for the end of a job.
func (j *job) status() int {
	j.t.Helper()
	select {
	case <-j.done:
		return j.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		j.t.Fatalf("%q has not ended; it says %s%s", j.cmd.Args[1:], j.stdout, j.stderr)
		return 0
	}
}

// want waits for the end of a job, and checks its exit status and that its standard error has some
// words in it.
func (j *job) want(status int, words ...string) *job {
	j.t.Helper()
	if got := j.status(); got != status {
		j.t.Errorf("%q: exit status %d, want %d\n%s%s", j.cmd.Args[1:], got, status, j.stdout, j.stderr)
	}
	for _, w := range words {
		if !strings.Contains(j.stderr.String(), w) {
			j.t.Errorf("%q says %q, want it to mention %q", j.cmd.Args[1:], j.stderr, w)
		}
	}
	return j
}

// wantEndedBy waits for the end of a job, and checks that it was ended by a signal.
func (j *job) wantEndedBy(sig syscall.Signal) {
	j.t.Helper()
	j.status()
	if ws := j.cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != sig {
		j.t.Errorf("%q has ended with %v, want it ended by %v\n%s", j.cmd.Args[1:], j.cmd.ProcessState, sig, j.stderr)
	}
}

// wantInterrupted is want for a job that has got INT: it ends by that signal, so that the script or loop around it ends.
func (j *job) wantInterrupted(words ...string) {
	j.t.Helper()
	j.wantEndedBy(syscall.SIGINT)
	j.want(-1, words...) // ended by a signal
}

func (j *job) signal(sig syscall.Signal) {
	j.t.Helper()
	if err := j.cmd.Process.Signal(sig); err != nil {
		j.t.Fatal(err)
	}
}

// run runs a command to its end.
func (h *home) run(args ...string) *job {
	h.t.Helper()
	j := h.start(args...)
	j.status()
	return j
}

// engineOf returns the process that keeps the session of a front, guardOf the one that is the parent of
// its child.
func engineOf(t *testing.T, front int) int { return partOf(t, front, "engine") }
func guardOf(t *testing.T, front int) int  { return partOf(t, front, "guard") }

func partOf(t *testing.T, front int, name string) int {
	t.Helper()
	for _, pid := range childrenOf(t, front) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(line), "\x00"+name+"\x00") {
			return pid
		}
	}
	t.Fatalf("process %d has no %s", front, name)
	return 0
}

func childrenOf(t *testing.T, parent int) (pids []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var pid, ppid int
		var state string
		fmt.Sscan(string(b), &pid)
		fmt.Sscan(string(b[bytes.LastIndexByte(b, ')')+1:]), &state, &ppid)
		if ppid == parent {
			pids = append(pids, pid)
		}
	}
	return pids
}

// wantGone waits until a process has ended.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return
		}
	}
	t.Errorf("process %d is still there", pid)
}

// A screen collects output and lets a test wait for words in it.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	more  chan struct{} // closed and replaced when there is more
	ended bool
}

func newScreen() *screen { return &screen{more: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	close(s.more)
	s.more = make(chan struct{})
	return len(b), nil
}

func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	close(s.more)
	s.more = make(chan struct{})
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// see waits until the output has this text.
func (j *job) see(text string) {
	j.t.Helper()
	if err := j.stdout.see(text); err != nil {
		j.t.Fatalf("%q: %v; it says %s%s", j.cmd.Args[1:], err, j.stdout, j.stderr)
	}
}

func (s *screen) see(text string) error {
	end := time.After(limit)
	for {
		s.mu.Lock()
		seen, more, ended := strings.Contains(s.text.String(), text), s.more, s.ended
		s.mu.Unlock()
		switch {
		case seen:
			return nil
		case ended:
			return fmt.Errorf("ended without %q: %w", text, io.ErrUnexpectedEOF)
		}
		select {
		case <-more:
		case <-end:
			return errors.New("no " + text)
		}
	}
}

// held waits until a lock has this many contenders.
func (h *home) held(lock string, contenders int) []lockLine {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); {
		j := h.run("locks", "--json", lock)
		var lines []lockLine
		if err := json.Unmarshal([]byte(j.stdout.String()), &lines); err != nil {
			h.t.Fatalf("locks --json: %v: %s%s", err, j.stdout, j.stderr)
		}
		if len(lines) == 1 && len(lines[0].Contenders) == contenders {
			return lines
		}
	}
	h.t.Fatalf("lock %s has never had %d contenders", lock, contenders)
	return nil
}
