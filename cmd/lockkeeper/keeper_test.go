//go:build linux

package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestKeeperComesBackAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	first := h.keeperPid()
	syscall.Kill(first, syscall.SIGKILL)
	wantGone(t, first)
	h.run("run", "demo", "--", "true").want(0)
	if second := h.keeperPid(); second == first || second == 0 {
		t.Errorf("keeper %d after %d", second, first)
	}
}

// The session and the lock are on disk: the first command that misses the keeper starts another one, which knows
// them.
func TestAHoldSurvivesTheKeeper(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	token := h.held("demo", 1)[0].Contenders[0].Token
	for n := range 3 {
		keeper := h.keeperPid()
		syscall.Kill(keeper, syscall.SIGKILL)
		wantGone(t, keeper)
		for end := time.Now().Add(limit); n == 0 && syscall.Kill(keeper, 0) == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the engine that has started the keeper leaves it as a zombie")
			}
		}
		if got := h.held("demo", 1)[0].Contenders[0].Token; got != token {
			t.Errorf("token %d after the kill, %d before", got, token)
		}
		h.run("run", "--wait", "0", "demo", "--", "true").want(75)
	}
	j.signal(syscall.SIGTERM)
	j.want(143)
}

func TestKeeperEndsWhenIdleAndANewcomerNeverNotices(t *testing.T) {
	t.Parallel()
	newHome(t, idleVariable+"=soon").run("locks").want(64, idleVariable+"=soon")
	h := newHome(t, idleVariable+"=1ms")
	last := int64(0)
	for range 12 {
		j := h.run("run", "demo", "--", "sh", "-c", "echo $LOCKKEEPER_TOKEN").want(0)
		token, err := strconv.ParseInt(strings.TrimSpace(j.stdout.String()), 10, 64)
		if err != nil || token <= last {
			t.Errorf("token %q after %d", j.stdout, last)
		}
		last = token
	}
	wantGone(t, h.keeperPid())
	if _, err := os.Stat(h.dir + "/lockkeeper"); err != nil {
		t.Errorf("the runtime directory: %v", err)
	}
}

// A login shell has a runtime directory and a cron job has none; they must exclude each other.
func TestDifferentRuntimeDirectoriesMeetAtOneKeeper(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	cron := *h
	cron.env = append(cron.env, "XDG_RUNTIME_DIR=")
	cron.run("run", "--wait", "0", "demo", "--", "true").want(75)
}

// What commands find the keeper by can be damaged or deleted, and the machine can get another name, while it serves:
// it says anew where it is, and a command that finds none meanwhile waits for that.
func TestAKeeperThatCannotBeFoundSaysWhereItIs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	keeper := h.keeperPid()
	address := h.dir + "/state/lockkeeper/keeper.json"
	whole, err := os.ReadFile(address)
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", strings.Replace(string(whole), strconv.Quote(host), `"before"`, 1)} {
		if err := os.WriteFile(address, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.run("run", "demo", "--", "true").want(0)
		if now := h.keeperPid(); now != keeper {
			t.Errorf("keeper %d after %d", now, keeper)
		}
	}
}

func TestNoPlaceForTheKeeper(t *testing.T) {
	t.Parallel()
	h := newHome(t, "XDG_STATE_HOME=/proc/nowhere")
	h.run("run", "demo", "--", "true").want(71, "/proc/nowhere", "XDG_STATE_HOME")
	h = newHome(t, "XDG_STATE_HOME=", "HOME=")
	h.run("run", "demo", "--", "true").want(71, "HOME", "--servers")
	h = newHome(t, "XDG_RUNTIME_DIR=", "TMPDIR=/proc/nowhere")
	h.run("run", "demo", "--", "true").want(0) // the socket is in the state directory
	h = newHome(t, "XDG_RUNTIME_DIR=", "TMPDIR=/proc/nowhere")
	h.env = append(h.env, "XDG_STATE_HOME="+h.dir+"/"+strings.Repeat("long", 25)) // too long for a socket
	h.run("run", "demo", "--", "true").want(71, "lockkeeper: local keeper: no directory for its socket", "/proc/nowhere", "set XDG_RUNTIME_DIR")
	h = newHome(t)
	if err := os.MkdirAll(h.dir+"/state/lockkeeper", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(h.dir+"/state/lockkeeper", 0o777); err != nil {
		t.Fatal(err)
	}
	h.run("run", "demo", "--", "true").want(71, "other users can write to "+h.dir+"/state/lockkeeper", "chmod 700", "XDG_STATE_HOME")
}

// Only its log knows what is wrong with a keeper that is there and does not answer.
func TestAKeeperThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	syscall.Kill(h.keeperPid(), syscall.SIGSTOP)
	h.run("run", "--connect-timeout", "1s", "demo", "--", "true").want(69, h.dir+"/state/lockkeeper/keeper.log")
}

