//go:build linux

package front

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/link"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

func TestF42_TheChildsStatusIsPassedOn(t *testing.T) {
	for _, c := range []struct {
		script string
		status int
		signal string
	}{
		{"exit 0", 0, ""}, {"exit 7", 7, ""}, {"exit 74", 74, ""}, {"exit 75", 75, ""}, {"exit 255", 255, ""},
		{"kill -TERM $$", 143, "SIGTERM"}, {"kill -KILL $$", 137, "SIGKILL"},
	} {
		s := play(t, "sh", "-c", c.script)
		s.run()
		s.release()
		out := s.wantOutcome(c.status, Ran)
		if out.Child == nil || *out.Child != (ChildEnd{Exit: c.status, Signal: c.signal}) {
			t.Errorf("%s: child %+v, want exit %d, signal %q", c.script, out.Child, c.status, c.signal)
		}
	}
}

func TestF42_WhatTheEngineReports(t *testing.T) {
	for _, c := range []struct {
		note   link.Note
		status int
		kind   string
	}{
		{link.Note{Is: link.IsBusy, Text: "busy"}, 75, Busy},
		{link.Note{Is: link.IsFailed, Status: 69, Text: "no server"}, 69, Failed},
		{link.Note{Is: link.IsFailed, Status: 64, Text: "grace"}, 64, Failed},
		{link.Note{Text: "nonsense"}, 70, Failed}, // followed by the end of the engine
	} {
		s := play(t, "echo", "never")
		s.tell(c.note)
		s.enc.Encode(say{Exit: true})
		s.wantOutcome(c.status, c.kind)
		if got := s.rest(); got != "" {
			t.Errorf("%+v: the child ran and said %q", c.note, got)
		}
	}
}

func TestF42_WhatCannotBeExecuted(t *testing.T) {
	plain := t.TempDir() + "/plain"
	if err := os.WriteFile(plain, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		program string
		status  int
	}{{"/no/such/program", 127}, {plain, 126}, {"/", 126}} {
		s := play(t, c.program)
		s.grant(time.Hour)
		s.order(link.DoCancel)
		s.enc.Encode(say{Exit: true})
		s.wantOutcome(c.status, NotExecutable)
	}
}

