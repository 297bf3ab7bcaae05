//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// sleeper starts a process that a hold can be tied to.
func sleeper(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	c := exec.Command("sh", "-c", script)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	t.Cleanup(func() { c.Process.Kill(); <-ended })
	return c
}

// holderOf returns the holder in the background of a test's home.
func (h *home) holderOf(name string) int {
	h.t.Helper()
	return h.backgroundOf(func(args []string) bool { return args[1] == holderCommand && args[len(args)-1] == name })
}

// stayOf returns the command under the lock of a hold for a process.
func (h *home) stayOf(pid string) int {
	h.t.Helper()
	return h.backgroundOf(func(args []string) bool { return args[1] == stayCommand && len(args) > 3 && args[3] == pid })
}

// backgroundOf returns the process of a test's home with such arguments.
func (h *home) backgroundOf(is func(args []string) bool) int {
	h.t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, _ := os.ReadFile(path)
		args := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if len(args) > 2 && is(args) && strings.Contains(string(env), "DIR="+h.dir+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			return pid
		}
	}
	h.t.Fatal("no such process in the background")
	return 0
}

// The path of a socket has a limit that the path of a state directory does not have.
func TestHoldInLongDirectory(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	h := newHome(t, "XDG_STATE_HOME="+state)
	pid := strconv.Itoa(sleeper(t, "exec sleep 1000").Process.Pid)
	h.run("hold", "--pid", pid, "--lease", "1h", "demo").want(0)
	h.run("run", "--wait", "0", "demo", "--", "true").want(75, "hold for process "+pid)
	h.run("renew", "demo").want(0)
	h.run("release", "demo").want(0)
	h.run("release", "demo").want(66, "no lockkeeper hold")
	h.run("run", "--wait", "0", "demo", "--", "true").want(0)
}

// Services that systemd starts as root have no HOME. Named servers do not help there.
func TestHoldWithoutHome(t *testing.T) {
	t.Parallel()
	h := newHome(t, "HOME=", "XDG_STATE_HOME=")
	for _, args := range [][]string{{"hold", "--lease", "1h"}, {"release"}} {
		errs := h.run(append(args, "--servers", "localhost:1", "demo")...).want(71, "neither HOME nor XDG_STATE_HOME is set").stderr.String()
		if strings.Contains(errs, "local keeper") || strings.Contains(errs, "--servers") {
			t.Errorf("%s with named servers asks for servers: %s", args[0], errs)
		}
	}
}

func TestHoldAndRelease(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	pid := strconv.Itoa(p.Process.Pid)
	j := h.run("hold", "--pid", pid, "demo").want(0)
	token, err := strconv.ParseInt(strings.TrimSpace(j.stdout.String()), 10, 64)
	if err != nil || token <= 0 {
		t.Errorf("hold prints %q, want a fencing token", j.stdout)
	}
	h.run("run", "--wait", "0", "demo", "--", "true").want(75, "hold for process "+pid)
	h.run("hold", "--wait", "0", "--pid", pid, "demo").want(75, "hold for process "+pid)
	h.run("renew", "demo").want(64, "no lease")
	other := h.run("release", "--servers", "localhost", "other").want(66, "no lockkeeper hold").stderr.String()
	if strings.Contains(other, "there is one") {
		t.Errorf("release of a lock that has no hold: %s", other)
	}
	for _, do := range []string{"release", "renew"} { // lists are compared as they are written
		h.run(do, "--servers", "localhost", "demo").want(66, "no lockkeeper hold", "has it with --servers localhost; there is one with --servers local\n")
	}
	h.run("release", "demo").want(0)
	h.run("run", "--wait", "0", "demo", "--", "true").want(0) // the lock is free when release has returned
	h.run("release", "demo").want(66, "no lockkeeper hold")
	if p.ProcessState != nil {
		t.Error("release has ended the process")
	}
}

