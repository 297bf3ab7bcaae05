//go:build linux

package front

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	guardian "github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/guard"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/sigtest"
)

// The test binary plays four parts: the tests themselves, the front, which has to be a process of
// its own because it waits for all its children, its guard, and an engine that does what a test says.
func TestMain(m *testing.M) {
	if os.Args[0] == link.GuardName {
		playGuard()
		return
	}
	switch os.Getenv("FRONT_TEST_PART") {
	case "front":
		playFront()
	case "engine":
		playEngine()
	default:
		sigtest.Defaults()
		os.Exit(m.Run())
	}
}

// limit is how long a test waits for anything that should happen at once.
const limit = 20 * time.Second

// session is the session timeout that the engine of the tests claims; the plan for it is a grace of
// 1.8 s and a margin of 200 ms.
const sessionTimeout = 6 * time.Second

func playFront() {
	argv := os.Args[1:]
	program, err := exec.LookPath(argv[0])
	if err != nil {
		program = argv[0]
	}
	os.Setenv("FRONT_TEST_PART", "engine")
	var early func() os.Signal
	if os.Getenv("FRONT_TEST_EARLY") != "" {
		early = func() os.Signal { return syscall.SIGTERM }
	}
	out := Run(Config{
		Name: "demo", Open: link.Open{Lock: "/demo", Grace: link.GraceAuto},
		Program: program, Argv: argv, Env: os.Environ(),
		BusyStatus: 75, LostStatus: 74, Early: early,
		Engine: "/proc/self/exe", EngineArgs: []string{"engine"}, Stderr: os.Stderr,
	})
	if path := os.Getenv("FRONT_TEST_OUTCOME"); path != "" {
		line, _ := json.Marshal(out)
		os.WriteFile(path, line, 0o600)
	}
	if out.Text != "" {
		os.Stderr.WriteString(out.Text + "\n")
	}
	os.Exit(out.Status)
}

func playGuard() {
	fds, err := link.ParseGuardFDs(os.Args[2])
	if err != nil {
		panic(err)
	}
	for _, fd := range fds.All() {
		syscall.CloseOnExec(fd)
	}
	cell, err := link.OpenCell(os.NewFile(uintptr(fds.Cell), "cell"))
	if err != nil {
		panic(err)
	}
	file := func(fd int) *os.File { return os.NewFile(uintptr(fd), "") }
	pipes := guardian.Pipes{Task: file(fds.Task), Events: file(fds.Events), Condemn: file(fds.Condemn)}
	if err := guardian.Run(pipes, cell, func(proc.Process) bool { return false }); err != nil {
		panic(err)
	}
}

// A say is what the test wants the engine to do.
type say struct {
	Note     *link.Note    `json:"note,omitempty"`
	Deadline time.Duration `json:"deadline,omitempty"` // from now
	Exit     bool          `json:"exit,omitempty"`
}

// A heard is what the engine tells the test: its own number, then every order.
type heard struct {
	Pid   int         `json:"pid,omitempty"`
	Order *link.Order `json:"order,omitempty"`
}

func playEngine() {
	conn, err := net.Dial("unix", os.Getenv("FRONT_TEST_ENGINE"))
	if err != nil {
		panic(err)
	}
	cell, err := link.OpenCell(os.NewFile(link.FDCell, "cell"))
	if err != nil {
		panic(err)
	}
	out := json.NewEncoder(conn)
	out.Encode(heard{Pid: os.Getpid()})
	go func() {
		link.Receive(os.NewFile(link.FDOrders, "orders"), func(o link.Order) { out.Encode(heard{Order: &o}) })
		conn.Close() // the front is dead: so the test sees it
		os.Exit(0)
	}()
	notes := link.NewWriter(os.NewFile(link.FDNotes, "notes"))
	for in := json.NewDecoder(conn); ; {
		var s say
		if err := in.Decode(&s); err != nil || s.Exit {
			os.Exit(0)
		}
		if s.Deadline != 0 {
			cell.Store(link.Now().Add(s.Deadline))
		}
		if s.Note != nil {
			notes.Send(s.Note)
		}
	}
}

// A stage is a front with its engine in the hands of the test.
type stage struct {
	t       *testing.T
	cmd     *exec.Cmd
	out     *bufio.Reader // the child's standard output; it ends when the last process that has it does
	pipe    *os.File      // where that comes from
	outcome string
	pid     int // of the engine

	conn   net.Conn
	enc    *json.Encoder
	heard  chan heard
	exited chan struct{}
}

// play starts a front that runs argv, and returns when the engine has been asked for the lock.
func play(t *testing.T, argv ...string) *stage {
	t.Helper()
	return playWith(t, nil, argv...)
}

