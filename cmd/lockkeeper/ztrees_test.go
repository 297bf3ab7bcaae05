//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ptytest"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// mv tells how many ephemerals keep a tree where it is, also of more than are named elsewhere.
func TestZMvCountsAllEphemerals(t *testing.T) {
	t.Parallel()
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	ops := []client.Op{client.OpCreate("/t", nil, zk.Persistent, nil)}
	for i := range 1001 {
		ops = append(ops, client.OpCreate(fmt.Sprintf("/t/%d", i), nil, zk.Ephemeral, nil))
	}
	_, err := s.Multi(t.Context(), ops...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&zEnv{}).moveLarge(t.Context(), s, "/t", "/u")
	if err == nil || !strings.Contains(err.Error(), "(1001 of them; nothing has been done)") {
		t.Errorf("the move ends with %v", err)
	}
}

func TestZTrees(t *testing.T) {
	t.Parallel()
	h, _ := newZHome(t)
	other := zktest.New(t, zktest.Options{})
	b := other.Addr()
	if err := os.WriteFile(h.dir+"/half", []byte(`{"format":"lockkeeper-tree","version":1}`+"\n"+`{"path":"/x"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	link, behind := h.dir+"/link", h.dir+"/behind"
	if err := errors.Join(os.WriteFile(behind, nil, 0o600), os.Symlink(behind, link)); err != nil {
		t.Fatal(err)
	}
	h.env = append(h.env, "XDG_CONFIG_HOME="+h.dir+"/config")
	if err := os.MkdirAll(h.dir+"/config/lockkeeper", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.dir+"/config/lockkeeper/connections", []byte("prod "+b+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.steps("z", []zStep{
		{line: "create -p /app/config one", out: "/app/config\n"},
		{line: "create /app/acl --with-acl world:anyone:r", out: "/app/acl\n"},
		{line: "cp /app /copy", err: "3 znodes copied"},
		{line: "diff /app /copy"},
		{line: "cp /app /copy", status: 1, err: "; nothing has been copied (--existing skip or overwrite goes on)"},
		{line: "cp --existing skip /app /copy", err: "0 znodes copied, 3 were there"},
		{line: "cp --existing maybe /app /copy", status: 64, err: "it is fail, skip or overwrite"},
		{line: "cp /app /app/inside", status: 64, err: "one is within the other"},
		{line: "cp /missing /copy2", status: 1, err: "no such znode; nothing has been copied"},
		{line: "cp ./nosuch:/x /copy2", status: 1, err: "/nosuch:/x: no such znode"},
		{line: "cp --connect-timeout 3s nosuch:/x /copy2", status: 69, err: h.dir + "/config/lockkeeper/connections has no line for nosuch, which was taken for a host"},
		{line: "cp unix:/run /copy2", status: 64, err: "the path of a znode is missing (unix:/run:/PATH;"},
		{line: "cp zk://x/y /copy2", status: 64, err: "a server is host:port, without zk://"},
		{line: "ls prod:/app", status: 64, err: "(--servers " + b + " names other servers;"},
		{line: "cp /app " + b + ":/there/", err: "3 znodes copied"},
		{line: "ls /there --servers " + b, out: "app\n"},
		{line: "set /app/config two"},
		{line: "create /app/new", out: "/app/new\n"},
		{line: "diff /app " + b + ":/there/app", status: 1, out: "~ /config  two → one\n- /new\n", err: "2 znodes differ"},
		{line: "diff --json " + b + ":/there/app /app", status: 1, out: `{"path":"/config","data":true}` + "\n" + `{"path":"/new","in":"b"}` + "\n"},
		{line: "mirror /app " + b + ":/there/app", out: "set    /there/app/config\ncreate /there/app/new\n", err: "would be done: 1 created, 1 set"},
		{line: "mirror --apply /app " + b + ":/there/app", err: "done: 1 created, 1 set"},
		{line: "mirror --apply --json /app " + b + ":/there/app", out: `{"acls_set":0,"created":0,"deleted":0,"kept":0,"left_out":0,"set":0}` + "\n"},
		{line: "mirror --rate -1 /app /x", status: 64, err: "it is a number of znodes a second"},
		{line: "cp --rate 50 /app /slow", err: "4 znodes copied"},
		{line: "cp " + b + ":/there /", err: "5 znodes copied"}, // as with every target that ends with a slash
		{line: "rm -r -f /there", err: "5 znodes deleted"},
		{line: "diff /app " + b + ":/there/app"},
		{line: "mirror --apply --delete /copy prod:/there/app", err: "0 ACLs set, 1 deleted\n"},
		{line: "diff /app/config /copy/config", status: 1, out: "~ /  two → one\n", err: ": 1 znode differs\n"},
		{line: "mirror /copy " + b + ":/new/place", out: "create /new/place\ncreate /new/place/acl\ncreate /new/place/config\n", err: "would be done: 3 created, 0 set"},
		{line: "mirror --apply /copy " + b + ":/new/place", err: "done: 3 created, 0 set"},
		{line: "mirror --apply --plan /copy /x", status: 64, err: "one of them will do"},
		{line: "diff /copy zk://x:/x", status: 64, err: "a server is host:port"},
	})
	h.steps("z", []zStep{
		{line: "mv /copy /moved0", err: "3 znodes moved"},
		{line: "mv --json /moved0 /moved", out: `{"from":"/moved0","to":"/moved","znodes":3}` + "\n"},
		{line: "get /moved/config", out: "one"},
		{line: "mv /moved /moved/in", status: 64, err: "one is within the other"},
		{line: "mv /copy /x", status: 1, err: "no such znode"},
		{line: "mv /app " + b + ":/x", status: 64, err: "mv works on the usual servers only"},
		{line: "mv /moved /app", status: 1, err: "exists"},
		{line: "export /app -o " + h.dir + "/app.gz", err: "4 znodes exported"},
		{line: "export --json /app/config -o " + h.dir + "/config.gz", out: `{"file":"` + h.dir + `/config.gz","left_out":0,"path":"/app/config","znodes":1}` + "\n"},
		{line: "export /app/config -o /dev/stdout", out: `{"format":"lockkeeper-tree"` + "…"}, // a pipe, and no file to replace
		{line: "export /app/config -o " + link, err: "1 znode exported"},
		{line: "import -n " + behind, err: "an export of lockkeeper with 1 znode"},
		{line: "import -n --json " + h.dir + "/config.gz", out: `{"file":"` + h.dir + `/config.gz","format":"lockkeeper","znodes":1}` + "\n"},
		{line: "export /missing -o " + h.dir + "/missing.gz", status: 1, err: "no such znode"},
		{line: "export /app -o " + h.dir + "/none/app.gz", status: 71, err: "none/app.gz: no such file or directory"},
		{line: "import -n " + h.dir + "/app.gz", err: "an export of lockkeeper with 4 znodes"},
		{line: "import " + h.dir + "/app.gz /app", status: 1, err: "goes on"},
		{line: "import " + h.dir + "/app.gz /again", err: "4 znodes imported"},
		{line: "diff /app /again"},
		{line: "export /app/acl -o " + h.dir + "/acl", err: "1 znode exported"},
		{line: "import --existing skip " + h.dir + "/acl /deep/acl", err: "1 znode imported"},
		{line: "acl get /deep/acl", out: "world:anyone:r\n"},
		{line: "import " + h.dir + "/half /half", status: 64, err: "the file ends in the middle: it is half an export (nothing has been written)"},
		{line: "ls /half", status: 1, err: "no such znode"},
		{line: "import " + h.dir + "/nothing /x", status: 71, err: "no such file"},
		{line: "import " + h.dir + " /x", status: 71, err: "is a directory"},
		{line: "import - /streamed", in: `{"format":"lockkeeper-tree","version":1}` + "\n" + `{"path":"/x"}` + "\n", status: 64, err: "half an export; znodes imported before that: 1 (--existing skip goes on)"},
		{line: "export /app/config", out: `{"format":"lockkeeper-tree","version":1,"root":"/app/config"}` + "\n" + `{"path":"/","text":"two"}` + "\n" + `{"end":true,"znodes":1}` + "\n"},
		{line: "import - /garbage", in: "garbage", status: 64, err: "import -: the format is not known (it begins with 'g'; known are exports of lockkeeper, zk_shell, zoocreeper, ZooNavigator and zkui); nothing has been imported\n"},
		{line: "import - /garbage", in: `{"/a":{"content":1}}`, status: 64, err: "import -: zk_shell export: /a: \"content\": a JSON number, which the format does not have there; nothing has been imported\n"},
		{line: "import - /z", in: "/cfg=key=value\n", err: "2 znodes imported"},
		{line: "get /z/cfg/key", out: "value"},
	})
	if left, _ := os.ReadDir(h.dir); len(left) == 0 {
		t.Error("the export is not there")
	}
	if _, err := os.Stat(h.dir + "/missing.gz"); err == nil {
		t.Error("an export that failed has left a file")
	}
}

// Servers have many names. A copy of their data is another ensemble.
func TestZTreesOfServersThatAreNamedInTwoWays(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	first, a := h.server("--data", h.dir+"/a", "--listen", "127.0.0.1:0")
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+a, "XDG_CONFIG_HOME="+h.dir)
	h.steps("z", []zStep{
		{line: "create -p /src/app/sub 1", out: "…"},
		{line: "create /src/app/other precious", out: "…"},
	})
	first.signal(syscall.SIGTERM)
	first.want(0)
	err := os.CopyFS(h.dir+"/b", os.DirFS(h.dir+"/a"))
	if err != nil {
		t.Fatal(err)
	}
	h.server("--data", h.dir+"/a", "--listen", a)
	_, b := h.server("--data", h.dir+"/b", "--listen", "127.0.0.1:0")
	_, port, _ := strings.Cut(a, ":")
	err = errors.Join(os.MkdirAll(h.dir+"/lockkeeper", 0o700),
		os.WriteFile(h.dir+"/lockkeeper/connections", []byte("app "+a+"/src/app\ncopy "+b+"\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	const refused = "one is within the other: both are on the same servers (nothing has been written)"
	h.steps("z", []zStep{
		{line: "mirror --apply --delete " + a + ":/src/app/sub /src/app", status: 64, err: refused},
		{line: "mirror --apply --delete /src/app/sub localhost:" + port + ":/src/app", status: 64, err: refused},
		{line: "mirror --apply --delete app:/sub /src/app", status: 64, err: refused},
		{line: "mirror --apply --delete app:/ " + a + ":/src/app/sub", status: 64, err: refused},
		{line: "mirror app:/ /src/app", status: 64, err: refused},
		{line: "cp / " + a + ":/all", status: 64, err: refused},
		{line: "cp --servers " + a + "/src / app:/other/", status: 64, err: refused},
		{line: "cp app:/sub /src/app2", err: "1 znode copied"}, // /sub and /src/app2 do not lie in each other
		{line: "diff /src/app app:/"},
		{line: "ls -R /src", out: "/src\n/src/app\n/src/app/other\n/src/app/sub\n/src/app2\n"},
		{line: "mirror --apply --delete copy:/src /src", err: "1 deleted"},
		{line: "cp app:/ copy:/src/app/copied", err: "3 znodes copied"},
		{line: "mirror --apply copy:/ /", err: "3 created"},
		{line: "ls -R /src/app", out: "/src/app\n/src/app/copied\n/src/app/copied/other\n/src/app/copied/sub\n/src/app/other\n/src/app/sub\n"},
	})
}

// A tree that does not fit into one transaction is moved too.
func TestZMvOfALargeTree(t *testing.T) {
	t.Parallel()
	h, srv := newZHome(t)
	s := srv.Session(t, "s")
	fillWide(t, s, 1000)
	h.steps("z", []zStep{
		{line: "mv /wide /narrow", err: "1001 znodes moved"},
		{line: "ls /wide", status: 1, err: "no such znode"},
		{line: "du -L 0 /narrow", out: "           0      1001  /narrow\n"},
	})
	if _, err := s.Create(t.Context(), "/narrow/mine", nil, zk.Ephemeral, nil); err != nil {
		t.Fatal(err)
	}
	h.steps("z", []zStep{{line: "mv /narrow /wide", status: 1, err: "it has ephemeral znodes, which cannot be moved"}})
}

// BenchmarkZTree100k is tree of 100,000 znodes, and BenchmarkZExport1M an export of a million, from the start of the
// command to its exit. The server is in this process.
func BenchmarkZTree100k(b *testing.B) {
	benchmarkZ(b, 100_000, "tree", "/")
}

func BenchmarkZExport1M(b *testing.B) {
	benchmarkZ(b, 1_000_000, "export", "/", "-o", b.TempDir()+"/export")
}

func benchmarkZ(b *testing.B, znodes int, args ...string) {
	h, srv := newZHome(b)
	s := srv.Session(b, "s")
	for dir := range znodes / 1000 {
		ops := []client.Op{client.OpCreate(fmt.Sprintf("/%04d", dir), nil, zk.Persistent, nil)}
		for i := range 999 {
			ops = append(ops, client.OpCreate(fmt.Sprintf("/%04d/%04d", dir, i), []byte("a hundred bytes of data, or thereabouts, as znodes have them: host, port, pid, time"), zk.Persistent, nil))
		}
		if _, err := s.Multi(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	var rss int64
	for b.Loop() {
		j := h.start(append([]string{"z"}, args...)...)
		for ended := false; !ended; {
			rss = max(rss, peakKiB(j.cmd.Process.Pid))
			select {
			case <-j.done:
				ended = true
			case <-time.After(10 * time.Millisecond):
			}
		}
		if status := j.status(); status != 0 {
			b.Fatalf("exit status %d: %s", status, j.stderr)
		}
	}
	b.ReportMetric(float64(rss>>10), "MB-rss")
}

// peakKiB returns how much memory a process has had at most; what the kernel tells its parent counts the parent too.
func peakKiB(pid int) (kib int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(status), "VmHWM:"); ok {
		fmt.Sscan(rest, &kib)
	}
	return kib
}

// Long work shows at a terminal how far it has come, and leaves nothing of that behind.
func TestZProgressAtATerminal(t *testing.T) {
	term := ptytest.Open(t)
	slave := term.Slave()
	defer slave.Close()
	e := &zEnv{notes: slave}
	progress := e.progress("copied", 1000)
	for !e.unfinished { // until progressInterval has passed
		progress(500)
	}
	e.notef("done")
	term.WaitFor("500 of 1000 copied, 50%")
	term.WaitFor("\r\x1b[Klockkeeper: done")
	if (&zEnv{notes: io.Discard}).progress("copied", 0) != nil {
		t.Error("there is progress without a terminal")
	}
}

// A server that a mirror writes to goes away for good in the middle, and a mirror is interrupted: both end, and say what was done.
func TestAMirrorThatIsCutOffSaysWhatWasDone(t *testing.T) {
	t.Parallel()
	for name, interrupt := range map[string]bool{"server": false, "interrupt": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, srv := newZHome(t)
			from, err := client.Open(t.Context(), srv.Addr(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close(t.Context())
			for i := range 2000 {
				if _, err := from.Create(t.Context(), fmt.Sprintf("/n%04d", i), nil, zk.Persistent, nil); err != nil {
					t.Fatal(err)
				}
			}
			target, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
			j := h.start("z", "mirror", "--apply", "--rate", "200", "/", address+":/")
			other, err := client.Open(t.Context(), address, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close(t.Context())
			for { // some of it has been done
				_, there, err := other.Exists(t.Context(), "/n0000")
				if err != nil {
					t.Fatal(err)
				}
				if there {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			if interrupt {
				j.signal(syscall.SIGINT)
				j.wantInterrupted("mirrored", "the same command goes on")
				return
			}
			target.signal(syscall.SIGKILL)
			j.want(69, "mirrored", "the same command goes on", "no server for 10s")
		})
	}
}
