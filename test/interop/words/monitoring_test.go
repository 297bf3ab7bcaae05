package words

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"

	"github.com/lockkeeper/lockkeeper/server"
)

// commandTimeout bounds a foreign program; a JVM may take seconds to start.
const commandTimeout = time.Minute

func run(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	return string(out), err
}

// The script that operators and init systems ask greps the port out of zoo.cfg and the mode out of
// srvr, which is all that is allowed by default.
func TestZKServerStatus(t *testing.T) {
	o := ours.Start(t, server.Options{Words: []string{"srvr"}})
	_, port, _ := net.SplitHostPort(o.Addr())
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	text := "dataDir=" + t.TempDir() + "\nclientPort=" + port + "\nclientPortAddress=127.0.0.1\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, "/usr/share/zookeeper/bin/zkServer.sh", "status", config)
	want := "Client port found: " + port + ". Client address: 127.0.0.1. Client SSL: false.\nMode: standalone\n"
	if err != nil || out != want {
		t.Errorf("zkServer.sh status: %v, %q, want %q", err, out, want)
	}
}

// kazoo reads the version out of envi, and answers of words through its own connection.
func TestKazooReadsWords(t *testing.T) {
	o := ours.Start(t, server.Options{})
	out, err := run(t, "/usr/bin/python3", "-c", `
import sys
from kazoo.client import KazooClient
c = KazooClient(hosts=sys.argv[1]); c.start()
print(c.server_version(), c.command(b"ruok"), b"Mode: standalone" in c.command(b"stat").encode())
c.stop()`, o.Addr())
	if want := "(3, 9, 3) imok True\n"; err != nil || out != want {
		t.Errorf("kazoo: %v, %q, want %q", err, out, want)
	}
}

// What follows are the patterns with which others take answers apart.

// Telegraf's input gives up at the first line of mntr that does not match; releases before 1.13 had
// only letters, digits and underscores in names.
func TestTelegrafReadsMntr(t *testing.T) {
	line := regexp.MustCompile(`^zk_(\w+)\s+([\w\.\-]+)`)
	o := startOurs(t)
	fields := map[string]int64{}
	state := ""
	for l := range strings.Lines(o.ask(t, "mntr\n")) {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Fatalf("mntr: Telegraf gives up at %q", l)
		}
		if m[1] == "server_state" {
			state = m[2]
		}
		if n, err := strconv.ParseInt(m[2], 10, 64); err == nil {
			fields[m[1]] = n
		}
	}
	if state != "standalone" || fields["znode_count"] != 9 || fields["watch_count"] != 4 || fields["ephemerals_count"] != 2 {
		t.Errorf("Telegraf reads state %q, %v", state, fields)
	}
}

// Exporters for Prometheus split at the tab, or at the first space once the tab is one, and take
// all but version and state for numbers.
func TestExportersReadMntr(t *testing.T) {
	o := startOurs(t)
	version := regexp.MustCompile(`^([0-9]+\.[0-9]+\.[0-9]+).*$`)
	for l := range strings.Lines(o.ask(t, "mntr")) {
		key, value, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
		if !ok || strings.ContainsAny(key, " .-") {
			t.Errorf("an exporter cannot split %q", l)
		}
		switch key {
		case "zk_version":
			if !version.MatchString(value) {
				t.Errorf("version %q", value)
			}
		case "zk_server_state":
		default:
			if _, err := strconv.ParseFloat(strings.Split(value, " ")[0], 64); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// Old check scripts know these lines of stat and srvr.
func TestScriptsReadStat(t *testing.T) {
	o := startOurs(t)
	text := o.ask(t, "stat")
	for _, pattern := range []string{
		`(?m)^Zookeeper version: (\d+\.\d+\.\d+)-(\S+), built on (.*)$`,
		`(?m)^ /(\d+\.\d+\.\d+\.\d+):(\d+)\[(\d+)\]\(queued=(\d+),recved=(\d+),sent=(\d+)\)$`,
		`(?m)^Latency min/avg/max: (\d+)/([\d.]+)/(\d+)$`,
		`(?m)^Received: (\d+)$`, `(?m)^Sent: (\d+)$`, `(?m)^Connections: (\d+)$`, `(?m)^Outstanding: (\d+)$`,
		`(?m)^Zxid: (0x[0-9a-fA-F]+)$`, `(?m)^Mode: (.*)$`, `(?m)^Node count: (\d+)$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(text) {
			t.Errorf("stat has no line like %s:\n%s", pattern, text)
		}
	}
}