// The processes behind a hold keep no file system busy that its caller works in.
func TestAHoldLeavesTheDirectoryOfItsCaller(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pid := strconv.Itoa(sleeper(t, "exec sleep 1000").Process.Pid)
	h.run("hold", "--pid", pid, "demo").want(0)
	holder := h.holderOf("demo")
	for what, pid := range map[string]int{"holder": holder, "guard": guardOf(t, holder), "stay": h.stayOf(pid)} {
		if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || dir != "/" {
			t.Errorf("%s works in %s, %v", what, dir, err)
		}
	}
}

// The processes behind a hold keep nothing open that its caller has opened: here a file that stays locked while it is open.
func TestAHoldKeepsNothingOfItsCallerOpen(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `
exec 9>>locked
flock 9
"$LK" hold --lease 1h demo || exit
exec 9>&-
flock -n locked true`}
		c.Dir = h.dir
	}).want(0)
	h.run("release", "demo").want(0)
}

// What a name begins with is no flag, for the processes behind the hold either.
func TestAHoldOfANameThatBeginsWithADash(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("hold", "--lease", "1h", "--", "-x").want(0)
	h.run("run", "--wait", "0", "/lockkeeper/locks/-x", "--", "true").want(75, "held by hold")
	h.run("release", "--", "-x").want(0)
}

// A hold whose token cannot be printed has failed, so it leaves no lock behind.
func TestAHoldThatCannotPrintItsToken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	r, closed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close()
	r.Close()
	for _, to := range []*os.File{full, closed} {
		h.startWith(func(c *exec.Cmd) { c.Stdout = to }, "hold", "--lease", "1h", "demo").want(71, "the token cannot be printed, so the lock was given back")
		h.run("run", "--wait", "0", "demo", "--", "true").want(0)
	}
}

func TestAHoldEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	h.run("hold", "--pid", strconv.Itoa(p.Process.Pid), "demo").want(0)
	p.Process.Kill()
	h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
	h.run("release", "demo").want(66)
	h.run("hold", "--pid", "999999999", "demo").want(64, "no such process")
	h.run("hold", "demo").want(64, "give --pid, --lease or both")
	h.run("hold", "--pid", "abc", "demo").want(64, "--pid abc: not a whole number")
	h.run("hold", "--revocable", "USR1", "--lease", "1h", "demo").want(64, "unknown flag: --revocable")
}

func TestAHoldWithALease(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const lease = 10 * time.Second
	h.run("hold", "--lease", lease.String(), "demo").want(0)
	asked := time.Now()
	if j := h.run("renew", "demo").want(0); strings.TrimSpace(j.stdout.String()) != lease.String() {
		t.Errorf("renew prints %q", j.stdout)
	}
	h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
	if held := time.Since(asked); held < lease {
		t.Errorf("the lock was free %v after the renewal was asked for", held)
	}
	h.run("renew", "demo").want(74, "the lease of 10s was over")
	h.run("release", "demo").want(74, "the lease of 10s was over")
	h.run("release", "demo").want(66) // it has been told
	h.run("renew", "demo").want(66)
}

// The lock is another's only when the session has expired, so release must not say that it is free.
func TestReleaseWithoutAServerIsNoSuccess(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	h.run("hold", "--lease", "1h", "demo").want(0)
	srv.Link("").Refuse()
	h.run("release", "demo").want(69, "release demo: could not make sure that /lockkeeper/locks/demo is free again")
	h.run("release", "demo").want(66)
}

// A hold that has ended with its holder does not look to release like one that never was.
func TestAHoldWhoseHolderIsEnded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		sig  syscall.Signal
		says string
	}{{syscall.SIGTERM, "the holder was ended by a signal"}, {syscall.SIGKILL, "the hold has ended with its holder"}} {
		h := newHome(t)
		h.run("hold", "--lease", "1h", "demo").want(0)
		syscall.Kill(h.holderOf("demo"), test.sig)
		h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
		h.run("renew", "demo").want(74, test.says)
		h.run("release", "demo").want(74, test.says)
		h.run("release", "demo").want(66)
		h.run("hold", "--lease", "1h", "demo").want(0)
		h.run("release", "demo").want(0)
	}
}