func TestExecStatus(t *testing.T) {
	for err, want := range map[syscall.Errno]int{
		syscall.ENOENT: 127, syscall.ENOTDIR: 127, syscall.EACCES: 126, syscall.ENOEXEC: 126, syscall.E2BIG: 126,
		syscall.EAGAIN: 71, syscall.ENOMEM: 71, syscall.EMFILE: 71,
	} {
		if got := ExecStatus(&os.PathError{Op: "fork/exec", Path: "x", Err: err}); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestF43_ArgumentsStreamsAndEnvironment(t *testing.T) {
	blob := make([]byte, 10<<20)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range blob {
		blob[i] = byte(rng.Uint32())
	}
	s := playWith(t, func(c *exec.Cmd) { c.Stdin = bytes.NewReader(blob) }, "cat")
	s.run()
	got, err := io.ReadAll(s.out)
	if err != nil || !bytes.Equal(got, blob) {
		t.Errorf("10 MiB through cat: %d bytes, %v, or changed", len(got), err)
	}
	s.release()
	s.wantOutcome(0, Ran)

	s = playWith(t, func(c *exec.Cmd) {
		c.Env = append(c.Env, "LOCKKEEPER_LOCK=/outer", "LOCKKEEPER_TOKEN=1", "LOCKKEEPER_SERVERS=outer", "LOCKKEEPER_UNDER=/outer/x")
	}, "sh", "-c", `printf '%s|' "$@"; echo; env | grep ^LOCKKEEPER_ | sort`, "$0", "a b", `"'`, "-v", "", "--", "*")
	s.run()
	s.want(`a b|"'|-v||--|*|`)
	s.want("LOCKKEEPER_GRACE=1.8s")
	s.want("LOCKKEEPER_LOCK=/demo")
	s.want("LOCKKEEPER_SERVERS=unix:/s")
	s.want("LOCKKEEPER_TOKEN=77")
	s.want("LOCKKEEPER_UNDER=")
	if got := s.rest(); got != "" {
		t.Errorf("and %q", got)
	}
	s.release()
	s.wantOutcome(0, Ran)
}

func TestF43_AChildThatClosesItsOutputHasClosedIt(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s := playWith(t, func(c *exec.Cmd) { c.Stdin = in }, "sh", "-c", "echo up; exec >&-; read x; exit 5")
	in.Close()
	s.run()
	if got := s.rest(); got != "up\n" {
		t.Errorf("output %q", got)
	}
	out.WriteString("go\n")
	s.release()
	s.wantOutcome(5, Ran)
}

func TestF43_ASignalBetweenGrantAndExecMeansNeverRun(t *testing.T) {
	s := play(t, "echo", "never")
	s.signal(syscall.SIGTERM)
	s.order(link.DoCancel)
	s.grant(time.Hour) // crosses the order
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(143, Signalled)
	if got := s.rest(); got != "" {
		t.Errorf("the child ran and said %q", got)
	}
}

func TestF43_ALockThatIsOverBeforeExecIsNotUsed(t *testing.T) {
	s := play(t, "echo", "never")
	s.grant(1900 * time.Millisecond) // less than grace and margin
	s.order(link.DoCancel)
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(74, Lost)
	if got := s.rest(); got != "" {
		t.Errorf("the child ran and said %q", got)
	}
}

var forwarded = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

func TestF41_SignalsWhileWaiting(t *testing.T) {
	for _, sig := range forwarded {
		s := play(t, "echo", "never")
		s.signal(sig)
		s.order(link.DoCancel)
		s.tell(link.Note{Is: link.IsReleased})
		s.enc.Encode(say{Exit: true})
		s.wantOutcome(128+int(sig), Signalled)
		if got := s.rest(); got != "" {
			t.Errorf("%v: the child ran and said %q", sig, got)
		}
	}
}

// A signal that another listener of this process has got, before the front listened, is not lost.
func TestF41_ASignalBeforeTheFrontListens(t *testing.T) {
	s := playWith(t, func(c *exec.Cmd) { c.Env = append(c.Env, "FRONT_TEST_EARLY=1") }, "echo", "never")
	s.order(link.DoCancel)
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(143, Signalled)
}

func TestF41_ASecondTermDoesNotWaitForTheEngine(t *testing.T) {
	s := play(t, "echo", "never")
	s.signal(syscall.SIGTERM)
	s.order(link.DoCancel)
	time.Sleep(insistAfter) // until it is another one
	s.signal(syscall.SIGTERM)
	s.wantOutcome(143, Signalled)
}

func TestF41_SignalsWhileRunning(t *testing.T) {
	for _, sig := range forwarded {
		n := strconv.Itoa(int(sig))
		// The shell waits for a background job, so that its trap runs at once; both are in the group.
		s := play(t, "sh", "-c", "trap 'echo got "+n+"; exit 9' "+n+"; sleep 1000 & echo up; wait")
		s.run()
		s.want("up")
		s.signal(sig)
		s.want("got " + n)
		s.release()
		s.wantOutcome(9, Ran)

		s = play(t, "sh", "-c", "echo up; exec sleep 1000")
		s.run()
		s.want("up")
		s.signal(sig)
		s.release()
		s.wantOutcome(128+int(sig), Ran)
	}
}

func TestF41_ASecondTermKills(t *testing.T) {
	s := play(t, "sh", "-c", "trap '' INT; trap 'echo ignored' TERM; echo up; while :; do sleep 1000 & wait; done")
	s.run()
	s.want("up")
	s.signal(syscall.SIGTERM)
	s.want("ignored")
	time.Sleep(insistAfter) // until it is another one
	s.signal(syscall.SIGINT)
	if got := s.rest(); got != "" {
		t.Errorf("after the second signal: %q", got)
	}
	s.release()
	s.wantOutcome(137, Ran)
}

// A signal to a process and then to its group, as timeout(1) sends it, counts once: the child may take its time.
func TestF41_ATermThatIsSaidTwiceIsOne(t *testing.T) {
	for tries := 5; ; tries-- { // on a machine that stands still in between the two arrive as two
		s := play(t, "sh", "-c", "trap 'trap \"\" TERM; sleep 0.3; echo cleaned up; exit 9' TERM; sleep 1000 & echo up; wait")
		s.run()
		s.want("up")
		for end := time.Now().Add(insistAfter / 10); time.Now().Before(end); time.Sleep(time.Millisecond) {
			s.cmd.Process.Signal(syscall.SIGTERM) // a process that was told twice may have ended
		}
		said := s.rest()
		if said == "" && tries > 1 {
			continue
		}
		s.release()
		s.wantOutcome(9, Ran)
		if said != "cleaned up\n" {
			t.Errorf("the child said %q", said)
		}
		break
	}

	s := play(t, "echo", "never")
	s.signal(syscall.SIGTERM)
	s.order(link.DoCancel)
	s.signal(syscall.SIGTERM)
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(143, Signalled)
}

func TestF41_AnIgnoredHangupStaysIgnored(t *testing.T) {
	nohup := func(c *exec.Cmd) {
		c.Args = append([]string{"nohup", c.Path}, c.Args[1:]...)
		c.Path, _ = exec.LookPath("nohup")
	}
	self, err := os.Executable() // nohup would look for /proc/self/exe of its own
	if err != nil {
		t.Fatal(err)
	}
	s := playWith(t, func(c *exec.Cmd) { c.Path = self; nohup(c) },
		"sh", "-c", "kill -HUP $$ $PPID; echo alive; read x", "sh")
	s.run()
	s.want("alive")
	s.release()
	s.wantOutcome(1, Ran) // read at the end of its input
}

func TestF40_LossWithGraceAsksFirst(t *testing.T) {
	s := play(t, "sh", "-c", "trap 'echo asked; exit 0' TERM; sleep 1000 & echo up; wait")
	s.run()
	s.want("up")
	s.tell(link.Note{Is: link.IsLost, Text: "session expired"})
	s.want("asked")
	s.release()
	out := s.wantOutcome(74, Lost)
	if !strings.Contains(out.Text, "session expired") || out.Child == nil {
		t.Errorf("outcome %+v does not say why and how", out)
	}
}

// F40: a grandchild ignores TERM; the lock may already be another's, so none is asked.
func TestF40_WhatIsGoneIsKilledAtOnce(t *testing.T) {
	s := play(t, "sh", "-c", "trap 'echo asked' TERM; (trap '' TERM; echo up; while :; do sleep 1000; done) & wait")
	s.run()
	s.want("up")
	s.tell(link.Note{Is: link.IsLost, Gone: true, Text: "node deleted"})
	if got := s.rest(); got != "" {
		t.Errorf("the child said %q", got)
	}
	s.release()
	s.wantOutcome(74, Lost)
}

// F40: nothing is heard from the engine any more; the deadline alone ends a child that ignores TERM.
func TestF40_TheDeadlineNeedsNoEngine(t *testing.T) {
	for _, how := range []string{"silent", "stopped", "dead"} {
		s := play(t, "sh", "-c", "trap '' TERM; (echo up; while :; do sleep 1000; done) & wait; while :; do sleep 1000; done")
		const loan = 8 * time.Second // the child is told to end after six, and has to be up by then
		s.grant(loan)
		s.order(link.DoStarted)
		start := time.Now() // later than the engine's, from which the deadline is counted
		s.want("up")
		switch how {
		case "stopped":
			syscall.Kill(s.pid, syscall.SIGSTOP)
		case "dead":
			syscall.Kill(s.pid, syscall.SIGKILL)
		}
		if got := s.rest(); got != "" {
			t.Errorf("%s: %q", how, got)
		}
		// The deadline is what the front works to; that another may work a third of the session
		// timeout later is what matters, and what a busy machine may not break.
		took := time.Since(start)
		t.Logf("%s: dead %v before the deadline", how, loan-took)
		if took > loan+sessionTimeout/3 {
			t.Errorf("%s: the last process died %v after the grant; the deadline was %v", how, took, loan)
		}
		if how == "silent" {
			s.release()
		}
		s.wantOutcome(74, Lost)
		if how != "dead" {
			syscall.Kill(s.pid, syscall.SIGKILL)
		}
	}
}

func TestADeadlineThatMovesOnEndsNothing(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := playWith(t, func(c *exec.Cmd) { c.Stdin = in }, "sh", "-c", "echo up; read x; echo still here")
	const loan = 8 * time.Second // the child is told to end two seconds before it is over
	s.grant(loan)
	s.order(link.DoStarted)
	s.want("up")
	end := time.Now().Add(loan)
	for time.Now().Before(end) { // heartbeats
		s.enc.Encode(say{Deadline: loan})
		time.Sleep(20 * time.Millisecond)
	}
	s.enc.Encode(say{Deadline: time.Hour})
	out.WriteString("go\n")
	s.want("still here")
	s.release()
	s.wantOutcome(0, Ran)
}

func TestLeftoversEndBeforeTheLockIsGivenBack(t *testing.T) {
	for name, script := range map[string]string{
		"in the group":             "sleep 1000 & exit 3",
		"ignoring TERM":            "trap '' TERM; (while :; do sleep 1000; done) & exit 3",
		"in a group of its own":    "set -m; sleep 1000 & exit 3",
		"in a group, and orphaned": "set -m; (sleep 1000 & sleep 1000 &) ; exit 3",
		"each starting the next":   "trap '' TERM; step() { step & }; step & exit 3",
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, "bash", "-c", script) // its job control works without a terminal
			group := s.run()
			defer syscall.Kill(-group, syscall.SIGKILL)
			s.order(link.DoRelease)
			// Every process has the output open; once the order is out, none may be left.
			done := make(chan string)
			go func() { done <- s.rest() }()
			select {
			case <-done:
			case <-time.After(limit):
				t.Error("the lock was given back while a process was left")
			}
			s.enc.Encode(say{Exit: true})
			s.wantOutcome(3, Ran)
		})
	}
}

