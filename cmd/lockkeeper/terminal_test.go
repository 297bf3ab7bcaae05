//go:build linux

package main

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
)

// shellOn starts an interactive shell on a terminal.
func (h *home) shellOn(x *ptytest.Terminal) *job {
	h.t.Helper()
	tty := x.Slave()
	defer tty.Close()
	j := h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/bash", []string{"bash", "--norc", "--noprofile", "-i"}
		c.Env = append(c.Env, "PS1=> ", "TERM=dumb", "HISTFILE=")
		c.Stdin, c.Stdout, c.Stderr = tty, tty, tty
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	})
	x.WaitFor("> ")
	return j
}

// catUnderLock runs cat under a lock, in the foreground of an interactive shell.
func catUnderLock(t *testing.T) (*home, *ptytest.Terminal) {
	t.Helper()
	h, x := newHome(t), ptytest.Open(t)
	h.run("run", "demo", "--", "true").want(0) // so that the keeper is not told of
	h.shellOn(x)
	x.Type("$LK run demo -- sh -c 'echo up; exec cat'\n")
	x.WaitFor("\r\nup\r\n")
	return h, x
}

// F40: a child that works at the terminal reads what is typed, ^C interrupts it, ^Z stops it together
// with the wrapper, and fg brings both back, while the lock is kept.
func TestF40_AnInteractiveChild(t *testing.T) {
	t.Parallel()
	h, x := catUnderLock(t)
	x.Type("hello\n")
	x.WaitFor("hello\r\nhello\r\n") // what the terminal echoes, and what cat says
	x.Type("\x1a")
	x.WaitFor("Stopped")
	x.WaitFor("> ")
	h.run("run", "--wait", "0", "demo", "--", "true").want(75)
	x.Type("fg\n")
	x.WaitFor("cat'\r\n")
	x.Type("again\n")
	x.WaitFor("again\r\nagain\r\n")
	x.Type("\x1a")
	x.WaitFor("Stopped")
	x.Type("bg\n") // it reads in the background, and is stopped for that
	x.WaitFor("&")
	x.Type("while jobs -r | grep -q .; do :; done; echo set''tled\n")
	x.WaitFor("settled")
	x.Type("echo; fg\n")
	x.WaitFor("fg\r\n\r\n")
	x.WaitFor("cat'\r\n")
	x.Type("third\n")
	x.WaitFor("third\r\nthird\r\n")
	x.Type("\x03")
	x.WaitFor("> ")
	x.Type("echo status $?\n")
	x.WaitFor("status 130")

	// What interrupts the child interrupts the script around it.
	x.Type(`sh -c '$LK run demo -- sh -c "echo up; exec cat"; echo the script went on'; echo status $?` + "\n")
	x.WaitFor("script went on'") // the echo of the line
	x.WaitFor("\r\nup\r\n")
	x.Type("\x03")
	x.WaitFor("^C")
	if shown := x.WaitFor("> "); strings.Contains(shown, "went on") {
		t.Errorf("the script went on after ^C: %q", shown)
	}

	// A process that ignores the key ends with the status of the child, which does not.
	x.Type(`(trap '' INT; exec $LK run demo -- env --default-signal=INT sh -c 'echo up; exec cat'); echo status $?` + "\n")
	x.WaitFor("\r\nup\r\n")
	x.Type("\x03")
	x.WaitFor("status 130\r\n")

	// What is behind us in a pipeline can use the terminal.
	x.Type(`$LK run demo -- sh -c 'echo up >&2; : > "$DIR/up"; until [ -e "$DIR/got" ]; do sleep 0.01; done; echo piped' |` +
		` { until [ -e "$DIR/up" ]; do sleep 0.01; done; read line < /dev/tty; : > "$DIR/got"; cat; echo got $line; }` + "\n")
	x.WaitFor("\r\nup\r\n")
	x.Type("a word\n")
	x.WaitFor("piped\r\ngot a word\r\n")

	// The terminal is given to a child that is not connected to it and asks for it.
	x.Type("echo | $LK run demo -- sh -c 'echo up; read line < /dev/tty; echo got $line'\n")
	x.WaitFor("\r\nup\r\n")
	x.Type("a line\n")
	x.WaitFor("got a line")
	x.Type("exit\n")
}

// At a terminal, a command says after a second that it finds no server; run does, too, and not with -q.
func TestACommandSaysThatItFindsNoServer(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // nothing is accepted, and nothing is answered
	flags := " --connect-timeout 3s --servers " + silent.Addr().String()
	said := silent.Addr().String() + ": no session after 1s (trying for 3s"
	h.shellOn(x)
	for _, tt := range []struct {
		command string
		said    bool
	}{
		{"members demo" + flags, true},
		{"run" + flags + " demo -- true", true},
		{"run -q" + flags + " demo -- true", false},
	} {
		x.Type("$LK " + tt.command + "; echo status $?\n")
		x.WaitFor("echo status $?")
		if shown := x.WaitFor("status 69"); strings.Contains(shown, said) != tt.said {
			t.Errorf("%s says %q", tt.command, shown)
		}
	}
}