// A hold whose process ends while the lock is waited for takes no lock.
func TestAHoldWhoseProcessEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	h.run("hold", "--lease", "1h", "demo").want(0)
	j := h.start("hold", "--pid", strconv.Itoa(p.Process.Pid), "demo")
	j.seeError("waiting")
	p.Process.Kill()
	j.want(64, fmt.Sprintf("process %d has ended while the lock was waited for", p.Process.Pid))
	if j.stdout.String() != "" {
		t.Errorf("a token is printed: %s", j.stdout)
	}
	h.run("release", "demo").want(0)
	h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
}

// A process that hold could not end is refused: it would work on when the lock is lost.
func TestAHoldOfAnotherUsersProcess(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pid := os.Getpid()
	another := func(cmd *exec.Cmd) {}
	if os.Getuid() == 0 { // as another user, this process is another user's
		another = func(cmd *exec.Cmd) {
			cmd.Path = "/proc/self/exe" // the directory of the test's binary is closed to others
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			cmd.Dir = "/"
		}
	} else {
		pid = processOfRoot(t)
	}
	h.startWith(another, "hold", "--pid", strconv.Itoa(pid), "demo").want(64, "the process is another user's")
}

// processOfRoot returns the number of a process of the super-user that is not the first one.
func processOfRoot(t *testing.T) int {
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table {
		info, err := os.Stat(fmt.Sprintf("/proc/%d", p.Pid))
		if err == nil && p.Pid > 1 && info.Sys().(*syscall.Stat_t).Uid == 0 {
			return p.Pid
		}
	}
	t.Fatal("there is no process of another user")
	return 0
}

// What works under a hold must not go on when the lock is lost.
func TestTheProcessOfAHoldIsEndedWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"by TERM": "exec sleep 1000", "by KILL": "trap '' TERM; while :; do sleep 0.1; done"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			p := sleeper(t, script)
			h.run("hold", "--session-timeout", "6s", "--pid", strconv.Itoa(p.Process.Pid), "demo").want(0)
			h.run("break", "--force", "demo").want(0)
			wantGone(t, p.Process.Pid)
			h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
			h.wantHoldsLog(fmt.Sprintf("the lock on demo was lost, and process %d was ended", p.Process.Pid))
		})
	}
}

// A hold that was lost, and still runs its command of --on-lost, leaves the next hold of the lock alone.
func TestALostHoldLeavesTheNextOneAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("hold", "--lease", "10s", "--on-lost", "sleep 12", "demo").want(0)
	lost := h.holderOf("demo")
	h.run("break", "--force", "demo").want(0)
	h.run("hold", "--wait", "20s", "--lease", "1h", "demo").want(0)
	wantGone(t, lost)
	h.run("renew", "demo").want(0)
	h.run("release", "demo").want(0)
	h.run("run", "--wait", "0", "demo", "--", "true").want(0)
}

// A script that ends with release learns that the lock was lost, although the holder is gone, and until it is held again.
func TestReleaseTellsOfALoss(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	lose := func() {
		h.run("hold", "--lease", "1h", "demo").want(0)
		holder := h.holderOf("demo")
		h.run("break", "--force", "demo").want(0)
		wantGone(t, holder)
	}
	lose()
	h.run("renew", "demo").want(74, "renew demo: the lock on demo was lost")
	h.run("release", "demo").want(74, "release demo: the lock on demo was lost")
	h.run("release", "demo").want(66)
	lose()
	h.run("hold", "--wait", "20s", "--lease", "1h", "demo").want(0)
	h.run("release", "demo").want(0)
	h.run("release", "demo").want(66)
}

// A holder that ends before it has read a question has left what there is to say.
func TestReleaseOfAHolderThatEndsMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("release", "demo").want(66) // makes the directory
	const servers = "127.0.0.1:1"
	place := holdPlace{h.dir + "/state/lockkeeper/holds", servers, "/lockkeeper/locks/demo"}
	l, err := net.Listen("unix", place.socket())
	if err != nil {
		t.Fatal(err)
	}
	j := h.start("release", "--servers", servers, "demo")
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	h.put("state/lockkeeper/holds/"+filepath.Base(place.socket())+lossSuffix, fmt.Sprintf(`{"status":%d,"text":"it was lost"}`, exit.Lost))
	l.Close() // and the socket's file goes
	nc.Close()
	j.want(74, "release demo: it was lost")
}