func TestADaemonIsLeftAloneUnlessTheLockIsLost(t *testing.T) {
	s := play(t, "sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & wait; read x")
	s.run()
	daemon, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	s.tell(link.Note{Is: link.IsLost, Gone: true})
	s.rest()
	s.release()
	s.wantOutcome(74, Lost)
	if table, err := proc.Table(); err != nil || slices.ContainsFunc(table, func(p proc.Process) bool { return p.Pid == daemon && p.State != 'Z' }) {
		t.Errorf("the daemon outlived the loss of the lock (process table: %v)", err)
	}

	s = play(t, "sh", "-c", "trap 'exit 0' USR1; setsid sh -c 'echo $$; kill -USR1 $PPID; exec sleep 1000' & wait; wait")
	s.run()
	if daemon, err = strconv.Atoi(s.line()); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(daemon, syscall.SIGKILL)
	s.release()
	s.wantOutcome(0, Ran)
	if err := syscall.Kill(daemon, 0); err != nil {
		t.Errorf("the daemon that was left on purpose: %v", err)
	}
}

// While the lock is given back, which takes time without a server, its deadline may pass: no child works under it any more.
func TestADaemonOutlivesTheDeadlineOfALockThatIsGivenBack(t *testing.T) {
	s := play(t, "sh", "-c", "trap 'exit 0' USR1; setsid sh -c 'echo $$; kill -USR1 $PPID; exec sleep 1000' & wait; wait")
	const loan = 12 * time.Second // the child would be told to end two seconds before it is over, and has to have ended by then
	s.grant(loan)
	s.order(link.DoStarted)
	over := time.After(loan)
	daemon, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(daemon, syscall.SIGKILL)
	s.order(link.DoRelease)
	<-over
	if _, err := proc.Find(daemon); err != nil {
		t.Errorf("the daemon was ended: %v", err)
	}
	s.tell(link.Note{Is: link.IsReleased})
	s.enc.Encode(say{Exit: true})
	s.wantOutcome(0, Ran)
}