// keeperBytesMax is what a keeper that has nothing to do may occupy.
const keeperBytesMax = 25 << 20

func TestKeeperIsReadyQuicklyAndSmall(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	start := time.Now()
	h.run("run", "demo", "--", "true").want(0)
	t.Logf("first command, keeper included: %v", time.Since(start))
	status, err := os.ReadFile("/proc/" + strconv.Itoa(h.keeperPid()) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var resident int
	if _, err := fmt.Sscanf(rest, "%d kB", &resident); err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	t.Logf("the keeper occupies %d kB", resident)
	if resident<<10 > keeperBytesMax && !raceDetector() { // which takes several times as much
		t.Errorf("the keeper occupies %d kB, more than %d", resident, keeperBytesMax>>10)
	}
}

// raceDetector reports whether the race detector is built in.
func raceDetector() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// A reader of a pipe must not have to wait for the keeper, nor for an engine: neither may
// inherit it.
func TestTheKeeperHoldsOnToNothingOfOurs(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	j := h.startWith(func(c *exec.Cmd) { c.ExtraFiles = []*os.File{nil, nil, nil, w} }, "run", "demo", "--", "sh", "-c", "echo through >&6")
	w.Close()
	j.want(0)
	r.SetReadDeadline(time.Now().Add(limit))
	if got, err := io.ReadAll(r); err != nil || string(got) != "through\n" {
		t.Errorf("the pipe: %q, %v", got, err)
	}
	if err := syscall.Kill(h.keeperPid(), 0); err != nil {
		t.Errorf("the keeper: %v", err)
	}
}

// A keeper serves all of its user's commands, also those that come later: it does not keep what the one that has
// started it had for itself.
func TestTheKeeperOutgrowsWhoStartedIt(t *testing.T) {
	t.Parallel()
	h := newHome(t, "GOGC=off", "GOMEMLIMIT=1MiB", "LOCKKEEPER_LOCK=/outer", "LOCKKEEPER_TOKEN=1")
	h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", []string{"sh", "-c", `ulimit -S -f 10; ulimit -S -t 1000; umask 0777; exec "$LK" run demo -- true`}
	}).want(0)
	proc := "/proc/" + strconv.Itoa(h.keeperPid())
	limits, err := os.ReadFile(proc + "/limits")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(limits)) {
		fields := strings.Fields(line)
		if (strings.HasPrefix(line, "Max file size") || strings.HasPrefix(line, "Max cpu time")) && fields[3] != fields[4] {
			t.Errorf("it has the limit of its starter: %s", line)
		}
	}
	env, err := os.ReadFile(proc + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"GOGC", "GOMEMLIMIT", "LOCKKEEPER_LOCK", "LOCKKEEPER_TOKEN"} {
		if strings.Contains("\x00"+string(env), "\x00"+name+"=") {
			t.Errorf("its environment has %s", name)
		}
	}
	err = filepath.WalkDir(h.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o600 != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestASecondKeeperInTheForegroundIsRefused(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	h.run("server", "--local").want(71, "in use", strconv.Itoa(h.keeperPid()))
}

// What cannot be shown is not the servers' fault.
func TestOutputThatIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, command := range []string{"locks", "status", "version", "--version", "--help", "help run", "run --help", "completion", "completion bash"} {
		h.startWith(func(c *exec.Cmd) { c.Stdout = full }, strings.Fields(command)...).want(71, "no space left")
	}
}

func TestStatusOfTheLocalKeeper(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const none = "no local keeper is running in "
	for _, command := range []string{"status local", "doctor --servers local", "status"} { // the last with the variable
		h.run(strings.Fields(command)...).want(69, "lockkeeper: "+none+h.dir+"/state/lockkeeper; the first command that needs it")
	}
	unnamed := *h
	unnamed.env = slices.DeleteFunc(slices.Clone(h.env), func(v string) bool { return strings.HasPrefix(v, serversVariable+"=") })
	unnamed.run("doctor").want(69, "no servers are named, and "+none)
	h.run("run", "demo", "--", "true").want(0)
	if out := h.run("status").want(0).stdout.String(); !strings.Contains(out, "standalone") {
		t.Errorf("status: %s", out)
	}
	if out := h.run("doctor").want(0).stdout.String(); !strings.Contains(out, "single server") || strings.Contains(out, "zoo.cfg") {
		t.Errorf("doctor of a keeper, which has no configuration file: %s", out)
	}
}