// What works under a lease hears at once that the lock is lost, and not only when the command of --on-lost has ended, which runs where
// hold was called.
func TestALossIsToldBeforeTheCommandOfOnLostEnds(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("hold", "--lease", "1h", "--on-lost", "touch begun; until [ -e end ]; do sleep 0.02; done", "demo").want(0)
	holder := h.holderOf("demo")
	h.run("break", "--force", "demo").want(0)
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(h.dir + "/begun"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the command of --on-lost does not begin in the directory of hold")
		}
	}
	h.run("renew", "demo").want(74, "renew demo: the lock on demo was lost")
	h.run("release", "demo").want(74, "release demo: the lock on demo was lost")
	if syscall.Kill(holder, 0) != nil {
		t.Error("the command of --on-lost is over already")
	}
	if err := os.WriteFile(h.dir+"/end", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	wantGone(t, holder)
}

// wantHoldsLog waits for words in the log of the holders.
func (h *home) wantHoldsLog(words string) {
	h.t.Helper()
	var log []byte
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Millisecond) {
		log, _ = os.ReadFile(h.dir + "/state/lockkeeper/holds/" + holdsLog)
		if strings.Contains(string(log), words) {
			return
		}
	}
	h.t.Errorf("%s does not have %q:\n%s", holdsLog, words, log)
}

// A hold that gives up waiting, and one that is killed while it waits, leave no holder that takes the lock later.
func TestAHoldThatIsEndedWhileItWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	pid := strconv.Itoa(p.Process.Pid)
	h.run("hold", "--pid", pid, "demo").want(0)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		j := h.start("hold", "--lease", "1h", "demo")
		j.seeError("waiting")
		holder := h.waitingHolder()
		j.signal(sig)
		j.want(128 + int(sig))
		wantGone(t, holder)
	}
	j := h.start("hold", "--lease", "1h", "demo")
	j.seeError("waiting")
	j.signal(syscall.SIGKILL)
	j.status()
	h.run("release", "demo").want(0)
	h.run("run", "--wait", "20s", "demo", "--", "true").want(0) // the other holder gives the lock back when it has it
}

// A hold that waits goes on when the user logs out, if it was started for that.
func TestAHoldUnderNohup(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("hold", "--lease", "1h", "demo").want(0)
	j := h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `trap '' HUP; exec "$LK" hold --lease 2h demo`}
	})
	j.seeError("waiting")
	j.signal(syscall.SIGHUP)
	h.run("release", "demo").want(0)
	j.want(0)
	h.run("release", "demo").want(0)
}

// waitingHolder returns the process of the holder with a lease of an hour.
func (h *home) waitingHolder() int {
	h.t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		b, _ := os.ReadFile(path)
		if strings.Contains(string(b), "\x00"+holderCommand+"\x00--lease=1h0m0s\x00") {
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
			if strings.Contains(string(env), "DIR="+h.dir+"\x00") {
				pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				return pid
			}
		}
	}
	h.t.Fatal("the holder that waits was not found")
	return 0
}