func TestChildrenOfAShellThatExecutedUsAreNotOurs(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	s := playWith(t, func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `sleep 1000 & echo $!
			(sleep 1000 & echo $! > "$FILE"; exec sleep 1000) & export PARENT=$!
			until [ -s "$FILE" ]; do :; done; cat "$FILE"; exec "$0" "$@"`, self}, c.Args[1:]...)
		c.Path, c.Env = "/bin/sh", append(c.Env, "FILE="+file)
	}, "sh", "-c", "kill $PARENT; while kill -0 $PARENT 2> /dev/null; do :; done") // which makes an orphan
	var older [2]int
	for i := range older {
		if older[i], err = strconv.Atoi(s.line()); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(older[i], syscall.SIGKILL)
	}
	s.run()
	s.release()
	s.wantOutcome(0, Ran)
	for i, pid := range older {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || strings.Contains(string(b), ") Z ") {
			t.Errorf("the shell's older %s is gone: %v", []string{"child", "grandchild"}[i], err)
		}
	}
}

// A child of such a shell goes on starting processes; those that it leaves behind come to the front.
func TestOrphansOfAShellThatExecutedUsAreNotOurs(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := playWith(t, func(c *exec.Cmd) {
		c.Args = append([]string{"sh", "-c", `(until [ -e "$DIR/go" ]; do sleep 0.01; done
			sleep 1000 & echo $! > "$DIR/new"; mv "$DIR/new" "$DIR/orphan") > /dev/null & exec "$0" "$@"`, self}, c.Args[1:]...)
		c.Path, c.Env = "/bin/sh", append(c.Env, "DIR="+dir)
	}, "sh", "-c", `touch "$DIR/go"; until [ -e "$DIR/orphan" ]; do sleep 0.01; done; cat "$DIR/orphan"`)
	s.run()
	orphan, err := strconv.Atoi(s.line())
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(orphan, syscall.SIGKILL)
	s.release()
	s.wantOutcome(0, Ran)
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", orphan)); err != nil || strings.Contains(string(b), ") Z ") {
		t.Errorf("a process that is not the child's was ended: %v", err)
	}
}

func TestF41_TheChildDiesWithTheFront(t *testing.T) {
	s := play(t, "sh", "-c", "echo up; exec sleep 1000")
	s.run()
	s.want("up")
	s.signal(syscall.SIGKILL)
	if got := s.rest(); got != "" {
		t.Errorf("%q", got)
	}
}
