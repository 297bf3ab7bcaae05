//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestLocksShowsHolderAndWaitersInOrder(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	holder := h.start("run", "--label", "first", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	h.start("run", "--label", "second", "demo", "--", "true")
	line := h.held("demo", 2)[0]
	c := line.Contenders
	if line.Path != "/lockkeeper/locks/demo" || c[0].State != "held" || c[0].Label != "first" || c[1].State != "waiting" || c[1].Label != "second" ||
		c[0].PID != holder.cmd.Process.Pid || c[0].Host == "" || c[0].User != userName() || c[0].Program != "lockkeeper" || time.Since(c[0].Since) > time.Minute || c[0].Token >= c[1].Token {
		t.Errorf("locks --json: %+v", line)
	}
	table := h.run("locks").want(0).stdout.String()
	if rows := strings.Split(strings.TrimSpace(table), "\n"); len(rows) != 3 || !strings.Contains(rows[1], "held") || !strings.Contains(rows[2], "waiting 1") {
		t.Errorf("locks:\n%s", table)
	}
	watch := h.start("locks", "--watch", "--json", "demo")
	watch.see("second")
	holder.signal(syscall.SIGTERM)
	watch.see(`"contenders":[]`)
	watch.signal(syscall.SIGINT)
	watch.wantInterrupted()
	if h.run("locks", "--json").want(0).stdout.String() != "[]\n" {
		t.Error("no locks are not an empty list")
	}
}

