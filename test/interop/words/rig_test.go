// Package words compares what our server and Apache ZooKeeper 3.8.0 say about themselves when both
// are in the same state: in answer to four-letter words, and on the admin port. What is said is
// compared line by line, once the values that cannot be foreseen are replaced by what kind they
// are; where the two are meant to differ, the test says why.
package words

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/server/admin"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"

	"github.com/lockkeeper/lockkeeper/server"
)

func TestMain(m *testing.M) { os.Exit(apache.Main(m)) }

const (
	sessionTimeout = time.Minute // so that no ping comes between
	askTimeout     = 10 * time.Second
	// agreeTimeout bounds how long the two may differ: connections take a moment to be gone.
	agreeTimeout = 10 * time.Second
	pollInterval = 50 * time.Millisecond
)

// A subject is one of the two servers.
type subject struct {
	name, addr string
	http       string // URL of the admin port, without a path
	dataDir    string
	sessions   [2]int64
	conns      [2]*zk.Conn
}

// start starts both servers, with the admin port, and brings them into the same state. The first is
// Apache ZooKeeper.
func start(t *testing.T) [2]*subject {
	t.Helper()
	ports, err := proc.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(ports[0])
	a := apache.Start(t, apache.Options{Tick: ours.Tick, Config: map[string]string{
		"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": port,
		"forceSync": "yes", // for what is told of it
	}})
	z := &subject{name: "Apache ZooKeeper", addr: a.Addr(), http: "http://127.0.0.1:" + port, dataDir: a.DataDir()}
	z.prepare(t)
	return [2]*subject{z, startOurs(t)}
}

// startOurs starts our server alone.
func startOurs(t *testing.T) *subject {
	t.Helper()
	dir := t.TempDir()
	o := ours.Start(t, server.Options{DataDir: dir})
	h := httptest.NewServer(admin.Handler(o.Server, admin.Options{}))
	t.Cleanup(h.Close)
	s := &subject{name: "our server", addr: o.Addr(), http: h.URL, dataDir: dir}
	s.prepare(t)
	return s
}

// prepare opens two sessions with ephemerals and watches of all kinds.
func (s *subject) prepare(t *testing.T) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatalf("%s: %v", s.name, err)
		}
	}
	for i := range s.conns {
		c, events, err := zk.Connect([]string{s.addr}, sessionTimeout, zk.WithLogger(silent{}))
		must(err)
		t.Cleanup(c.Close)
		for ev := range events {
			if ev.State == zk.StateHasSession {
				break
			}
		}
		s.conns[i], s.sessions[i] = c, c.SessionID()
	}
	first, second := s.conns[0], s.conns[1]
	for _, n := range []struct {
		path  string
		flags int32
	}{{"/n", 0}, {"/n/child", 0}, {"/eph", zk.FlagEphemeral}, {"/eph2", zk.FlagEphemeral}} {
		_, err := first.Create(n.path, []byte("data"), n.flags, zk.WorldACL(zk.PermAll))
		must(err)
	}
	_, _, _, err := first.GetW("/n")
	must(err)
	_, _, _, err = first.ExistsW("/missing")
	must(err)
	_, _, _, err = first.ChildrenW("/n")
	must(err)
	_, _, _, err = second.GetW("/n")
	must(err)
}

// silent is a logger for go-zookeeper.
type silent struct{}

func (silent) Printf(string, ...any) {}

// ask asks a four-letter word, as monitoring does: it ends its own side first.
func (s *subject) ask(t *testing.T, word string) string {
	t.Helper()
	nc, err := net.DialTimeout("tcp", s.addr, askTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(askTimeout))
	io.WriteString(nc, word)
	nc.(*net.TCPConn).CloseWrite()
	b, err := io.ReadAll(nc)
	if err != nil {
		t.Fatalf("%s, %s: %v", s.name, word, err)
	}
	return string(b)
}

// get asks the admin port.
func (s *subject) get(t *testing.T, path string) (status int, contentType, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), askTimeout)
	defer cancel()
	r, body := s.request(t, ctx, http.MethodGet, path)
	if r.StatusCode == http.StatusMethodNotAllowed { // our server changes nothing by GET
		r, body = s.request(t, ctx, r.Header.Get("Allow"), path)
	}
	return r.StatusCode, r.Header.Get("Content-Type"), body
}

