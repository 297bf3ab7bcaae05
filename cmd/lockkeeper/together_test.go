//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
)

const stay = "echo up; exec sleep 1000"

// An operator changes the number of slots: a waiter gets in, and no holder loses its slot.
func TestSlotsCanBeChanged(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const stay = "echo up; exec sleep 1000"
	first := h.start("run", "--slots", "1", "demo", "--", "sh", "-c", stay)
	first.see("up")
	second := h.start("run", "--slots", "1", "demo", "--", "sh", "-c", stay)
	h.held("demo", 2)
	h.run("slots", "demo", "2").want(0, "demo has 2 slots, it had 1")
	second.see("up")
	h.run("slots", "demo", "1").want(0, "demo has 1 slot, it had 2")
	h.run("run", "--slots", "1", "--wait", "0", "demo", "--", "true").want(75)
	first.signal(syscall.SIGTERM)
	first.want(143)
	h.run("run", "--slots", "1", "--wait", "0", "demo", "--", "true").want(75)
	second.signal(syscall.SIGTERM)
	second.want(143)
	h.run("run", "--slots", "1", "--wait", "0", "demo", "--", "true").want(0)

	if got := h.run("slots", "demo").want(0).stdout.String(); got != "1\n" {
		t.Errorf("slots demo prints %q", got)
	}
	h.run("slots", "demmo").want(66, "demmo: no such lock on", "did you mean demo?")

	h.run("z", "create", "/app", "").want(0)
	for none, says := range map[string]string{"fresh": "no such lock", "/app": "it has no slots"} {
		h.run("slots", none, "3").want(66, none+": "+says)
		h.run("run", "--slots", "2", "--wait", "0", none, "--", "true").want(0)
	}
	for _, home := range []string{"/lockkeeper", locksPath, electionsPath} {
		h.run("run", home, "--", "true").want(64, home+": what has a name is below that path")
	}
	alone := h.start("run", "mutex", "--", "sh", "-c", stay)
	alone.see("up")
	h.run("slots", "mutex", "2").want(64, "mutex: it is in use without slots")
	alone.signal(syscall.SIGTERM)
	for _, n := range []string{"0", "501", "two"} {
		h.run("slots", "demo", n).want(64, "1 to 500")
	}
}

// As many runs hold a lock with slots as it has, and the next one waits.
func TestSlots(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	var holders []*job
	for range 2 {
		j := h.start("run", "--slots", "2", "demo", "--", "sh", "-c", stay)
		j.see("up")
		holders = append(holders, j)
	}
	h.run("run", "--slots", "2", "--wait", "0", "demo", "--", "true").want(75, "busy", "held by sleep")
	h.run("run", "--slots", "3", "--wait", "0", "demo", "--", "true").want(64, "--slots 3, but it has 2")
	h.run("run", "--slots", "0", "demo", "--", "true").want(64, "--slots 0")
	h.run("run", "--slots", "2", "--shared", "demo", "--", "true").want(64, "--shared")
	third := h.start("run", "--slots", "2", "demo", "--", "sh", "-c", stay)
	line := h.held("demo", 3)[0]
	if c := line.Contenders; line.Kind != "semaphore" || line.Permits != 2 || c[0].State != "held" || c[1].State != "held" || c[2].State != "waiting" || c[2].Place != 2 {
		t.Errorf("locks --json: %+v", line)
	}
	if table := h.run("locks").want(0).stdout.String(); strings.Count(table, "semaphore of 2") != 3 || !strings.Contains(table, "waiting 2") {
		t.Errorf("locks:\n%s", table)
	}
	holders[0].signal(syscall.SIGTERM)
	third.see("up")
}

// With --exclusive the claim is that of a writer, for which the read/write locks of other clients wait.
func TestExclusive(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start("run", "--exclusive", "demo", "--", "sh", "-c", stay).see("up")
	if line := h.held("demo", 1)[0]; line.Kind != "read-write" || !strings.Contains(line.Contenders[0].Node, "-__WRIT__") || line.Contenders[0].Shared {
		t.Errorf("locks --json: %+v", line)
	}
	for _, form := range []string{"--exclusive", "--shared", "--session-timeout=30s"} {
		h.run("run", form, "--wait", "0", "demo", "--", "true").want(75, "busy")
	}
	h.run("run", "--exclusive", "--shared", "demo", "--", "true").want(64, "--exclusive")
}

