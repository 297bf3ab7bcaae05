package examples

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
)

// pageOf returns the address that the program serves.
func pageOf(p *program) string {
	p.t.Helper()
	p.expect("/\n")
	return regexp.MustCompile(`http://\S+/`).FindString(p.said())
}

// get returns the status and the body of what is at an address.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// await asks until the answer is as wanted.
func await[T comparable](t *testing.T, what string, want T, ask func() T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		got := ask()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	}
}

// begun returns what a worker of the pool, or several together, work on now.
func begun(workers ...*program) string {
	var feeds []string
	for _, w := range workers {
		for line := range strings.Lines(w.said()) {
			if feed, ok := strings.CutPrefix(line, "begin "); ok {
				feeds = append(feeds, strings.Split(feed, ",")[0])
			}
			if feed, ok := strings.CutPrefix(strings.TrimSpace(line), "end "); ok {
				at := slices.Index(feeds, feed)
				feeds = slices.Delete(feeds, at, at+1)
			}
		}
	}
	slices.Sort(feeds)
	return strings.Join(feeds, " ")
}

func TestPool(t *testing.T) {
	t.Parallel()
	srv := server(t)
	feeds := strings.Fields("f0 f1 f2 f3 f4 f5 f6 f7")
	a := start(t, srv.Addr(), "pool", append([]string{"a"}, feeds...)...)
	all := strings.Join(feeds, " ")
	await(t, "a alone", all, func() string { return begun(a) })
	b := start(t, srv.Addr(), "pool", append([]string{"b"}, feeds...)...)
	await(t, "a and b share", true, func() bool { return begun(b) != "" && begun(a, b) == all })
	a.signal(syscall.SIGTERM)
	a.finish()
	await(t, "b alone", all, func() string { return begun(b) })
	if began := strings.Count(b.said(), "begin "); began != len(feeds) {
		t.Errorf("b began %d times, want once for each of %d feeds", began, len(feeds))
	}
	srv.Link("default").Expire()
	b.expectTimes(2*len(feeds), "begin ")
	b.signal(syscall.SIGTERM)
	b.finish()
}

func TestFlags(t *testing.T) {
	t.Parallel()
	srv := server(t)
	page := pageOf(start(t, srv.Addr(), "flags", "127.0.0.1:0"))
	on := func(user string) string {
		_, body := get(t, page+user)
		lines := strings.Fields(body)
		slices.Sort(lines)
		return strings.Join(lines, " ")
	}
	if got := on("ann"); got != "" {
		t.Errorf("without flags: %q", got)
	}
	set := func(feature, percent string) { start(t, srv.Addr(), "flags", "set", feature, percent).finish() }
	set("dark", "100")
	set("beta", "0")
	await(t, "ann", "dark", func() string { return on("ann") })
	set("beta", "one hundred") // does not come into force
	set("beta", "100")
	await(t, "ann", "beta dark", func() string { return on("ann") })
	set("beta", "50")
	await(t, "users with beta", true, func() bool {
		with := 0
		for i := range 200 {
			with += strings.Count(on(fmt.Sprint("user", i)), "beta")
		}
		return with > 60 && with < 140
	})
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	srv, dir := server(t), t.TempDir()
	var services []*program
	var pages []string
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		services = append(services, start(t, srv.Addr(), "registry", filepath.Join(dir, name)))
		pages = append(pages, strings.TrimSuffix(strings.TrimPrefix(pageOf(services[len(services)-1]), "http://"), "/"))
	}
	// Two clients, each with a line for each request.
	type caller struct {
		*program
		in io.Writer
	}
	var callers []caller
	for range 2 {
		p, in := startTalking(t, srv.Addr(), "caller")
		callers = append(callers, caller{p, in})
	}
	// answers returns which instances answer the callers now.
	answers := func() string {
		seen := map[string]bool{}
		for _, c := range callers {
			for range 4 {
				before := strings.Count(c.said(), "\n")
				fmt.Fprintln(c.in, "list")
				await(t, "lines of a caller", before+1, func() int { return strings.Count(c.said(), "\n") })
				lines := strings.Split(strings.TrimSpace(c.said()), "\n")
				seen[strings.TrimSuffix(lines[len(lines)-1], " answers orders")] = true
			}
		}
		return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
	}
	slices.Sort(pages)
	both := strings.Join(pages, " ")
	await(t, "both", both, answers)
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	services[0].expect("not healthy")
	b := strings.TrimSuffix(strings.TrimPrefix(pageOf(services[1]), "http://"), "/")
	await(t, "the healthy one", b, answers)
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "both again", both, answers)
	srv.Link("default").Expire()
	await(t, "both after an expiry", both, answers)
	services[0].signal(syscall.SIGTERM)
	services[0].finish()
	await(t, "the one that is left", b, answers)
}

func TestCron(t *testing.T) {
	t.Parallel()
	srv := server(t)
	hosts := []*program{start(t, srv.Addr(), "cron", "a", "x", "y"), start(t, srv.Addr(), "cron", "b", "x", "y")}
	runs := func(job string) (n int) {
		for _, h := range hosts {
			n += strings.Count(h.said(), job+" ")
		}
		return n
	}
	await(t, "both jobs run", true, func() bool { return runs("x") > 0 && runs("y") > 0 })
	hosts[0].signal(syscall.SIGKILL)
	at := runs("x") + runs("y")
	await(t, "they go on", true, func() bool { return runs("x")+runs("y") > at+2 })
	seen := map[string]bool{}
	for _, h := range hosts {
		for line := range strings.Lines(h.said()) {
			if (strings.HasPrefix(line, "x ") || strings.HasPrefix(line, "y ")) && seen[line] {
				t.Errorf("begun twice: %s", line)
			}
			seen[line] = true
		}
	}
}

