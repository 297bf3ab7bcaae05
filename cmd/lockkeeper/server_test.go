//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

var servingAt = regexp.MustCompile(`msg=serving address=(\S+)`)

// serverOn starts a server and returns it with its address.
func (h *home) server(args ...string) (*job, string) {
	h.t.Helper()
	j := h.start(append([]string{"server"}, args...)...)
	if err := j.stderr.see("msg=serving"); err != nil {
		h.t.Fatalf("%v: %s", err, j.stderr)
	}
	return j, servingAt.FindStringSubmatch(j.stderr.String())[1]
}

func TestServerServesAndEndsInPeace(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	h.run("run", "--servers", address, "demo", "--", "sh", "-c", `test "$LOCKKEEPER_SERVERS" = `+address).want(0)
	h.run("status", "--servers", address, "127.0.0.1:1").want(64, "leave out one")
	if out := h.run("status", address).want(0).stdout.String(); !strings.Contains(out, "standalone") {
		t.Errorf("status: %s", out)
	}
	for _, servers := range [][]string{{address, "127.0.0.1:1"}, {address + ",127.0.0.1:1/app"}} {
		out := h.run(append([]string{"status"}, servers...)...).want(1, "1 of 2").stdout.String()
		if !strings.Contains(out, "standalone") || !strings.Contains(out, "no answer") || !strings.Contains(out, " connect: connection refused") || strings.Contains(out, "dial") {
			t.Errorf("status %q: %s", servers, out)
		}
	}
	h.run("server", "--data", h.dir+"/other", "--listen", address).want(71, address, "in use", "--listen")
	holder := h.start("run", "--servers", address, "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	j.signal(syscall.SIGTERM)
	j.want(0)
	holder.signal(syscall.SIGKILL)
}

// The process that keeps a session works in another directory than its user.
func TestASocketInThePresentDirectory(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	address := "unix:" + h.dir + "/s"
	h.server("--data", h.dir+"/data", "--listen", address)
	for _, servers := range []string{"unix:s", "127.0.0.1:1,unix:./s"} {
		h.run("run", "--servers", servers, "demo", "--", "sh", "-c", `test "${LOCKKEEPER_SERVERS##*,}" = `+address).want(0)
	}
	h.run("hold", "--servers", "unix:./s", "--lease", "1h", "demo").want(0)
	h.run("release", "--servers", address, "demo").want(0)
}

// A server that says that it serves nothing has answered.
func TestStatusOfAServerThatDoesNotServe(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			io.ReadFull(c, make([]byte, len("srvr")))
			io.WriteString(c, "This ZooKeeper instance is not currently serving requests\n")
			c.Close()
		}
	}()
	j := newHome(t).run("status", listener.Addr().String()).want(69, "no server serves")
	if out := j.stdout.String(); !strings.Contains(out, "  not serving  ") || strings.Contains(out, "no answer") {
		t.Errorf("status prints %q", out)
	}
}

func TestServerOnASocketTakesTheOneOfADeadServer(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	args := []string{"--data", h.dir + "/data", "--listen", "unix:" + h.dir + "/s"}
	j, _ := h.server(args...)
	h.run(append([]string{"server"}, "--data", h.dir+"/b", "--listen", "unix:"+h.dir+"/s")...).want(71, "in use")
	j.signal(syscall.SIGKILL)
	j.status()
	h.server(args...)
	h.run("run", "--servers", "unix:"+h.dir+"/s", "demo", "--", "true").want(0)
}