// Between the grant and the moment in which hold takes the lock, the process of --pid is left alone, whatever ends the hold.
func TestAHoldThatHasNotTakenTheLock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(h *home, pid string, hold *job)
		status int
	}{
		"the holder gets TERM": {func(h *home, _ string, _ *job) { syscall.Kill(h.holderOf("demo"), syscall.SIGTERM) }, 143},
		"stay is killed":       {func(h *home, pid string, _ *job) { syscall.Kill(h.stayOf(pid), syscall.SIGKILL) }, 137},
		"the holder is killed": {func(h *home, _ string, _ *job) { syscall.Kill(h.holderOf("demo"), syscall.SIGKILL) }, 70},
		"the lock is broken": {func(h *home, _ string, _ *job) {
			h.run("break", "--force", "demo").want(0)
			h.wantHoldsLog("was lost") // the holder has heard of it
		}, 74},
		"hold is killed": {func(_ *home, _ string, hold *job) { hold.signal(syscall.SIGKILL) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			p := sleeper(t, "exec sleep 1000")
			pid := strconv.Itoa(p.Process.Pid)
			h.run("hold", "--lease", "1h", "demo").want(0)
			j := h.start("hold", "--pid", pid, "demo")
			j.seeError("waiting")
			j.signal(syscall.SIGSTOP)
			h.run("release", "demo").want(0)
			h.wantToken(pid)
			tt.end(h, pid, j)
			h.run("run", "--wait", "20s", "demo", "--", "true").want(0)
			if syscall.Kill(p.Process.Pid, 0) != nil || p.ProcessState != nil {
				t.Error("the process of --pid was ended")
			}
			if tt.status != 0 {
				j.signal(syscall.SIGCONT)
				j.want(tt.status)
			}
		})
	}
}

// wantToken waits until the holder for a process has told the token: its socket has the name that release knows.
func (h *home) wantToken(pid string) {
	h.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if names, _ := filepath.Glob(h.dir + "/state/lockkeeper/holds/????????????????"); len(names) == 1 {
			time.Sleep(50 * time.Millisecond)
			return
		}
	}
	h.t.Fatalf("no hold for process %s has a socket", pid)
}

// stay ends the process only once it was told that hold has taken the lock.
func TestStayBeforeAndAfterTheLockIsTaken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, taken := range []bool{false, true} {
		l, err := net.Listen("unix", h.dir+"/stay")
		if err != nil {
			t.Fatal(err)
		}
		p := sleeper(t, "exec sleep 1000")
		watched, err := proc.Find(p.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		j := h.start(stayCommand, h.dir+"/stay", strconv.Itoa(watched.Pid), strconv.FormatUint(watched.Start, 10))
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if taken {
			nc.(*net.UnixConn).SetWriteBuffer(4096)
			nc.SetWriteDeadline(time.Now().Add(limit))
			// So many do not fit on the way: when all are written, the first has been heeded.
			if _, err := io.WriteString(nc, strings.Repeat(saysTaken+"\n", 10_000)); err != nil {
				t.Fatal(err)
			}
		}
		j.signal(syscall.SIGTERM)
		j.want(143)
		if taken {
			wantGone(t, watched.Pid)
		} else if !proc.Lives(watched) {
			t.Error("the process was ended before the lock was taken")
		}
		nc.Close()
		l.Close()
	}
}

// The holder is killed, and its command under the lock does nothing any more: the guard ends the process of --pid, and another
// hold is possible after that.
func TestAHolderThatIsKilled(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	pid := strconv.Itoa(p.Process.Pid)
	h.run("hold", "--session-timeout", "4s", "--pid", pid, "demo").want(0)
	syscall.Kill(h.stayOf(pid), syscall.SIGSTOP)
	syscall.Kill(h.holderOf("demo"), syscall.SIGKILL)
	wantGone(t, p.Process.Pid) // the guard ends what works under the lock
	h.run("hold", "--wait", "20s", "--lease", "1h", "demo").want(0)
	h.run("release", "demo").want(0)
}

// The command under the lock is killed: the process of --pid ends before the lock is given back.
func TestAHoldWhoseCommandIsKilled(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	p := sleeper(t, "exec sleep 1000")
	pid := strconv.Itoa(p.Process.Pid)
	h.run("hold", "--pid", pid, "demo").want(0)
	syscall.Kill(h.stayOf(pid), syscall.SIGKILL)
	h.run("run", "--wait", "20s", "demo", "--", "sh", "-c", `case "$(cut -d " " -f 3 /proc/`+pid+`/stat)" in ""|Z) ;; *) exit 1; esac`).want(0)
}

// seeError waits for words on standard error.
func (j *job) seeError(words string) {
	j.t.Helper()
	if err := j.stderr.see(words); err != nil {
		j.t.Fatal(err)
	}
}
