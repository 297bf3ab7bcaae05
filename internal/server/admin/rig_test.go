package admin

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/bridge"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A rig is a server with one client, whose session owns /e and watches it, and the handler over it.
// It must be made inside a synctest bubble.
type rig struct {
	*server.Server
	http.Handler
	t       *testing.T
	fs      *vfs.Mem
	client  net.Conn
	in      *bufio.Reader
	session int64
}

func start(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, fs: vfs.NewMem()}
	var err error
	r.Server, err = server.Open(bridge.OnDisk(server.Options{DataDir: "/data", PreAllocBytes: 64 << 10}, r.fs))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	network := memnet.New()
	l, err := network.Listen("zk")
	if err != nil {
		t.Fatal(err)
	}
	go r.Serve(l)
	r.Handler = Handler(r.Server, Options{Configuration: "dataDir=/data\n"})
	if r.client, err = network.DialAs(t.Context(), "c", "zk"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.client.Close() })
	r.in = bufio.NewReader(r.client)
	if err := wire.WriteRecord(r.client, &wire.ConnectRequest{Timeout: 10000}); err != nil {
		t.Fatal(err)
	}
	var a wire.ConnectResponse
	if err := wire.Unmarshal(r.answer(), &a); err != nil {
		t.Fatal(err)
	}
	r.session = a.SessionID
	r.send(wire.OpCreate, &wire.CreateRequest{Path: "/e", Data: []byte("x"), ACL: zk.OpenACL(), Mode: zk.Ephemeral})
	r.answer()
	r.send(wire.OpGetData, &wire.WatchRequest{Path: "/e", Watch: true})
	r.answer()
	return r
}

func (r *rig) send(op wire.Op, q wire.Record) {
	r.t.Helper()
	b, start := wire.BeginFrame(nil)
	h := wire.RequestHeader{Xid: 1, Op: op}
	if _, err := r.client.Write(wire.EndFrame(q.AppendTo(h.AppendTo(b)), start)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) answer() []byte {
	r.t.Helper()
	b, err := wire.ReadFrame(r.in, nil, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// hangDisk makes the next sync wait until release is called.
func (r *rig) hangDisk() (release func()) {
	gate := make(chan struct{})
	r.fs.SetFault(func(op vfs.Op, _ string, _ int64) error {
		if op == vfs.OpDatasync {
			<-gate
		}
		return nil
	})
	return func() { close(gate) }
}

func (r *rig) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// ask runs a command with the method that it wants.
func (r *rig) ask(name string) *httptest.ResponseRecorder {
	method := http.MethodGet
	if c := byName[name]; c != nil && c.changes {
		method = http.MethodPost
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequest(method, "/commands/"+name, nil))
	return w
}

func TestHealthz(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		want := func(status int, part string) {
			t.Helper()
			w := r.get("/healthz")
			if w.Code != status || !strings.Contains(w.Body.String(), part) || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("/healthz: %d %q, want %d and %q", w.Code, w.Body, status, part)
			}
		}
		want(http.StatusOK, "ok\n")
		release := r.hangDisk()
		r.send(wire.OpCreate, &wire.CreateRequest{Path: "/n", ACL: zk.OpenACL()})
		time.Sleep(time.Minute)
		want(http.StatusServiceUnavailable, "a batch of writes to the log in /data has been going on for 1m0s")
		release()
		r.answer()
		want(http.StatusOK, "ok\n")
		r.Close()
		want(http.StatusServiceUnavailable, "closed")
	})
}

func TestWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		for path, want := range map[string]int{"/": 404, "/command": 404, "/metrics/x": 404, "/commands/ruok": 200, "/commands/x/y": 200} {
			if w := r.get(path); w.Code != want {
				t.Errorf("%s: %d, want %d", path, w.Code, want)
			}
		}
		r.ResetStats()
		before := r.Stats().Received
		r.send(wire.OpExists, &wire.WatchRequest{Path: "/"})
		r.answer()
		for path, method := range map[string]string{
			"/commands": "POST", "/commands/ruok": "POST", "/commands/nonsense": "POST", "/metrics": "POST", "/healthz": "POST",
			"/commands/stat_reset": "GET", "/commands/srst": "GET", "/commands/crst": "HEAD", "/commands/connection_stat_reset": "GET",
		} {
			w := httptest.NewRecorder()
			r.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, http.StatusMethodNotAllowed)
			}
		}
		if got := r.Stats().Received; got != before+1 {
			t.Errorf("%d requests have been received, want %d: a GET has reset the count", got, before+1)
		}
	})
}

func TestCommandPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.Handler = Handler(r.Server, Options{CommandPath: "/zk/admin/"})
		if w := r.get("/zk/admin/ruok"); w.Code != 200 || !strings.Contains(w.Body.String(), `"ruok"`) {
			t.Errorf("ruok at another path: %d %s", w.Code, w.Body)
		}
		if w := r.get("/zk/admin"); !strings.Contains(w.Body.String(), `<a href="/zk/admin/ruok">ruok</a>`) {
			t.Errorf("the list at another path is\n%s", w.Body)
		}
		if w := r.get("/commands/ruok"); w.Code != 404 {
			t.Errorf("/commands/ruok: %d, want 404", w.Code)
		}
	})
}