// A command that waits says when there is no server, and shows its place again when there is one.
func TestAWaitingCommandSaysThatNoServerIsThere(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	address := "unix:" + h.dir + "/s" // a port could be another's by the second start
	server, _ := h.server("--data", h.dir+"/data", "--listen", address)
	holder := h.start("run", "--servers", address, "--session-timeout", "40s", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	h.shellOn(x)
	x.Type("$LK run --session-timeout 40s --servers " + address + " demo -- echo it is mine\n")
	x.WaitFor("for demo, behind 1")
	quiet := h.start("run", "--servers", address, "--session-timeout", "40s", "demo", "--", "true")
	quiet.seeError("waiting")
	server.signal(syscall.SIGKILL)
	server.status()
	x.WaitFor("for demo; no server is there: ")
	began := time.Now()
	quiet.signal(syscall.SIGTERM)
	quiet.want(128 + int(syscall.SIGTERM))
	if took := time.Since(began); took > 4*time.Second { // client.Options.CloseTimeout has 5 s
		t.Errorf("a run that waits without a server ends %v after TERM", took)
	}
	h.server("--data", h.dir+"/data", "--listen", address)
	x.WaitFor("for demo, behind 1")
	holder.signal(syscall.SIGTERM)
	x.WaitFor("\r\x1b[Kit is mine")
}

func TestAWaitingCommandShowsItsPlaceOnATerminal(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	holder := h.start("run", "--label", "the holder", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	quiet := h.start("run", "demo", "--", "true") // with a pipe
	h.held("demo", 2)
	h.shellOn(x)
	x.Type("$LK run demo -- echo it is mine\n")
	x.WaitFor("for demo, behind 2")
	x.WaitFor("the holder")
	holder.signal(syscall.SIGTERM)
	quiet.want(0)
	if got := quiet.stderr.String(); strings.ContainsAny(got, "\r\x1b") { // a wait of some seconds gets a plain line
		t.Errorf("a waiting command without a terminal says %q", got)
	}
	x.WaitFor("\x1b[K") // the line is taken away
	x.WaitFor("it is mine")
	x.WaitFor("> ")

	holder = h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	x.Type("$LK run demo -- echo never\n")
	x.WaitFor("behind 1")
	x.Type("\x03")
	x.WaitFor("> ")
	x.Type("echo status $?\n")
	x.WaitFor("status 130")
	x.Type("exit\n")
}

func TestBreakAsks(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	h.shellOn(x)
	x.Type("$LK break demo; echo status $?\n")
	x.WaitFor("demo is held by")
	x.WaitFor("[y/N] ")
	x.Type("n\n")
	x.WaitFor("not done")
	x.WaitFor("status 1")
	x.Type("$LK break demo; echo status $?\n")
	x.WaitFor("; none waits. Put the holder out? [y/N] ")
	x.Type("\x03")
	x.WaitFor("> ") // ^C has ended the whole line
	x.Type("echo status $?\n")
	x.WaitFor("\r\nstatus 130\r\n")
	x.Type("$LK break demo; echo status $?\n")
	x.WaitFor("[y/N] ")
	x.Type("y\n")
	x.WaitFor("status 0")
	holder.want(74, "the lock on demo was lost")
	x.Type("exit\n")
}

// ^Z counts also right after fg: that we have been continued is not passed on a second time.
func TestF40_StoppedAgainAndAgain(t *testing.T) {
	t.Parallel()
	_, x := catUnderLock(t)
	for range 20 {
		x.Type("\x1a")
		x.WaitFor("Stopped")
		x.WaitFor("> ")
		x.Type("fg\n")
		x.WaitFor("cat'\r\n")
		x.Type("on\n")
		x.WaitFor("on\r\non\r\n")
	}
	x.Type("\x03")
	x.WaitFor("> ")
	x.Type("exit\n")
}

// A list that is shown again and again on a terminal says that it is empty.
func TestAWatchedListSaysThatItIsEmpty(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	h.run("run", "demo", "--", "true").want(0)
	h.shellOn(x)
	x.Type("$LK locks --watch\n")
	x.WaitFor("lockkeeper: no lock is in use on ")
	x.Type("\x03")
	x.WaitFor("> ")
}

// The keys of a terminal signal a command that joins a group without us, whatever its standard input is; other signals of a job in the
// background come to us alone.
func TestInterruptsComeOnceToTheCommandOfJoin(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	h.shellOn(x)
	h.put("count", "trap 'n=${n}x' INT; echo up; until [ $n ]; do sleep 0.02; done; sleep 0.3; sleep 0.3; echo interrupts: $n")
	x.Type("echo | $LK join workers -- sh count\n")
	x.WaitFor("\r\nup\r\n")
	x.Type("\x03")
	x.WaitFor("interrupts: x\r\n")
	x.Type("$LK join workers -- sh count &\n")
	x.WaitFor("up\r\n")
	x.Type("kill -INT $!\n")
	x.WaitFor("interrupts: x\r\n")
}

// ^C ends a loop around a command that joins a group, as it ends one around the command alone.
func TestInterruptEndsALoopAroundJoin(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	h.shellOn(x)
	x.Type("for i in 1 2; do $LK join workers -- sh -c 'echo up; exec sleep 1000'; echo after; done\n")
	x.WaitFor("\r\nup\r\n")
	x.Type("\x03")
	if shown := x.WaitFor("> "); strings.Contains(shown, "after") {
		t.Errorf("the loop went on: %q", shown)
	}
	x.Type("echo status $?\n")
	x.WaitFor("status 130\r\n")
}