// Semaphores of other libraries are shown once, and are no locks of ours.
func TestForeignSemaphores(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	for _, node := range [][]string{
		{"/curator/locks"}, {"/curator/leases/_c_01234567-89ab-cdef-0123-456789abcdef-lease-0000000000", "10.0.0.7"},
		{"/curator/nightly/_c_0123456789abcdef0123456789abcdef-lock-0000000000"},
		{"/kazoo", "2"}, {"/kazoo/0123456789abcdef0123456789abcdef", "ident"},
	} {
		h.run(append([]string{"z", "create", "-p"}, node...)...).want(0)
	}
	table := h.run("locks", "/").want(0).stdout.String()
	if n := strings.Count(table, "/curator"); n != 2 || !strings.Contains(table, "/curator/nightly") || !strings.Contains(table, "kazoo-semaphore of 2") {
		t.Errorf("locks:\n%s", table)
	}
	for _, path := range []string{"/curator", "/kazoo"} {
		h.run("run", "--slots", "2", "--wait", "0", path, "--", "true").want(64, "it is in use as a semaphore of ")
		h.run("locks", path).want(0)
	}
	h.run("run", "--wait", "0", "/curator", "--", "true").want(64, "a semaphore of Curator")
	h.run("revoke", "/kazoo").want(1, "cannot be asked")
	h.run("break", "--force", "/kazoo").want(0, "put \"ident\"")
}

// A run that asks for a lock in another form than it is in use in would not be kept out by its holder.
func TestTwoFormsOfOneLock(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	alone := h.start("run", "alone", "--", "sh", "-c", stay)
	alone.see("up")
	for _, wait := range []string{"0", "10m"} {
		h.run("run", "--slots", "2", "--wait", wait, "alone", "--", "true").want(64, "/alone", "without --slots")
	}
	h.start("run", "--slots", "2", "slots", "--", "sh", "-c", stay).see("up")
	h.run("run", "slots", "--", "true").want(64, "/slots", "with --slots")
	h.run("run", "--shared", "free", "slots", "--", "true").want(64, "/slots", "with --slots")
	h.run("run", "--slots", "2", "--wait", "0", "slots", "--", "true").want(0)
	h.start("elect", "web", "--", "sh", "-c", stay).see("up")
	h.run("run", electionsPath+"/web", "--", "true").want(64, "as an election")
	h.held("alone", 1)

	// No claim is there any more, also none of those that were refused.
	alone.signal(syscall.SIGTERM)
	alone.want(143)
	h.run("run", "--slots", "2", "alone", "--", "true").want(0)
	h.run("run", "alone", "--", "true").want(0)
}

// A command that is willing hears of it, once, when its lock is asked for, and keeps it. One that is not
// goes on undisturbed.
func TestRevocable(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("revoke", "demo").want(66, "demo: no such lock on ")
	willing := h.start("run", "--shared", "--revocable", "usr1", "--label", "willing", "demo", "--", "sh", "-c",
		`trap 'echo asked' USR1; echo up; while :; do sleep 0.05; done`)
	willing.see("up")
	h.start("run", "--shared", "--label", "deaf", "demo", "--", "sh", "-c", stay).see("up")
	for range 2 {
		h.run("revoke", "demo").want(0, "asked willing", "asked deaf")
	}
	willing.see("asked")
	for _, c := range h.held("demo", 2)[0].Contenders {
		if c.State != "held" || !c.Revoked {
			t.Errorf("after it was asked: %+v", c)
		}
	}
	if table := h.run("locks").want(0).stdout.String(); strings.Count(table, "held, shared, revoked") != 2 {
		t.Errorf("locks:\n%s", table)
	}
	willing.signal(syscall.SIGTERM)
	willing.want(143)
	if n := strings.Count(willing.stdout.String(), "asked"); n != 1 {
		t.Errorf("the command was asked %d times, want once", n)
	}
	h.held("demo", 1)
	h.run("run", "--revocable", "nonsense", "demo", "--", "true").want(64, "nonsense")
}