func TestServerReadsZooCfg(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	cfg := h.dir + "/zoo.cfg"
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tickTime=100\ninitLimit=10\nfrob=1\nadmin.serverPort=0\nforceSync=no\nclientPort=0\nclientPortAddress=127.0.0.1\ndataDir=" + h.dir + "/zk\n4lw.commands.whitelist=ruok\n")
	j, address := h.server("--config", cfg)
	for _, want := range []string{"initLimit", "frob (" + cfg + ":3)", "forceSync=no", "admin=127.0.0.1:", "unlike ZooKeeper"} {
		if !strings.Contains(j.stderr.String(), want) {
			t.Errorf("the log has no %q: %s", want, j.stderr)
		}
	}
	h.run("run", "--servers", address+"/chroot", "demo", "--", "sh", "-c", "exit 3").want(64, "lockkeeper: lock /lockkeeper/locks/demo: create /: the chroot /chroot is missing")
	h.run("slots", "--servers", address+"/chroot", "demo", "3").want(64, address+"/chroot: the chroot does not exist")
	for _, command := range []string{"locks", "locks --watch", "locks demo", "revoke demo", "break --force demo", "members g", "members --watch g",
		"discover s", "config get c", "config set c v", "config watch c", "join g -- true", "register s --port 1 -- true"} {
		words := strings.Fields(command)
		h.run(append([]string{words[0], "--servers", address + "/chroot"}, words[1:]...)...).want(64, "the chroot does not exist")
	}
	if _, err := os.Stat(h.dir + "/zk/version-2"); err != nil {
		t.Errorf("the data directory: %v", err)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("ruok"))
	answer := make([]byte, 8)
	if n, err := c.Read(answer); err != nil || string(answer[:n]) != "imok" {
		t.Errorf("ruok: %q, %v", answer[:n], err)
	}

	write("dataDir=/x\nclientPort=2181\nserver.1=a:2888:3888\nserver.2=b:2888:3888\n")
	h.run("server", "--config", cfg).want(78, cfg+":3", "Apache ZooKeeper", "ensemble grow --from DIR")
	write("dataDir=/x\ntickTime=soon\n")
	h.run("server", "--config", cfg).want(78, cfg+":2", "tickTime=soon", "milliseconds")
	write("dataDir=/x\n")
	h.run("server", "--config", cfg).want(78, cfg, "clientPort")
	write("dataDir=/x\nclientPort=0\nclientPortAddress=no.such.host.invalid.\nadmin.enableServer=false\n")
	h.run("server", "--config", cfg).want(71, "server: clientPort: ", "no.such.host.invalid")
	write("dataDir=/x\n")
	h.run("server", "--config", cfg, "--set", "clientPort=\x1b[31mred").want(64, "--set: clientPort=?[31mred")
	h.run("server", "--config", cfg, "--set", "clientPort=many").want(64, "--set: clientPort=many")
	h.run("server", "--config", cfg, "--set", "secureClientPort=0").want(78, "ssl.keyStore.location")
	h.run("server", "--set", "nonsense").want(64, "KEY=VALUE")
	h.run("server", "--config", cfg, "--set", "ticktime=200").want(64, "--set ticktime", "no such setting")
	write("no\nconfiguration at all\nbut \x01 something\nelse\n")
	h.run("server", "--config", cfg).want(78, "dataDir is missing; not understood:", `"no" (`+cfg+`:1)`, `"configuration" (`+cfg+`:2)`, "and 1 more")
	h.run("server", "--config", "/no/such/zoo.cfg").want(78, "/no/such/zoo.cfg")
	h.run("server").want(64, "--data")
	h.run("server", "--local", "--data", h.dir+"/zk").want(64, "--local and --data")
	h.run("server", "--data", h.dir+"/zk", "--idle", "1s").want(64, "--idle needs --local")
	h.run("server", "--local", "--idle", "-1s").want(64, "--idle -1s")
	h.run("server", "--data", h.dir+"/other", "--listen", "127.0.0.1:0", "--set", "admin.enableServer=true", "--set", "admin.serverAddress=127.0.0.1",
		"--set", "admin.serverPort="+address[strings.LastIndex(address, ":")+1:]).want(71, "in use", "admin.serverPort")
	h.run("server", "--data", "/proc/nowhere", "--listen", "127.0.0.1:0").want(73, "/proc/nowhere")
	for _, wrong := range []string{"", "nonsense", "host:99999", "host:many", "127.0.0.1:", "unix:", "unix:/" + strings.Repeat("long", 100)} {
		h.run("server", "--data", h.dir+"/d", "--listen", wrong).want(64, "--listen", strings.TrimPrefix(wrong, "unix:"))
	}
	h.run("server", "--data", "", "--config", cfg).want(64, "--data", "empty")
	h.run("server", "--data", h.dir+"/d", "--set", "secureClientPort=0").want(64, "ssl.keyStore.location")
	h.run("server", "--local", "--data", "/x").want(64, "local")
}

