//go:build linux

package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// What no flag and no variable says comes from the user's file, and then from that of the machine.
func TestClientConfiguration(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, serversVariable+"=") })
	h.env = append(h.env, "XDG_CONFIG_HOME="+h.dir+"/config")
	if err := os.MkdirAll(h.dir+"/config/lockkeeper", 0o700); err != nil {
		t.Fatal(err)
	}
	file := h.put("config/lockkeeper/client.conf", "# the night's machine\nservers = "+address+"\nauth-file = alice\n")
	h.put("config/lockkeeper/alice", "digest:alice:sesame\n")
	const says = `echo "$LOCKKEEPER_SERVERS $LOCKKEEPER_AUTH_FILE" >&2`
	h.run("run", "demo", "--", "sh", "-c", says).want(0, address+" "+h.dir+"/config/lockkeeper/alice")
	h.run("run", "--servers", "local", "demo", "--", "sh", "-c", says).want(0, "unix:")

	other := *h
	other.env = append(slices.Clone(h.env), configVariable+"="+h.put("other.conf", "require-servers = true\n"))
	other.run("run", "demo", "--", "true").want(64, "no servers are named", h.dir+"/other.conf:1", "--servers")
	other.run("locks").want(64, "no servers are named")
	other.run("run", "--servers", address, "demo", "--", "true").want(0)
	other.run("run", "--servers", "local", "demo", "--", "true").want(0)

	for text, want := range map[string]string{
		"server = zk1:2181":                 "client.conf:1: there is no setting server (there are servers, ",
		"\n servers":                        "client.conf:2: not KEY = VALUE",
		"servers =":                         "client.conf:1: servers has no value",
		"servers = a:1\nservers = b:1":      "client.conf:2: servers is set twice",
		"servers = zk://a:1":                "client.conf:1: servers = zk://a:1: a server is host:port",
		"require-servers = perhaps":         "client.conf:1: require-servers = perhaps: not true or false",
		"#\nservers = a b:xx":               `client.conf:2: servers = a b:xx: "a b:xx" has a blank in the host`,
		"servers = a:1\t# main":             "client.conf:1: servers = a:1\t# main: a comment has a line of its own",
		"servers = # main":                  "client.conf:1: servers = # main: a comment has a line of its own",
		"servers = a:1\nacl = all":          "client.conf:2: acl = all: not one of world and creator",
		"acl = creator\nservers = a:1":      "client.conf:1: acl = creator: needs credentials (--auth-file)",
		"servers = a:1\ntls-key = /k":       "client.conf:2: tls-key = /k: a key for TLS without a certificate (--tls-cert)",
		"auth-file = /k":                    "client.conf:1: auth-file = /k: is for servers that --servers or " + serversVariable + " names",
		"servers = a:1\nauth-file = /k":     "client.conf:2: auth-file = /k: credentials: open /k: no such file",
		"servers = a:1\ntls-ca = /k":        "client.conf:2: tls-ca = /k: tls: stat /k: no such file",
		"servers = a:1\ntls-cert = " + file: "client.conf:2: tls-cert = " + file + ": tls: ",
		"servers = \"a:1\"":                 "client.conf:1: servers = \"a:1\": \"a:1\" has a quote in the host",
	} {
		h.put("config/lockkeeper/client.conf", text)
		j := h.run("run", "demo", "--", "true")
		if j.status() != exit.Config || !strings.Contains(j.stderr.String(), want) {
			t.Errorf("%q: exit status %d, %s; want %q", text, j.status(), j.stderr.String(), want)
		}
	}
	h.put("config/lockkeeper/client.conf", "servers = "+address+"\n")
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	h.run("locks").want(78, "client.conf can be written by every user (mode 0666): chmod o-w")
	other.env = append(slices.Clone(h.env), configVariable+"="+file+".none")
	other.run("locks").want(78, file+".none")
}

// A command reads its configuration several times, and finds the same each time.
func TestAConfigurationIsNoPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fmt.Fprintln(w, "servers = zk1:2181")
	w.Close()
	for file, want := range map[string]string{fmt.Sprintf("/dev/fd/%d", r.Fd()): "is a pipe", os.DevNull: ""} {
		c, err := readClientConfig(func(name string) string { return map[string]string{configVariable: file}[name] })
		if text := fmt.Sprint(err); err != nil != (want != "") || !strings.Contains(text, want) || len(c) > 0 {
			t.Errorf("%s: %v, %v; want an error with %q", file, c, err, want)
		}
	}
}

// A user whose home is no directory, as services have it, has no configuration.
func TestAHomeThatIsNoDirectory(t *testing.T) {
	t.Parallel()
	h := newHome(t, "HOME=/dev/null", "XDG_CONFIG_HOME=")
	h.run("run", "demo", "--", "true").want(0)
	h.run("z", "ls", "--servers", "local", "/").want(0)
	h.env = append(h.env, configVariable+"=/dev/null/client.conf")
	h.run("run", "demo", "--", "true").want(78, "/dev/null/client.conf: not a directory")
}

// A run without a server list, and without a terminal, says each time that it excludes on this machine only.
func TestARunWithoutServersSaysSo(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	const said = "no servers are named"
	if j := h.run("run", "demo", "--", "true").want(0); strings.Contains(j.stderr.String(), said) {
		t.Errorf("with a list: %s", j.stderr.String())
	}
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, serversVariable+"=") })
	for range 2 {
		h.run("run", "demo", "--", "true").want(0, said)
	}
	h.run("elect", "--restart", "never", "demo", "--", "true").want(0, said+": this election")
	h.run("join", "demo", "--", "true").want(0, said+": this group")
	h.run("hold", "--lease", "1h", "demo").want(0, said+": this lock")
	h.run("release", "demo").want(0)
	if j := h.run("join", "--quiet", "demo", "--", "true").want(0); strings.Contains(j.stderr.String(), said) {
		t.Errorf("join --quiet: %s", j.stderr.String())
	}
	if j := h.run("run", "--servers", "local", "demo", "--", "true").want(0); strings.Contains(j.stderr.String(), said) {
		t.Errorf("--servers local: %s", j.stderr.String())
	}
}