func TestSidecar(t *testing.T) {
	t.Parallel()
	srv, dir := server(t), t.TempDir()
	tmpl, file := filepath.Join(dir, "tmpl"), filepath.Join(dir, "app.conf")
	if err := os.WriteFile(tmpl, []byte("listen {{.port}};\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := srv.Session(t, "writer")
	put := func(data string) {
		t.Helper()
		if _, err := s.Put(t.Context(), "/examples/sidecar", []byte(data), nil); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want string) {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil || string(data) != want {
			t.Errorf("the file holds %q (%v), want %q", data, err, want)
		}
	}
	put("port: 80\n")
	p := start(t, srv.Addr(), "sidecar", tmpl, file, "cp", file, file+".read")
	p.expect("rendered version 0 <nil>")
	holds("listen 80;\n")
	put("door: 80\n")
	p.expect("the last good value stays in force")
	holds("listen 80;\n")
	put(`{"port": 81}`)
	p.expect("rendered version 2 <nil>")
	holds("listen 81;\n")
	await(t, "the command ran", "listen 81;\n", func() string {
		data, _ := os.ReadFile(file + ".read")
		return string(data)
	})
	srv.Link("default").Cut() // is no reason to render
	put("port: 82\n")
	p.expect("rendered version 3 <nil>")
	if n := strings.Count(p.said(), "rendered"); n != 3 {
		t.Errorf("rendered %d times, want once for each of 3 good versions\n%s", n, p.said())
	}
	p.signal(syscall.SIGTERM)
	p.finish()

	p = start(t, srv.Addr(), "sidecar", tmpl, file, "true")
	p.expect("rendered version 3 <nil>")
	_, err := s.SetACL(t.Context(), "/examples/sidecar", []zk.ACL{{Perms: zk.PermAdmin, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
	if err != nil {
		t.Fatal(err)
	}
	srv.Link("default").Expire()
	p.fail("sidecar: config /examples/sidecar")
}

// Servers that refuse a member that has to come back end its program.
func TestMembersThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pool", "cron"} {
		srv := server(t)
		p := start(t, srv.Addr(), name, "a", "x")
		members := "/examples/" + name + "/party"
		await(t, "a member", 2, func() int { return len(srv.Tree(members)) })
		s := srv.Session(t, "admin")
		_, err := s.SetACL(t.Context(), members, []zk.ACL{{Perms: zk.PermAll &^ zk.PermCreate, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
		if err != nil {
			t.Fatal(err)
		}
		srv.Link("default").Expire()
		p.fail(name + ": ")
	}
}

func TestRatelimit(t *testing.T) {
	t.Parallel()
	srv := server(t)
	pages := []string{pageOf(start(t, srv.Addr(), "ratelimit", "127.0.0.1:0")), pageOf(start(t, srv.Addr(), "ratelimit", "127.0.0.1:0"))}
	codes := make(chan int)
	began := time.Now()
	for i := range 12 {
		go func() {
			resp, err := http.Get(pages[i%2] + "ann")
			if err != nil {
				codes <- 0
				return
			}
			resp.Body.Close()
			codes <- resp.StatusCode
		}()
	}
	got := map[int]int{}
	for range 12 {
		got[<-codes]++
	}
	if more := int(time.Since(began) / (12 * time.Second)); got[200] < 5 || got[200] > 5+more || got[429] != 12-got[200] {
		t.Errorf("statuses of 12 requests at once: %v, want five times 200 and else 429", got)
	}
	if code, _ := get(t, pages[0]+"bob"); code != 200 {
		t.Errorf("another customer: status %d", code)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	srv := server(t)
	var all []*program
	for i := range 3 {
		if i == 2 {
			for _, p := range all {
				p.expect("ready")
				if strings.Contains(p.said(), "begin") {
					t.Error("one began before all were there")
				}
			}
		}
		all = append(all, start(t, srv.Addr(), "batch", fmt.Sprint("process-", i), "3"))
	}
	for _, p := range all {
		if said := p.finish(); said != "ready\nbegin\nend\nall have ended\n" {
			t.Errorf("one said\n%s", said)
		}
	}
}

func TestLeaderonly(t *testing.T) {
	t.Parallel()
	srv := server(t)
	a := start(t, srv.Addr(), "leaderonly", "a")
	atA := pageOf(a)
	await(t, "a leads", 200, func() int { code, _ := get(t, atA); return code })
	b := start(t, srv.Addr(), "leaderonly", "b")
	atB := pageOf(b)
	b.expect("state=connected")
	if code, _ := get(t, atB); code != http.StatusServiceUnavailable {
		t.Errorf("b, which does not lead: status %d", code)
	}
	a.signal(syscall.SIGTERM)
	a.finish()
	await(t, "b leads", 200, func() int { code, _ := get(t, atB); return code })
	srv.Link("default").Freeze() // nothing comes from the servers any more
	await(t, "b leads no more", http.StatusServiceUnavailable, func() int { code, _ := get(t, atB); return code })
	srv.Link("default").Heal()
	await(t, "b leads again", 200, func() int { code, _ := get(t, atB); return code })
}
