// Package examples runs the programs of this module against a server in this process, as their users
// would: as processes, with signals, and the page in a browser.
package examples

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// patience bounds whatever should take no time.
const patience = time.Minute

// bin is where the programs are.
var bin string

func TestMain(m *testing.M) { os.Exit(build(m)) }

func build(m *testing.M) int {
	var err error
	if bin, err = os.MkdirTemp("", "lockkeeper-examples-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(bin)
	if out, err := exec.Command("go", "build", "-o", bin+"/", "./...").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// A program is one that runs.
type program struct {
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	err  error

	mu  sync.Mutex
	out bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

// said returns what the program has printed until now.
func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start starts a program whose server is at addr.
func start(t *testing.T, addr, name string, args ...string) *program {
	t.Helper()
	return startWith(t, []string{"LOCKKEEPER_SERVERS=" + addr}, name, args...)
}

// startTalking starts a program that reads what is written to the file.
func startTalking(t *testing.T, addr, name string, args ...string) (*program, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Cleanup(func() { w.Close() })
	return startReading(t, r, []string{"LOCKKEEPER_SERVERS=" + addr}, name, args...), w
}

// startWith starts a program with these variables.
func startWith(t *testing.T, env []string, name string, args ...string) *program {
	t.Helper()
	return startReading(t, nil, env, name, args...)
}

// startReading starts a program with these variables and this input; nil is none.
func startReading(t *testing.T, in *os.File, env []string, name string, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p := &program{t: t, cmd: exec.CommandContext(ctx, filepath.Join(bin, name), args...), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	if in != nil {
		p.cmd.Stdin = in
	}
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer cancel()
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
	})
	return p
}

// expect waits until the program has printed something.
func (p *program) expect(text string) {
	p.t.Helper()
	p.expectTimes(1, text)
}

// expectTimes waits until the program has printed something so often.
func (p *program) expectTimes(n int, text string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); strings.Count(p.said(), text) < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("%s did not say %q %d times but\n%s", p.cmd.Path, text, n, p.said())
		}
	}
}

// finish waits until the program has ended well.
func (p *program) finish() string {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s does not end; it said\n%s", p.cmd.Path, p.said())
	}
	if p.err != nil {
		p.t.Errorf("%s: %v\n%s", p.cmd.Path, p.err, p.said())
	}
	return p.said()
}

// fail waits until the program has ended with an error that says so.
func (p *program) fail(text string) {
	p.t.Helper()
	p.expect(text)
	select {
	case <-p.done:
	case <-time.After(patience):
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		p.t.Errorf("%s: exit status %d, want 1\n%s", p.cmd.Path, code, p.said())
	}
}

func (p *program) signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

func server(t *testing.T) *zktest.Server {
	return zktest.New(t, zktest.Options{TickTime: 200 * time.Millisecond})
}

// A program that lacks arguments says which ones it wants.
func TestUsage(t *testing.T) {
	for name, arguments := range map[string]string{
		"batch": "NAME PROCESSES", "cron": "HOST JOB…", "fencing": "DATABASE AMOUNT", "flags": "ADDRESS", "inspect": "ADDRESS DIRECTORY",
		"leader": "NAME", "leaderonly": "NAME", "migrate": "DATABASE", "pool": "NAME FEED…", "ratelimit": "ADDRESS", "registry": "FILE",
		"ring": "NAME", "service": "ADDRESS", "sidecar": "TEMPLATE FILE COMMAND…",
	} {
		startWith(t, nil, name).fail("usage: " + name + " " + arguments)
	}
	startWith(t, nil, "sidecar", "nothing.tmpl", "file", "true").fail("sidecar: open nothing.tmpl")
}

func TestCronguard(t *testing.T) {
	t.Parallel()
	srv := server(t)
	alone := start(t, "127.0.0.1:1", "cronguard")
	first := start(t, srv.Addr(), "cronguard")
	first.expect("wrote sales")
	first.signal(syscall.SIGSTOP) // or it might be done before the second looks
	if said := start(t, srv.Addr(), "cronguard").finish(); !strings.Contains(said, "runs elsewhere: ") {
		t.Errorf("the second said\n%s", said)
	}
	first.signal(syscall.SIGCONT)
	if said := first.finish(); said != "wrote sales\nwrote stock\nwrote returns\n" {
		t.Errorf("the first said\n%s", said)
	}
	start(t, srv.Addr(), "cronguard").expect("wrote sales") // the lock is free again
	alone.fail("127.0.0.1:1")
}

