//go:build linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A server for other machines insists on TLS unless a setting says otherwise. With a zoo.cfg it does as ZooKeeper does.
func TestAServerForOtherMachinesIsSecure(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a := newAuthority(h, "authority")
	key := a.issue("server", time.Hour)
	data := func(name string) []string { return []string{"--data", h.dir + "/" + name, "--set", "tickTime=100"} }
	h.run(append([]string{"server", "--listen", "0.0.0.0:0"}, data("a")...)...).want(64, "without TLS", "secureClientPort=2281", "lockkeeper.secure=false")
	h.run(append([]string{"server", "--set", "clientPort=0"}, data("a")...)...).want(64, "without TLS")
	h.run(append([]string{"server", "--listen", "0.0.0.0:0", "--set", "lockkeeper.secure=true"}, data("a")...)...).want(64, "without TLS")

	// quota reports whether a client without credentials may set one, which also shows which clients may change the root.
	quota := func(address string, status int) {
		t.Helper()
		h.run("z", "create", "--servers", address, "/app").want(0)
		h.run("z", "quota", "set", "--servers", address, "/app", "--count", "100").want(status)
	}
	_, address := h.server(append([]string{"--listen", "127.0.0.1:0"}, data("loopback")...)...)
	quota(address, 0)
	_, address = h.server(append([]string{"--listen", "127.0.0.1:0", "--set", "lockkeeper.secure=true",
		"--set", "DigestAuthenticationProvider.superDigest=" + zk.DigestID("super:secret")}, data("asked")...)...)
	quota(address, 77)
	super := []string{"--servers", address, "--auth-file", h.put("super", "digest:super:secret\n"), "/app"}
	h.run(append([]string{"z", "quota", "set", "--count", "100"}, super...)...).want(0)
	if out := h.run(append([]string{"z", "quota", "get", "--json"}, super...)...).want(0).stdout.String(); !strings.Contains(out, "100") {
		t.Errorf("the quota is %s", out)
	}
	_, address = h.server(append([]string{"--listen", "0.0.0.0:0", "--set", "lockkeeper.secure=false"}, data("open")...)...)
	quota(local(address), 0)
	_, address = h.server(append([]string{"--listen", "127.0.0.1:0", "--set", "secureClientPort=0",
		"--set", "ssl.keyStore.location=" + key, "--set", "ssl.trustStore.location=" + a.file}, data("tls")...)...)
	quota(address, 77)
	h.run("run", "--servers", address, "demo", "--", "true").want(0)

	const says = "any client may change the root"
	for text, times := range map[string]int{
		"clientPort=0\n": 1,
		"clientPort=0\nclientPortAddress=127.0.0.1\n": 0,
		"clientPort=0\nlockkeeper.secure=false\n":     0,
	} {
		cfg := h.put("zoo.cfg", text+"admin.enableServer=false\ndataDir="+h.dir+"/zk"+"\n")
		j, address := h.server("--config", cfg)
		if got := strings.Count(j.stderr.String(), says); got != times {
			t.Errorf("%q: the log says it %d times, want %d: %s", text, got, times, j.stderr)
		}
		h.run("status", local(address)).want(0)
		j.signal(9)
		j.status()
	}
	cfg := h.put("zoo.cfg", "clientPort=0\nlockkeeper.secure=true\ndataDir="+h.dir+"/zk\n")
	h.run("server", "--config", cfg).want(78, "without TLS")
}

// local is a server's address as this machine reaches it.
func local(address string) string { return "127.0.0.1" + address[strings.LastIndex(address, ":"):] }
