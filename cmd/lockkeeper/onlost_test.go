//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOnLostRunsWhenTheLockIsLostAndNotOtherwise(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	tell := `echo "lost $LOCKKEEPER_LOCK $LOCKKEEPER_TOKEN: $LOCKKEEPER_LOST"`
	if j := h.run("run", "--on-lost", tell, "demo", "--", "false").want(1); strings.Contains(j.stderr.String(), "lost ") {
		t.Errorf("without a loss: %q", j.stderr)
	}
	j := h.start("run", "--on-lost", tell, "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	h.run("break", "--force", "demo").want(0)
	j.want(74, "lost /lockkeeper/locks/demo ", ": the lock on demo was lost, and sh was ended")
	if strings.Contains(j.stderr.String(), "demo 0:") {
		t.Errorf("no token: %s", j.stderr)
	}
	j = h.start("run", "--on-lost", "exit 3", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	h.run("break", "--force", "demo").want(0)
	j.want(74, "--on-lost: exit status 3")
}

// A signal while the command of --on-lost runs ends that command with all that it has started, and the loss is reported all the same.
func TestASignalEndsTheCommandOfOnLostAndNotTheReport(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			h := newHome(t)
			status := h.dir + "/outcome"
			j := h.start("run", "--status-file", status, "--on-lost", "sleep 1000 & echo child $! .; wait", "demo", "--",
				"sh", "-c", "echo up; exec sleep 1000")
			j.see("up")
			h.run("break", "--force", "demo").want(0)
			for _, words := range []string{": the lock on demo was lost, and sh was ended", "child "} {
				err := j.stderr.see(words)
				if err != nil {
					t.Fatal(err)
				}
			}
			said, err := os.ReadFile(status)
			if err != nil || !strings.Contains(string(said), `"outcome":"lost"`) {
				t.Errorf("before the command of --on-lost has ended, the status file has %q, %v", said, err)
			}
			j.signal(sig)
			j.want(74, "--on-lost: "+sig.String()+" signal received")
			if n := strings.Count(j.stderr.String(), "lock on demo was lost"); n != 1 {
				t.Errorf("the loss is told %d times:\n%s", n, j.stderr)
			}
			child, err := strconv.Atoi(regexp.MustCompile(`child (\d+) \.`).FindStringSubmatch(j.stderr.String())[1])
			if err != nil {
				t.Fatal(err)
			}
			wantGone(t, child)
		})
	}
}

// The command of --on-lost has the variables of the lost locks, and not those of an outer lock.
func TestOnLostHasTheEnvironmentOfTheLocks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	outer := func(c *exec.Cmd) {
		c.Env = append(c.Env, "LOCKKEEPER_SERVERS=outer:1", "LOCKKEEPER_LOCK=/outer", "LOCKKEEPER_GRACE=99s", "LOCKKEEPER_UNDER=/outer/x")
	}
	const tell = `echo "servers=$LOCKKEEPER_SERVERS grace=$LOCKKEEPER_GRACE under=$LOCKKEEPER_UNDER."; printf "lock=%s\n" $LOCKKEEPER_LOCK; printf "token=%s\n" $LOCKKEEPER_TOKEN`
	j := h.startWith(outer, "run", "--servers", address, "--grace", "700ms", "--on-lost", tell, "first", "second", "--", "sh", "-c", "echo up; exec sleep 1000")
	j.see("up")
	h.run("break", "--servers", address, "--force", "first").want(0)
	j.want(74, "servers="+address+" grace=700ms under=/outer/x.", "lock=/lockkeeper/locks/first", "lock=/lockkeeper/locks/second")
	if tokens := strings.Count(j.stderr.String(), "token="); tokens != 2 {
		t.Errorf("%d tokens: %s", tokens, j.stderr)
	}
}

func TestElectAnswersWhoLeads(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	start := func(id string, flags ...string) (*job, string) {
		t.Helper()
		j := h.start(append(append([]string{"elect", "--http", "127.0.0.1:0", "--id", id, "--restart", "never"}, flags...), "demo", "--", "sleep", "1000")...)
		err := j.stderr.see("/leader answers")
		if err != nil {
			t.Fatal(err)
		}
		return j, regexp.MustCompile(`http://[0-9.:]+`).FindString(j.stderr.String())
	}
	get := func(url string) (int, electionAnswer) {
		t.Helper()
		var a electionAnswer
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if strings.HasSuffix(url, "/") {
			err := json.NewDecoder(resp.Body).Decode(&a)
			if err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode, a
	}
	wait := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(limit); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	status := func(url string, want int) func() bool {
		return func() bool { got, _ := get(url + "/leader"); return got == want }
	}
	first, a := start("one", "--session-timeout", "6s", "--grace", "600ms")
	wait("the first candidate never leads", status(a, 200))
	second, b := start("two")
	wait("the second candidate never names the leader", func() bool {
		code, got := get(b + "/")
		return code == 200 && !got.Leading && got.Leader == "one"
	})
	if code, _ := get(b + "/leader"); code != 503 {
		t.Errorf("a candidate that waits answers %d", code)
	}
	if _, got := get(a + "/"); !got.Leading || got.Leader != "one" || got.Token == 0 || got.Seconds <= 0 || got.Election != "/lockkeeper/elections/demo" {
		t.Errorf("the leader says %+v", got)
	}
	keeper := h.keeperPid()
	syscall.Kill(keeper, syscall.SIGSTOP)
	wait("a leader without heartbeats says for ever that it leads", status(a, 503))
	syscall.Kill(keeper, syscall.SIGCONT)
	wait("the second candidate never leads", status(b, 200))
	first.signal(syscall.SIGTERM)
	second.signal(syscall.SIGTERM)
	first.status()
	second.status()
	h.run("elect", "--http", "nonsense", "demo", "--", "true").want(64, "--http nonsense")
	h.run("elect", "--http", ":99999", "demo", "--", "true").want(64, `--http :99999: "99999" is no port`)
}

// A client that opens connections without end took all descriptors of the candidate, which ended then.
func TestElectBoundsTheConnectionsOfHTTP(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.start("elect", "--http", "127.0.0.1:0", "demo", "--", "sleep", "1000")
	err := j.stderr.see("/leader answers")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(regexp.MustCompile(`http://[0-9.:]+`).FindString(j.stderr.String()), "http://")
	const opened, placesMax = 100, 64
	var all []net.Conn
	for range opened {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	closed, end := 0, time.Now().Add(limit)
	for _, c := range all[:opened-placesMax] { // the eldest
		c.SetReadDeadline(end)
		_, err := c.Read(make([]byte, 1))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != opened-placesMax {
		t.Errorf("%d of %d connections were closed", closed, opened-placesMax)
	}
	j.signal(syscall.SIGTERM)
	j.status()
}