// Two that share the lock hold it together, and one that wants it alone waits for both and is not overtaken.
func TestSharedRunsOverlapAndAnExclusiveOneWaits(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const hold = "echo up; exec sleep 1000"
	first := h.start("run", "--shared", "demo", "--", "sh", "-c", hold)
	first.see("up")
	second := h.start("run", "--shared", "--wait", "0", "demo", "--", "sh", "-c", hold)
	second.see("up")
	h.run("run", "--wait", "0", "demo", "--", "true").want(75)
	alone := h.start("run", "demo", "--", "sh", "-c", hold)
	h.held("demo", 3)
	late := h.start("run", "--shared", "demo", "--", "sh", "-c", hold)
	var got []string
	for _, c := range h.held("demo", 4)[0].Contenders {
		got = append(got, fmt.Sprint(c.State, c.Shared, c.Place))
	}
	if want := []string{"heldtrue 0", "heldtrue 1", "waitingfalse 2", "waitingtrue 3"}; !slices.Equal(got, want) {
		t.Errorf("state, shared and place: %v, want %v", got, want)
	}
	table := h.run("locks").want(0).stdout.String()
	for _, want := range []string{"held, shared", "waiting 2 ", "waiting 3, shared"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	first.signal(syscall.SIGTERM)
	first.want(143)
	if c := h.held("demo", 3)[0].Contenders; c[1].State != "waiting" {
		t.Errorf("alone with one that still shares: %+v", c)
	}
	h.run("break", "demo").want(64, "no terminal to ask at")
	h.run("break", "nosuch").want(66, "no such lock")
	h.run("break", "--force", "demo").want(0, "put", strconv.Itoa(second.cmd.Process.Pid))
	second.want(74)
	alone.see("up")
	alone.signal(syscall.SIGTERM)
	late.see("up")
	late.signal(syscall.SIGTERM)
}

// A lock that may not be read is named, and does not make the list of the others fail.
func TestLocksShowsWhatItMayRead(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start("run", "b", "--", "sh", "-c", "echo up; exec sleep 1000").see("up")
	var rows []serverStatus
	b := h.run("status", "--json").want(0).stdout.String()
	if err := json.Unmarshal([]byte(b), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("status --json: %v: %s", err, b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := client.Open(ctx, rows[0].Server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	nobody := []zk.ACL{{Perms: zk.PermRead, Scheme: "digest", ID: "nobody:x"}}
	if _, err := s.Create(ctx, locksPath+"/a", nil, zk.Persistent, nobody); err != nil {
		t.Fatal(err)
	}
	if j := h.run("locks").want(77, "not shown: ", locksPath+"/a", "not authorised", "without credentials"); !strings.Contains(j.stdout.String(), "held") {
		t.Errorf("the lock that may be read is not shown:\n%s", j.stdout)
	}
	watch := h.start("locks", "--watch")
	watch.see("held")
	h.start("run", "c", "--label", "the third", "--", "sh", "-c", stay)
	watch.see("the third")
	watch.signal(syscall.SIGINT)
	watch.wantInterrupted(locksPath + "/a")
	if strings.Count(watch.stderr.String(), locksPath+"/a") != 1 {
		t.Errorf("locks --watch says %q", watch.stderr)
	}
	h.run("locks", "--watch", "a").want(77, locksPath+"/a")
}

// What Curator or another client writes into a node is shown as it can be shown, and cannot move the
// cursor.
func TestForeignDataIsShownReadably(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("locks").want(0)
	b := h.run("status", "--json").want(0).stdout.String()
	var rows []serverStatus
	if err := json.Unmarshal([]byte(b), &rows); err != nil || len(rows) != 1 || rows[0].Mode != "standalone" {
		t.Fatalf("status --json: %v: %s", err, b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := client.Open(ctx, rows[0].Server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(ctx)
	for _, path := range []string{"/curator"} {
		if _, err := s.Create(ctx, path, nil, zk.Persistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	for i, data := range [][]byte{[]byte("10.0.0.7"), {0xff, 0xfe}, []byte("\x1b[2Jevil\n")} {
		name := "/curator/_c_0123456789abcdef0123456789abcde" + string(rune('0'+i)) + "-lock-"
		if _, err := s.Create(ctx, name, data, zk.EphemeralSequential, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	table := h.run("locks", "/curator").want(0).stdout.String()
	for _, want := range []string{"10.0.0.7", "2 bytes", "?[2Jevil?", "waiting 2"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if strings.Contains(table, "\x1b") {
		t.Errorf("an escape sequence got through: %q", table)
	}
	h.run("run", "--wait", "0", "/curator", "--", "true").want(75)
}

func TestPrintTable(t *testing.T) {
	var out bytes.Buffer
	rows := [][]string{{"A", "B", "C"}, {"long", "x", ""}, {"y", "", ""}, {"q", "what runs on takes no room"}, {"z", "longer", "w"}}
	want := "A     B       C\nlong  x\ny\nq     what runs on takes no room\nz     longer  w\n"
	if err := printTable(&out, rows); err != nil || out.String() != want {
		t.Errorf("printTable: %v\n%s", err, &out)
	}

	out.Reset()
	long := strings.Repeat("é", 1000)
	rows = [][]string{{"A", "B"}, {long, "x"}, {"y", long}, {long}}
	err := printTable(&out, rows)
	lines := strings.Split(out.String(), "\n")
	cut := long[:2*(cellMax-1)] + "…"
	if err != nil || lines[1] != cut+"  x" || !strings.HasSuffix(lines[2], " "+cut) || lines[3] != long {
		t.Errorf("printTable of long cells: %v\n%s", err, &out)
	}
}

// A watch that is ended with ^C says nothing about it.
func TestAWatchEndsWithoutAWord(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "demo", "--", "true").want(0) // so that the keeper is not told of
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		j := h.start("locks", "--watch", "demo")
		j.see("free")
		j.signal(sig)
		if sig == syscall.SIGINT {
			j.wantInterrupted()
		} else {
			j.want(128 + int(sig))
		}
		if j.stderr.String() != "" {
			t.Errorf("%v: it says %q", sig, j.stderr)
		}
	}
}

// A watch of a lock that is not there says so, and which one may have been meant.
func TestAWatchOfNoLockSaysSo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("run", "nightly", "--", "true").want(0)
	j := h.start("locks", "--watch", "nihgtly")
	j.see("free")
	j.signal(syscall.SIGINT)
	j.wantInterrupted("nihgtly: no such lock", "did you mean nightly?", "until it is used")
}

// A watch says that there is no server, once, and goes on when there is one. What it has shown stays where it is.
func TestAWatchWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, of := srv.Session(t, "watch"), srv.Session(t, "holders")
		var holds [3]*lock.Hold
		take := func(i int) {
			m, err := lock.NewMutex(of, locksPath+"/"+strconv.Itoa(i), lock.Options{Label: "number " + strconv.Itoa(i)})
			if err != nil {
				t.Fatal(err)
			}
			if holds[i], err = m.Lock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		take(0)
		out, notes := newScreen(), newScreen()
		ctx, end := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- view{out: out, notes: notes, asJSON: true}.watch(ctx, s) }()
		time.Sleep(time.Second)
		before := out.String()
		link := srv.Link("watch")
		for range 2 {
			link.Refuse()
			time.Sleep(watchPatience / 10) // so that the client's pauses are still short
			link.Heal()
			time.Sleep(3 * watchPatience) // with a connection that lasts they are short again
		}
		if notes.String() != "" || out.String() != before {
			t.Errorf("after short breaks it says %q and shows %q", notes, out)
		}
		for i := range holds[1:] {
			link.Refuse()
			time.Sleep(5 * watchPatience)
			if got := notes.String(); strings.Count(got, "no server since") != i+1 {
				t.Errorf("without a server it says %q", got)
			}
			take(i + 1)
			link.Heal()
			time.Sleep(5 * watchPatience)
			if got := notes.String(); strings.Count(got, "there is a server again") != i+1 {
				t.Errorf("with one again it says %q", got)
			}
		}
		if !strings.Contains(out.String(), "number 2") {
			t.Errorf("what has changed meanwhile is not shown:\n%s", out)
		}
		link.Refuse()
		time.Sleep(5 * watchPatience)
		end(context.Canceled)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ends with %v", err)
		}
	})
}

// On a terminal what was there stays, with a line below it.
func TestAWatchOnATerminalWithoutAServer(t *testing.T) {
	t.Parallel()
	h, x := newHome(t), ptytest.Open(t)
	data, address := h.dir+"/data", "unix:"+h.dir+"/s" // a port could be another's by the second start
	server, _ := h.server("--data", data, "--listen", address)
	holder := h.start("run", "--servers", address, "demo", "--", "sh", "-c", stay)
	holder.see("up")
	waiter := h.start("run", "--servers", address, "demo", "--", "true")
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+address)
	h.held("demo", 2)
	h.shellOn(x)
	x.Type("$LK locks --watch\n")
	x.WaitFor("waiting 1")
	server.signal(syscall.SIGKILL)
	shown := x.WaitFor("no server since")
	if i := strings.LastIndex(shown, "\x1b[2J"); i >= 0 && !strings.Contains(shown[i:], "waiting 1") {
		t.Errorf("without a server it shows %q", shown)
	}
	<-server.done
	h.server("--data", data, "--listen", address)
	next := h.start("run", "--servers", address, "--label", "the next", "demo", "--", "sh", "-c", stay)
	x.WaitFor("the next")
	x.Type("\x03")
	x.WaitFor("> ")
	x.Type("exit\n")
	for _, j := range []*job{next, waiter, holder} { // while they have a server to take leave of
		j.signal(syscall.SIGTERM)
		j.status()
	}
}

// The sessions of a server whose number is 128 or more have negative ids.
func TestSessionsAreNamedAsByZooKeeper(t *testing.T) {
	l := lineOf(inspect.Snapshot{Path: "/l", Contenders: []lock.Contender{{Session: -1<<63 + 0x10}}})
	if got := l.Contenders[0].Session; got != "0x8000000000000010" {
		t.Errorf("the session is %s", got)
	}
}

// A watch that was paused, or cut off, until its session has expired goes on with another.
func TestAWatchOutlivesItsSession(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	server, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0", "--set", "tickTime=100", "--set", "maxSessionTimeout=6000", "--set", "forceSync=no")
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+address)
	watch := h.start("locks", "--watch", "demo")
	watch.see("free")
	watch.signal(syscall.SIGSTOP)
	if err := server.stderr.see("session expired"); err != nil {
		t.Fatal(err)
	}
	watch.signal(syscall.SIGCONT)
	h.run("run", "--slots", "2", "demo", "--", "true").want(0)
	watch.see("semaphore of 2")
	watch.signal(syscall.SIGINT)
	watch.wantInterrupted()
}

// Elections are shown with the locks, and the leader as the holder.
func TestLocksShowsElections(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.start("run", "demo", "--", "sh", "-c", stay).see("up")
	h.start("elect", "--label", "leader", "web", "--", "sh", "-c", stay).see("up")
	watch := h.start("locks", "--watch", "--json")
	watch.see(`"label":"leader"`)
	h.start("elect", "--label", "next", "web", "--", "true")
	watch.see(`"label":"next"`)
	var lines []lockLine
	if err := json.Unmarshal([]byte(h.run("locks", "--json").want(0).stdout.String()), &lines); err != nil || len(lines) != 2 {
		t.Fatalf("locks --json: %v, %+v", err, lines)
	}
	e := lines[1]
	if lines[0].Lock != "demo" || lines[0].Contenders[0].Label != "sleep" || e.Contenders[0].User != userName() || e.Kind != "election" || len(e.Contenders) != 2 || e.Contenders[0].State != "held" ||
		e.Contenders[0].Label != "leader" || e.Contenders[1].State != "waiting" || e.Contenders[1].Label != "next" {
		t.Errorf("locks --json: %+v", lines)
	}
}

// Contenders that wait for each other are shown with every lock that they wait for.
func TestLocksShowsDeadlocks(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.run("locks").want(0) // starts the keeper
	b := h.run("status", "--json").want(0).stdout.String()
	var rows []serverStatus
	if err := json.Unmarshal([]byte(b), &rows); err != nil || len(rows) != 1 {
		t.Fatalf("status --json: %v: %s", err, b)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	s, err := client.Open(ctx, rows[0].Server, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	var mutexes [2]*lock.Mutex
	var holds [2]*lock.Hold
	for i, name := range []string{"x", "y"} {
		if mutexes[i], err = lock.NewMutex(s, locksPath+"/"+name, lock.Options{Label: "the " + name + " job"}); err != nil {
			t.Fatal(err)
		}
		if holds[i], err = mutexes[i].Lock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	wait, giveUp := context.WithCancel(holds[0].Context())
	wg.Go(func() {
		if _, err := mutexes[1].Lock(wait); !errors.Is(err, context.Canceled) {
			t.Errorf("x's wait for y ended with %v", err)
		}
	})
	wg.Go(func() {
		if _, err := mutexes[0].Lock(holds[1].Context()); !errors.Is(err, context.Canceled) {
			t.Errorf("y's wait for x ended with %v", err)
		}
	})
	h.held("x", 2)
	y := h.held("y", 2)[0]
	if len(y.Deadlocks) != 1 || len(y.Deadlocks[0]) != 2 || y.Deadlocks[0][0].Path == y.Deadlocks[0][1].Path {
		t.Errorf("locks --json y: deadlocks %+v, want one of two waits", y.Deadlocks)
	}
	table := h.run("locks").want(0).stdout.String()
	if n := strings.Count(table, "deadlock: "); n != 1 || !strings.Contains(table, "(the x job)") {
		t.Errorf("%d deadlocks in\n%s", n, table)
	}
	giveUp()
	h.held("y", 1)
	if table := h.run("locks").want(0).stdout.String(); strings.Contains(table, "deadlock") {
		t.Errorf("a deadlock that is no more:\n%s", table)
	}
	for _, hold := range slices.Backward(holds[:]) {
		if err := hold.Release(ctx); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

// Runs within runs say what all those around them hold, so that cycles of their waits are shown, too.
func TestLocksShowsDeadlocksOfNestedRuns(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const then = `echo up; until [ -e "$DIR/go" ]; do sleep 0.01; done; exec "$LK" run `
	h.start("run", "a", "--", "sh", "-c", `exec "$LK" run b -- sh -c '`+then+`c -- true'`).see("up")
	h.start("run", "c", "d", "--", "sh", "-c", then+`a -- true`).see("up")
	if err := os.WriteFile(h.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.held("a", 2)
	c := h.held("c", 2)[0]
	if len(c.Deadlocks) != 1 || len(c.Deadlocks[0]) != 2 {
		t.Errorf("locks --json c: deadlocks %+v, want one of two waits", c.Deadlocks)
	}
	if table := h.run("locks").want(0).stdout.String(); strings.Count(table, "deadlock: ") != 1 {
		t.Errorf("no deadlock in\n%s", table)
	}
}

// A session that ends while there is no server, in whatever way, is not waited for.
func TestAWatchWithoutAServerEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "a")
		srv.Link("a").Refuse()
		synctest.Wait()
		var notes bytes.Buffer
		ended := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { ended <- view{notes: &notes}.awaitServer(ctx, s) }()
		synctest.Wait()
		s.Close(t.Context())
		select {
		case err := <-ended:
			if err != nil || !strings.Contains(notes.String(), "no server since") {
				t.Errorf("awaitServer = %v, and has said %q", err, notes.String())
			}
		case <-time.After(time.Minute):
			t.Fatal("awaitServer waits on")
		}
	})
}