// playWith is play, with a hand in how the front is started.
func playWith(t *testing.T, how func(*exec.Cmd), argv ...string) *stage {
	t.Helper()
	s := prepare(t)
	s.cmd = exec.Command("/proc/self/exe", argv...)
	s.cmd.Env = append(os.Environ(), s.env()...)
	s.cmd.Stderr = os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	s.pipe, s.out = r, bufio.NewReader(r)
	s.cmd.Stdout = w
	if how != nil {
		how(s.cmd)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() { s.cmd.Wait(); close(s.exited) }()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.exited
	})
	s.engineUp()
	return s
}

// prepare makes a stage whose front is still to be started, with env.
func prepare(t *testing.T) *stage {
	dir := t.TempDir()
	s := &stage{t: t, outcome: filepath.Join(dir, "outcome"), heard: make(chan heard, 16), exited: make(chan struct{})}
	l, err := net.Listen("unix", filepath.Join(dir, "engine"))
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.Accept(); err == nil {
			accepted <- c
		}
		close(accepted)
	}()
	t.Cleanup(func() { l.Close() })
	s.conn = &lateConn{accepted: accepted}
	return s
}

// lateConn is the connection to an engine that has not called yet.
type lateConn struct {
	net.Conn
	accepted chan net.Conn
}

func (s *stage) env() []string {
	return []string{"GORACE=atexit_sleep_ms=0", "FRONT_TEST_PART=front", "FRONT_TEST_OUTCOME=" + s.outcome,
		"FRONT_TEST_ENGINE=" + filepath.Join(filepath.Dir(s.outcome), "engine")}
}

// engineUp waits for the engine to call and to be asked for the lock.
func (s *stage) engineUp() {
	s.t.Helper()
	select {
	case s.conn = <-s.conn.(*lateConn).accepted:
	case <-time.After(limit):
		s.t.Fatal("no engine was started")
	}
	s.t.Cleanup(func() { s.conn.Close() })
	s.enc = json.NewEncoder(s.conn)
	go func() {
		defer close(s.heard)
		for in := json.NewDecoder(s.conn); ; {
			var h heard
			if in.Decode(&h) != nil {
				return
			}
			s.heard <- h
		}
	}()
	h := <-s.heard
	s.pid = h.Pid
	s.t.Cleanup(func() {
		if s.heard != nil && s.pid > 0 {
			syscall.Kill(s.pid, syscall.SIGCONT)
		}
	})
	s.order(link.DoOpen)
}

// order waits until the engine receives the order do.
func (s *stage) order(do string) link.Order {
	s.t.Helper()
	select {
	case h, ok := <-s.heard:
		if !ok {
			s.t.Fatalf("the engine heard the end of the front, want order %q", do)
		}
		if h.Order.Do != do {
			s.t.Fatalf("order %q, want %q", h.Order.Do, do)
		}
		return *h.Order
	case <-time.After(limit):
		s.t.Fatalf("no order %q", do)
		return link.Order{}
	}
}

func (s *stage) tell(n link.Note) { s.enc.Encode(say{Note: &n}) }

// grant gives the lock, until so long from now.
func (s *stage) grant(deadline time.Duration) {
	s.enc.Encode(say{Deadline: deadline, Note: &link.Note{Is: link.IsGranted, Token: 77, Timeout: sessionTimeout, Servers: "unix:/s"}})
}

// run gives the lock for good, and returns the child's process group.
func (s *stage) run() int {
	s.t.Helper()
	s.grant(time.Hour)
	return s.order(link.DoStarted).Group
}

// release expects the lock to be given back, and ends the engine.
func (s *stage) release() {
	s.t.Helper()
	s.order(link.DoRelease)
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
}

// line reads a line of the child's output.
func (s *stage) line() string {
	s.t.Helper()
	s.pipe.SetReadDeadline(time.Now().Add(limit))
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("output ended after %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *stage) want(line string) {
	s.t.Helper()
	if got := s.line(); got != line {
		s.t.Fatalf("the child said %q, want %q", got, line)
	}
}

// rest reads what the child and its descendants say until none of them is left.
func (s *stage) rest() string {
	s.t.Helper()
	var b strings.Builder
	s.pipe.SetReadDeadline(time.Now().Add(limit))
	if _, err := s.out.WriteTo(&b); err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

// status waits for the front to end.
func (s *stage) status() int {
	s.t.Helper()
	select {
	case <-s.exited:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		s.t.Fatal("the front has not ended")
		return 0
	}
}

func (s *stage) wantOutcome(status int, kind string) Outcome {
	s.t.Helper()
	if got := s.status(); got != status {
		s.t.Errorf("exit status %d, want %d", got, status)
	}
	line, err := os.ReadFile(s.outcome)
	if err != nil {
		s.t.Fatal(err)
	}
	var out Outcome
	if err := json.Unmarshal(line, &out); err != nil {
		s.t.Fatal(err)
	}
	if out.Kind != kind {
		s.t.Errorf("outcome %+v, want kind %q", out, kind)
	}
	return out
}

func (s *stage) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