func TestSignalOf(t *testing.T) {
	for name, want := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "sigusr1": syscall.SIGUSR1, "15": syscall.SIGTERM, "": 0, "0": 0, "999": 0, "-1": 0, "SIG": 0, "KILL": 0, "9": 0, "SIGSTOP": 0} {
		if got, err := signalOf(name); got != want || (err == nil) != (want != 0) {
			t.Errorf("signalOf(%q) = %v, %v, want %v", name, got, err, want)
		}
	}
}

// Several locks are held all or none; the command knows the token of each, and the loss of one is the loss of
// all.
func TestSeveralLocks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	status := h.dir + "/status"
	j := h.start("run", "--status-file", status, "b", "/other/a", "--", "sh", "-c", `echo "$LOCKKEEPER_LOCK"; echo "$LOCKKEEPER_TOKEN"; `+stay)
	j.see("up")
	b, a := h.held("b", 1)[0].Contenders[0], h.held("/other/a", 1)[0].Contenders[0]
	want := fmt.Sprintf("/lockkeeper/locks/b\n/other/a\n%d\n%d\nup\n", b.Token, a.Token)
	if got := j.stdout.String(); got != want || a.Token == b.Token {
		t.Errorf("the command sees %q, want %q", got, want)
	}
	h.run("run", "--wait", "0", "c", "/other/a", "--", "true").want(75, "lock /other/a is busy", "held by sleep")
	h.held("c", 0)
	waiting := h.start("run", "/other/a", "b", "--", "sh", "-c", stay)
	h.run("break", "--force", "/other/a").want(0)
	j.want(74, "/other/a lost")
	text, err := os.ReadFile(status)
	tokens := fmt.Sprintf(`"token":%d,"tokens":{"/lockkeeper/locks/b":%d,"/other/a":%d}`, b.Token, b.Token, a.Token)
	if err != nil || !strings.Contains(string(text), tokens) {
		t.Errorf("the status file has %s, %v, want %s", text, err, tokens)
	}
	waiting.see("up")
	waiting.signal(syscall.SIGTERM)
	waiting.want(143)
	h.held("b", 0)
	h.held("/other/a", 0)
	h.run("run", "b", "c", "b", "--", "true").want(64, "twice")
	h.run("run", "--", "true").want(64, "no lock in front of the --")
}

// A contender whose process was of this machine and is no more is shown as gone.
func TestLocksShowsWhoseProcessIsGone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("locks").want(0)
	var rows []serverStatus
	if err := json.Unmarshal([]byte(h.run("status", "--json").want(0).stdout.String()), &rows); err != nil || len(rows) != 1 {
		t.Fatal(err, rows)
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	us := new(lock.Options).Owner()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := client.Open(ctx, rows[0].Server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	if _, err := s.Create(ctx, "/gone", nil, zk.Persistent, nil); err != nil {
		t.Fatal(err)
	}
	for i, where := range []struct {
		host  string
		space string
		pid   int
	}{
		{us.Host, us.Space, dead.Process.Pid}, {us.Host, us.Space, os.Getpid()}, {"elsewhere", us.Space, dead.Process.Pid},
		{us.Host, "container", dead.Process.Pid},
	} {
		data := fmt.Sprintf(`{"host":%q,"pid":%d,"space":%q,"label":"l%d"}`, where.host, where.pid, where.space, i)
		name := fmt.Sprintf("/gone/_c_0123456789abcdef0123456789abcde%d-lock-", i)
		if _, err := s.Create(ctx, name, []byte(data), zk.EphemeralSequential, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range h.held("/gone", 4)[0].Contenders {
		if c.Gone != (i == 0) {
			t.Errorf("%s: gone is %v", c.Label, c.Gone)
		}
	}
	if table := h.run("locks", "/gone").want(0).stdout.String(); strings.Count(table, "(gone)") != 1 {
		t.Errorf("locks:\n%s", table)
	}
	watch := h.start("locks", "--watch", "/gone") // which is told, and does not look
	watch.see("l3")
	if err := s.Delete(ctx, h.held("/gone", 4)[0].Contenders[0].Node, -1); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(limit); strings.Count(watch.stdout.String(), "LOCK") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a change is not shown: %s", watch.stdout)
		}
	}
}