// A pipe without a writer keeps no server from saying what is wrong.
func TestServerWaitsForNoPipe(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	pipe := h.dir + "/data/version-2/snapshot.1"
	if err := os.MkdirAll(h.dir+"/data/version-2", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("server", "--config", pipe).want(78, "dataDir is missing")
	h.run("server", "--data", h.dir+"/data", "--listen", "127.0.0.1:0").want(73, pipe, "not a regular file")
	h.run("server", "check", h.dir+"/data").want(1, "not a regular file")
}

// A signal need not wait until all is read.
func TestServerEndsWhileItReads(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const sessions = 1 << 30 // all of one id, so that they take nothing but time
	var b bytes.Buffer
	write := func(data []byte) {
		z := gzip.NewWriter(&b)
		z.Write(data)
		z.Close()
	}
	write(binary.BigEndian.AppendUint32([]byte("ZKSN\x00\x00\x00\x02\xff\xff\xff\xff\xff\xff\xff\xff"), sessions))
	end := b.Len()
	write(make([]byte, 12<<20))
	some := bytes.Clone(b.Bytes()[end:])
	for range sessions >> 20 {
		b.Write(some)
	}
	if err := os.MkdirAll(h.dir+"/data/version-2", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(h.dir+"/data/version-2/snapshot.1.gz", b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	j := h.start("server", "--data", h.dir+"/data", "--listen", "127.0.0.1:0", "--set", "forceSync=no")
	if err := j.stderr.see("forceSync=no"); err != nil { // which is said before anything is read
		t.Fatal(err)
	}
	j.signal(syscall.SIGTERM)
	j.want(-1)
}

// Connections, however many come, leave the descriptors that the log needs.
func TestServerKeepsDescriptorsForItsLog(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j := h.startWith(func(c *exec.Cmd) {
		c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 64 && exec "$0" "$@"`}, c.Args...)
	}, "server", "--data", h.dir+"/data", "--listen", "127.0.0.1:0", "--set", "maxClientCnxns=0", "--set", "snapCount=4")
	if err := j.stderr.see("msg=serving"); err != nil {
		t.Fatal(err)
	}
	address := servingAt.FindStringSubmatch(j.stderr.String())[1]
	s, err := client.Open(t.Context(), address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	for range 200 {
		if c, err := net.Dial("tcp", address); err == nil {
			defer c.Close()
		}
	}
	if err := j.stderr.see("descriptors short"); err != nil {
		t.Error(err)
	}
	for i := range 50 {
		if _, err := s.Set(t.Context(), "/", nil, zk.AnyVersion); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if strings.Contains(j.stderr.String(), "no snapshot could be written") {
		t.Error("no snapshot was written")
	}
}

// A file that is no socket is not taken for the rest of a dead server.
func TestServerDeletesNoFileThatIsInItsPlace(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	path := h.dir + "/letter"
	if err := os.WriteFile(path, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run("server", "--data", h.dir+"/data", "--listen", "unix:"+path).want(71, path, "no socket", "--listen")
	if b, err := os.ReadFile(path); err != nil || string(b) != "dear" {
		t.Errorf("the file: %q, %v", b, err)
	}
}

// attr returns the value of an attribute in a log.
func attr(t *testing.T, log, name string) string {
	t.Helper()
	m := regexp.MustCompile(` ` + name + `=(\S+)`).FindStringSubmatch(log)
	if m == nil {
		t.Fatalf("no %s= in %s", name, log)
	}
	return m[1]
}

func TestServerByFlagsAlone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	key := h.dir + "/key.pem"
	writeKey(t, key)
	j, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0", "--set", "tickTime=200", "--set", "zookeeper.4lw.commands.whitelist=*",
		"--set", "secureClientPort=0", "--set", "secureClientPortAddress=127.0.0.1", "--set", "ssl.clientAuth=none", "--set", "ssl.keyStore.location="+key,
		"--set", "admin.enableServer=true", "--set", "admin.serverPort=0", "--set", "admin.commandURL=/cmd", "--set", "enforceQuota=true",
		"--set", "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
		"--set", "metricsProvider.httpPort=0", "--set", "metricsProvider.httpHost=127.0.0.1")
	log := j.stderr.String()
	ask := func(c net.Conn, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		io.WriteString(c, "conf")
		answer, _ := io.ReadAll(c)
		return string(answer)
	}
	if got := ask(net.Dial("tcp", address)); !strings.Contains(got, "tickTime=200") {
		t.Errorf("conf: %q", got)
	}
	if got := ask(tls.Dial("tcp", attr(t, log, "secure"), &tls.Config{InsecureSkipVerify: true})); !strings.Contains(got, "tickTime=200") {
		t.Errorf("conf over TLS: %q", got)
	}
	for url, want := range map[string]string{
		"http://" + attr(t, log, "admin") + "/cmd/ruok":      "200 ruok",
		"http://" + attr(t, log, "admin") + "/healthz":       "200 ok",
		"http://" + attr(t, log, "metrics") + "/metrics":     "200 znode_count",
		"http://" + attr(t, log, "metrics") + "/cmd/ruok":    "404",
		"http://" + attr(t, log, "admin") + "/commands/ruok": "404",
	} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		status, word, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(resp.Status, status) || !strings.Contains(string(body), word) {
			t.Errorf("%s: %s %.200s, want %s", url, resp.Status, body, want)
		}
	}
	j.signal(syscall.SIGTERM)
	j.want(0)
}

// writeKey makes a key with a certificate that vouches for itself.
func writeKey(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A server goes on without an admin port that was not asked for, and not without one that was.
func TestATakenAdminPort(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	h.run("server", "--data", h.dir+"/d", "--listen", "127.0.0.1:0", "--set", "admin.enableServer=true",
		"--set", "admin.serverPort="+strings.TrimPrefix(taken.Addr().String(), "127.0.0.1:")).want(71, "in use")
	cfg := h.dir + "/zoo.cfg"
	if err := os.WriteFile(cfg, []byte("clientPort=0\nclientPortAddress=127.0.0.1\ndataDir="+h.dir+"/zk\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.server("--config", cfg)
	h.server("--config", cfg, "--data", h.dir+"/other") // one of the two at least cannot have the default
}

// The service manager learns of the readiness when clients can come, and of the end before it.
func TestServerTellsSystemd(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "@"} {
		h := newHome(t)
		name += h.dir + "/notify"
		if name[0] == '@' {
			name = "@" + strings.ReplaceAll(name[1:], "/", "-")
		}
		manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer manager.Close()
		h.env = append(h.env, "NOTIFY_SOCKET="+name)
		told := func(want string) {
			t.Helper()
			b := make([]byte, 64)
			manager.SetReadDeadline(time.Now().Add(limit))
			if n, err := manager.Read(b); err != nil || string(b[:n]) != want {
				t.Fatalf("the manager at %s is told %q, %v; want %q", name, b[:n], err, want)
			}
		}
		j := h.start("server", "--data", h.dir+"/data", "--listen", "unix:"+h.dir+"/s")
		told("READY=1")
		h.run("status", "unix:"+h.dir+"/s").want(0)
		j.signal(syscall.SIGTERM)
		told("STOPPING=1")
		j.want(0)
	}
}

func TestServerCheck(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	j, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	for range 3 {
		h.run("run", "--servers", address, "demo", "--", "true").want(0)
	}
	j.signal(syscall.SIGTERM)
	j.want(0)
	check := func(status int, words ...string) (r checkReport) {
		t.Helper()
		out := h.run("server", "check", "--json", h.dir+"/data").want(status, words...).stdout.String()
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return r
	}
	r := check(0)
	if !r.Sound || len(r.Logs) != 1 || r.Logs[0].Transactions < 9 || r.Logs[0].First != "0x1" || r.Logs[0].Last != r.Zxid || len(r.Snapshots) != 1 {
		t.Fatalf("a sound directory: %+v", r)
	}
	table := h.run("server", "check", h.dir+"/data").want(0).stdout.String()
	for _, want := range []string{"log.1", "snapshot.0", "transactions", "whole", r.Zxid} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}

	path := r.Logs[0].Path
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(change func([]byte) []byte) {
		t.Helper()
		if err := os.WriteFile(path, change([]byte(string(whole))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil(func(b []byte) []byte { return b[:r.Logs[0].UsedBytes-5] })
	if torn := check(0); !torn.Sound || !torn.Logs[0].Torn || torn.Logs[0].DamageAt == nil || torn.Replay != r.Replay-1 {
		t.Errorf("a torn log: %+v", torn)
	}
	middle := r.Logs[0].UsedBytes / 2
	spoil(func(b []byte) []byte { b[middle] ^= 0xff; return b })
	bad := check(1, path, "byte")
	if bad.Sound || bad.Logs[0].DamageAt == nil || *bad.Logs[0].DamageAt > middle || bad.Error == "" {
		t.Errorf("a damaged log: %+v", bad)
	}
	if table := h.run("server", "check", h.dir+"/data").want(1).stdout.String(); !strings.Contains(table, "DAMAGED at byte") {
		t.Errorf("no damage in\n%s", table)
	}
	h.run("server", "check", h.dir).want(73, h.dir, "version-2")
	h.run("server", "check").want(64)
}