func TestService(t *testing.T) {
	t.Parallel()
	srv := server(t)
	one, two := start(t, srv.Addr(), "service", "127.0.0.1:0"), start(t, srv.Addr(), "service", "127.0.0.1:0")
	one.expect("/\n")
	two.expect("/\n")
	post := func(p *program, customer string) int {
		resp, err := http.Post(regexp.MustCompile(`http://\S+/`).FindString(p.said())+"customers/"+customer, "", nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	changed := func() {
		t.Helper()
		codes := make(chan int)
		for _, p := range []*program{one, two, one, two} {
			go func() { codes <- post(p, "17") }()
		}
		for range 4 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		}
	}
	changed()
	if code := post(one, "%2E%2E"); code != http.StatusServiceUnavailable {
		t.Errorf("a customer called ..: status %d", code)
	}
	srv.Link("default").Expire()
	one.expect("state=expired")
	two.expect("state=expired")
	changed()
	for _, p := range []*program{one, two} {
		p.signal(syscall.SIGTERM)
		p.finish()
	}
}

func TestSingleton(t *testing.T) {
	t.Parallel()
	srv := server(t)
	first := start(t, srv.Addr(), "singleton")
	first.expect("working")
	second := start(t, srv.Addr(), "singleton")
	second.expect("waiting, 1 ahead")
	first.signal(syscall.SIGTERM)
	first.finish()
	second.expect("working")
	third := start(t, srv.Addr(), "singleton")
	third.expect("waiting, 1 ahead")
	second.signal(syscall.SIGKILL)
	third.expect("working") // when the session of the second has expired
	third.signal(syscall.SIGTERM)
	if said := third.finish(); !strings.Contains(said, "stopped: terminated") {
		t.Errorf("the third said\n%s", said)
	}
}

func TestSharded(t *testing.T) {
	t.Parallel()
	srv := server(t)
	var workers []*program
	for range 4 {
		workers = append(workers, start(t, srv.Addr(), "sharded"))
	}
	built := map[string]int{}
	for _, w := range workers {
		for line := range strings.Lines(w.finish()) {
			if shard, ok := strings.CutPrefix(strings.TrimSpace(line), "end "); ok {
				built[shard]++
			}
		}
	}
	if len(built) != 8 {
		t.Errorf("shards built: %v, want all eight", built)
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	srv, db := server(t), filepath.Join(t.TempDir(), "db")
	var all []*program
	for range 3 {
		all = append(all, start(t, srv.Addr(), "migrate", db))
	}
	steps := 0
	for _, p := range all {
		said := p.finish()
		steps += strings.Count(said, "did step")
		if !strings.Contains(said, "version 3") {
			t.Errorf("one said\n%s", said)
		}
	}
	if steps != 3 {
		t.Errorf("%d steps were done, want each of three once", steps)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	srv := server(t)
	start(t, srv.Addr(), "config", "set", "db1", "db2").finish()
	start(t, srv.Addr(), "config", "set", "db3", "db4").finish()
	if said := start(t, srv.Addr(), "config").finish(); said != "/examples/config/primary = db3\n/examples/config/fallback = db4\n" {
		t.Errorf("it says\n%s", said)
	}
}

func TestFencing(t *testing.T) {
	t.Parallel()
	srv, db := server(t), filepath.Join(t.TempDir(), "db")
	var all []*program
	for range 5 {
		all = append(all, start(t, srv.Addr(), "fencing", db, "10"))
	}
	most := 0
	for _, p := range all {
		var balance int
		if _, err := fmt.Sscanf(p.finish(), "balance %d", &balance); err != nil {
			t.Error(err)
		}
		most = max(most, balance)
	}
	if most != 50 {
		t.Errorf("the balance is %d, want 50", most)
	}
}

func TestLeader(t *testing.T) {
	t.Parallel()
	srv := server(t)
	a := start(t, srv.Addr(), "leader", "a")
	a.expect("leading, token")
	b := start(t, srv.Addr(), "leader", "b")
	a.signal(syscall.SIGTERM)
	if said := a.finish(); !strings.Contains(said, "stopping: ") || !strings.Contains(said, "\nstopped\n") {
		t.Errorf("a said\n%s", said)
	}
	b.expect("leading, token")
	srv.Link("default").Expire()
	b.expectTimes(2, "leading, token")
	b.signal(syscall.SIGTERM)
	b.finish()
}

func TestRetry(t *testing.T) {
	t.Parallel()
	srv := server(t)
	p := start(t, srv.Addr(), "retry")
	p.expect("begin")
	srv.Link("default").Expire()
	p.expect("once more: ")
	if said := p.finish(); strings.Count(said, "begin") != 2 || !strings.HasSuffix(said, "done\n") {
		t.Errorf("it said\n%s", said)
	}
}

// Every lock has one home, each ensemble has its share, and while the ring changes a lock that moves is held
// in both places.
func TestRing(t *testing.T) {
	t.Parallel()
	a, b := server(t).Addr(), server(t).Addr()
	held := func(name, ring, old string) string {
		p := startWith(t, []string{"LOCKKEEPER_RING=" + ring, "LOCKKEEPER_OLD_RING=" + old}, "ring", name)
		return strings.TrimPrefix(strings.TrimSpace(p.finish()), name+" is held in ")
	}
	homes := map[string]int{}
	for i := range 8 {
		name := fmt.Sprint("lock", i)
		home := held(name, a+";"+b, "")
		homes[home]++
		if again := held(name, b+";"+a, a+";"+b); again != home {
			t.Errorf("%s is at home in %s, and in %s if the ring is told the other way round", name, home, again)
		}
		want := a
		if home != a {
			want = home + " and in " + a
		}
		if moving := held(name, a+";"+b, a); moving != want {
			t.Errorf("while %s moves it is held in %s, want %s", name, moving, want)
		}
	}
	if len(homes) > 2 || homes[a]+homes[b] != 8 {
		t.Errorf("homes of 8 locks: %v", homes)
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	srv := server(t)
	page := start(t, srv.Addr(), "inspect", "127.0.0.1:0", "/examples")
	page.expect("http://")
	url := regexp.MustCompile(`http://\S+/`).FindString(page.said())
	b := browser(t)
	shows := func(text string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			dom, err := chromedp.Run(b, chromedp.InnerHTML(chromedp.ID("locks")))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(dom, text) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the page does not say %q but\n%s", text, dom)
			}
		}
	}
	if err := chromedp.Do(b, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	shows("No lock is held")
	first := start(t, srv.Addr(), "singleton")
	first.expect("working")
	second := start(t, srv.Addr(), "singleton")
	second.expect("waiting")
	shows("<td>/examples/singleton</td><td>mutex</td>") // without being loaded again
	shows("waits, 1 ahead")
	first.signal(syscall.SIGTERM)
	second.expect("working")
	second.signal(syscall.SIGTERM)
	shows("No lock is held")

	owner := srv.Session(t, "owner")
	if err := owner.AddAuth(t.Context(), client.Auth{Scheme: "digest", Credential: []byte("owner:secret")}); err != nil {
		t.Fatal(err)
	}
	for name, acl := range map[string][]zk.ACL{"/examples/secret": zk.CreatorACL(), "/examples/open": nil} {
		m, err := lock.NewMutex(owner, name, lock.Options{ACL: acl, ParentACL: acl})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	shows("/examples/open")
	if err := chromedp.Do(b, chromedp.Navigate(url)); err != nil {
		t.Fatal(err)
	}
	shows("/examples/open") // beside one that may not be read

	srv.Link("default").Expire()
	page.fail("session expired")
}

// browser starts a browser of the test's own.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithAllocatorOptions(
		chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true)))
	t.Cleanup(cancel)
	return ctx
}