func (s *subject) request(t *testing.T, ctx context.Context, method, path string) (*http.Response, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(ctx, method, s.http+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatalf("%s, %s: %v", s.name, path, err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%s, %s: %v", s.name, path, err)
	}
	return r, string(b)
}

// agree asks both until they say the same, tidied up, and fails if they do not within some time.
func agree(t *testing.T, both [2]*subject, what string, ask func(*subject) string) {
	t.Helper()
	for deadline := time.Now().Add(agreeTimeout); ; time.Sleep(pollInterval) {
		a, o := ask(both[0]), ask(both[1])
		if a == o {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: Apache ZooKeeper says\n%s\nour server says\n%s", what, a, o)
			return
		}
	}
}

// tidy replaces what differs from run to run, or is different on purpose, by what kind of thing it is.
func (s *subject) tidy(text string) string {
	for i, id := range s.sessions {
		name := "SESSION-" + string(rune('A'+i))
		text = strings.ReplaceAll(text, fmt.Sprintf("0x%x", id), name)
		text = strings.ReplaceAll(text, fmt.Sprint(id), name)
	}
	text = strings.ReplaceAll(text, s.dataDir, "DIR")
	for _, r := range replacements {
		text = r.pattern.ReplaceAllString(text, r.by)
	}
	return text
}

type replacement struct {
	pattern *regexp.Regexp
	by      string
}

func replace(pattern, by string) replacement { return replacement{regexp.MustCompile(pattern), by} }

var replacements = []replacement{
	replace(`\d+\.\d+\.\d+-[\w.${}]+, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC`, "VERSION"),
	replace(`[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d [A-Z]+ \d{4}`, "DATE"),
	replace(`127\.0\.0\.1:\d+`, "ADDRESS"),
	replace(`(?m)^(Latency min/avg/max:) \d+/\d+\.\d{1,4}/\d+$`, "$1 N/N.N/N"),
	replace(`(?m)^(Received|Sent): \d+$`, "$1: N"),                               // the tests have asked before
	replace(`\b(recved|sent|est|lresp|llat|minlat|avglat|maxlat)=\d+\b`, "$1=N"), // go-zookeeper may ping
	replace(`(?m)^(clientPort|dataDirSize|dataLogSize)=\d+$`, "$1=N"),            // our logs grow in other steps
	replace(`(?m)^(datadir_size|logdir_size): \d+$`, "$1: N"),                    //
	replace(`(?m)^\d+ expire at DATE:\n`, ""),                                    // ticks fall where they fall
	replace(`Sets \(\d+\)/`, "Sets (N)/"),                                        //
	replace(`("(?:client_port|data_dir_size|log_dir_size|datadir_size|logdir_size|uptime|timestamp|established|last_response_time|last_latency|(?:min|max|avg)_latency|packets_\w+)" : )\d+\b`, "${1}N"),
	replace(`("avg_latency" : )N\.\d+`, "${1}N.N"),
	replace(`"\d+" : (\[ SESSION)`, `"TIME" : $1`),
}

// sortLines sorts lines that begin alike and stand together: their order is that of a hash table.
func sortLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		j := i + 1
		for lines[i] != "" && (lines[i][0] == '\t' || lines[i][0] == ' ') && j < len(lines) && lines[j] != "" && lines[j][0] == lines[i][0] {
			j++
		}
		slices.Sort(lines[i:j])
		i = j
	}
	return strings.Join(lines, "\n")
}

// sortBlocks sorts blocks of a line with indented lines below it.
func sortBlocks(text string) string {
	text, end := strings.TrimSuffix(text, "\n\n"), "\n\n"
	blocks := strings.Split(strings.ReplaceAll(sortLines(text), "\n\t", "\x00\t"), "\n")
	slices.Sort(blocks)
	return strings.ReplaceAll(strings.Join(blocks, "\n"), "\x00\t", "\n\t") + end
}
