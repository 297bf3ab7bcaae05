//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/access"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/proc"
)

// An authority signs certificates, into files of a home.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newAuthority(h *home, name string) *authority {
	h.t.Helper()
	a := &authority{t: h.t.(*testing.T), dir: h.dir}
	a.cert = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	var der []byte
	a.key, der = a.sign(a.cert)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		h.t.Fatal(err)
	}
	a.file = a.write(name, &pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// sign makes a key and a certificate for it; the first is the authority's own.
func (a *authority) sign(template *x509.Certificate) (*ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	signer := a.key
	if signer == nil {
		signer = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, der
}

func (a *authority) write(name string, blocks ...*pem.Block) string {
	a.t.Helper()
	var text []byte
	for _, b := range blocks {
		text = append(text, pem.EncodeToMemory(b)...)
	}
	file := a.dir + "/" + name + ".pem"
	if err := os.WriteFile(file, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// issue makes a key with a certificate for localhost, valid for a time, and returns the file of both.
func (a *authority) issue(name string, good time.Duration) string {
	a.t.Helper()
	key, cert := a.sign(&x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(good),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write(name, &pem.Block{Type: "PRIVATE KEY", Bytes: der}, &pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

// secure starts a server that wants certificates of an authority, and returns it with its address for TLS and its
// plain one. What args set comes last.
func (h *home) secure(a *authority, key string, args ...string) (j *job, address, plain string) {
	h.t.Helper()
	j, plain = h.server(h.secureArgs(a, key, args...)...)
	_, port, err := net.SplitHostPort(attr(a.t, j.stderr.String(), "secure"))
	if err != nil {
		h.t.Fatal(err)
	}
	return j, "localhost:" + port, plain
}

func (h *home) secureArgs(a *authority, key string, args ...string) []string {
	return append([]string{"--data", h.dir + "/data", "--listen", "127.0.0.1:0", "--set", "secureClientPort=0", "--set", "secureClientPortAddress=127.0.0.1",
		"--set", "ssl.keyStore.location=" + key, "--set", "ssl.trustStore.location=" + a.file}, args...)
}

// put writes a file for its user alone.
func (h *home) put(name, text string) string {
	h.t.Helper()
	file := h.dir + "/" + name
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return file
}

// Every command reaches servers that want TLS and certificates, by flags and by variables.
func TestTLS(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a := newAuthority(h, "authority")
	_, address, _ := h.secure(a, a.issue("server", time.Hour))
	us := a.issue("us", time.Hour)
	flags := []string{"--servers", address, "--tls-ca", "authority.pem", "--tls-cert", "us.pem", "--tls-key", us} // as seen from where we are
	with := func(command string, args ...string) []string {
		return append(append([]string{command}, flags...), args...)
	}
	holder := h.start(with("run", "--acl", "creator", "demo", "--", "sh", "-c", `cd / && echo up && exec "$LK" run --wait 0 inner -- sleep 1000`)...)
	holder.see("up")
	if out := h.run(with("status")...).want(0).stdout.String(); !strings.Contains(out, "standalone") {
		t.Errorf("status: %s", out)
	}

	h.env = append(h.env, "LOCKKEEPER_SERVERS="+address, "LOCKKEEPER_TLS_CA=authority.pem", "LOCKKEEPER_TLS_CERT=us.pem")
	h.held("inner", 1) // a command under a lock finds the servers, wherever it goes
	h.held("demo", 1)
	if out := h.run("status", address).want(0).stdout.String(); !strings.Contains(out, "standalone") {
		t.Errorf("status: %s", out)
	}
	h.run("revoke", "demo").want(0, "asked")
	h.run("break", "--force", "demo").want(0, "put")
	holder.want(74, "deleted")
	h.run("run", "--slots", "2", "many", "--", "true").want(0)
	h.run("slots", "many", "3").want(0, "3 slots")
	h.run("elect", "--restart", "never", "boss", "--", "true").want(0)
	h.run("bench", "--duration", "1ms").want(0)

	// The keeper goes without, if it is asked for by name.
	h.run("run", "--servers", "local", "demo", "--", "sh", "-c", `exec "$LK" run inner -- true`).want(0)
	h.env = slices.DeleteFunc(h.env, func(v string) bool { return strings.HasPrefix(v, "LOCKKEEPER_SERVERS=") })
	h.run("run", "demo", "--", "true").want(64, "LOCKKEEPER_TLS_CA", "--servers", "the keeper")
	h.run("locks", "--servers", "local", "--tls-server-name", "x").want(64, "--tls-server-name", "the keeper")
}

// What is wrong with TLS is said, and where.
func TestTLSThatFails(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a, other := newAuthority(h, "authority"), newAuthority(h, "other")
	us := a.issue("us", time.Hour)
	_, address, plain := h.secure(a, a.issue("server", time.Hour))
	_, expired, _ := h.secure(a, a.issue("expired", -time.Minute), "--data", h.dir+"/expired")
	foreign := other.issue("foreign", time.Hour)
	javas, missing := h.put("keystore.jks", "\xfe\xed\xfe\xed"), h.dir+"/missing.pem"
	byNumber := strings.Replace(address, "localhost", "127.0.0.1", 1)
	cases := []struct {
		servers string
		flags   []string
		status  int
		words   []string
	}{
		{byNumber, []string{"--tls-ca", a.file, "--tls-cert", us, "--tls-server-name", "localhost"}, 0, nil},
		{address, nil, 69, []string{"wants TLS"}},
		{plain, []string{"--tls-ca", a.file, "--tls-cert", us}, 69, []string{"the server's port for TLS?"}},
		{address, []string{"--tls-ca", a.file}, 69, []string{"the server wants a client certificate (--tls-cert)"}},
		{address, []string{"--tls-ca", a.file, "--tls-cert", foreign}, 69, []string{"the server refuses the client certificate in " + foreign}},
		{address, []string{"--tls-ca", a.file, "--tls-cert", a.issue("late", -time.Minute)}, 69, []string{"the server refuses the client certificate"}},
		{address, []string{"--tls-ca", other.file, "--tls-cert", us}, 69, []string{"unknown authority", "--tls-ca names a file"}},
		{address, []string{"--tls-cert", us}, 69, []string{"unknown authority", "--tls-ca names a file"}},
		{byNumber, []string{"--tls-ca", a.file, "--tls-cert", us}, 69, []string{"127.0.0.1", "--tls-server-name says"}},
		{expired, []string{"--tls-ca", a.file, "--tls-cert", us}, 69, []string{"expired"}},
		{address, []string{"--tls-ca", a.file, "--tls-cert", us, "--tls-key", foreign}, 64, []string{us, foreign, "the private key is not that"}},
		{address, []string{"--tls-ca", a.file, "--tls-cert", us, "--tls-key", a.file}, 64, []string{a.file + ": holds no private key"}},
		{address, []string{"--tls-ca", missing}, 64, []string{missing, "no such file"}},
		{address, []string{"--tls-ca", javas}, 64, []string{javas, "JKS", "keytool"}},
		{address, []string{"--tls-key", us}, 64, []string{"without a certificate"}},
		{address, []string{"--tls-ca", ""}, 64, []string{"--tls-ca", "empty"}},
	}
	var jobs []*job
	for _, c := range cases {
		args := append([]string{"run", "--connect-timeout", "5s", "--servers", c.servers}, c.flags...)
		jobs = append(jobs, h.start(append(args, "demo", "--", "true")...))
	}
	for i, c := range cases { // all at once, since those that look for a server do so for as long as they may
		jobs[i].want(c.status, c.words...)
		if c.status == 69 && c.flags != nil && strings.Contains(jobs[i].stderr.String(), "is a server running") {
			t.Errorf("a client that has met a server asks whether there is one: %s", jobs[i].stderr)
		}
	}
	h.run("status", "--tls-ca", a.file, "--tls-cert", us, plain).want(69)
	_, blind, _ := h.secure(a, a.issue("server", time.Hour), "--data", h.dir+"/blind", "--set", "ssl.clientAuth=none")
	h.run("run", "--servers", blind, "--tls-ca", a.file, "--tls-cert", us, "--acl", "creator", "demo", "--", "true").want(77, "/lockkeeper", "--acl creator: the servers know no identity from the certificate in "+us)
	h.run("status", "--tls-ca", missing, address).want(64, missing)
}

// A session outlives its certificates, and those of the servers, if they are renewed in their files.
func TestCertificatesAreRenewed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	old := newAuthority(h, "authority")
	key, us := old.issue("server", time.Hour), old.issue("us", time.Hour)
	server, address, _ := h.secure(old, key)
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+address, "LOCKKEEPER_TLS_CA="+old.file, "LOCKKEEPER_TLS_CERT="+us)
	holder := h.start("run", "demo", "--", "sh", "-c", "echo up; exec sleep 1000")
	holder.see("up")
	renewed := newAuthority(h, "authority")
	renewed.issue("server", time.Hour)
	renewed.issue("us", time.Hour)
	server.signal(syscall.SIGTERM)
	server.want(0)
	args := append([]string{"server"}, h.secureArgs(renewed, key, "--set", "secureClientPort="+strings.TrimPrefix(address, "localhost:"))...)
	for end := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		again := h.start(args...)
		if again.stderr.see("msg=serving") == nil {
			break
		}
		again.want(71, "in use") // by another process, for a while
		if t.Failed() || time.Now().After(end) {
			t.FailNow()
		}
	}
	h.run("break", "--force", "demo").want(0, "put")
	holder.want(74, "deleted") // it has come back
}

// Files that cannot be used for a while, perhaps because they are being renewed, do no harm, and are spoken of once.
func TestCertificatesThatCannotBeUsedForAWhile(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	a := newAuthority(h, "authority")
	_, address, _ := h.secure(a, a.issue("server", time.Hour), "--set", "ssl.clientAuth=none")
	var told []string
	dial, err := access.Settings{CA: a.file}.Dialer(func(text string) { told = append(told, text) })
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{string(good), "nothing", "nothing", string(good), "nothing"} {
		h.put("authority.pem", text)
		c, err := dial(t.Context(), "tcp", address)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		c.Close()
	}
	if len(told) != 2 || !strings.Contains(told[0], a.file+": is not a PEM file; what was read before stays in force") {
		t.Errorf("told %q", told)
	}
}

// A user without credentials, or with the wrong ones, does not get what another user has made private, and is told
// which path and why.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	h.env = append(h.env, "LOCKKEEPER_SERVERS="+address)
	const secret = "open:sesame"
	alice := h.put("alice", "# the jobs of the night\n\ndigest:alice:"+secret+"\n")
	mallory := h.put("mallory", "digest:alice:guess\r\n")
	as := func(file, command string, args ...string) *job {
		t.Helper()
		return h.run(append([]string{command, "--auth-file", file}, args...)...)
	}
	status := h.dir + "/status"
	holder := h.start("run", "--auth-file", "alice", "--acl", "creator", "--status-file", status, "demo", "--", "sh", "-c",
		`cd / && echo up && test "$LOCKKEEPER_ACL" = creator && exec "$LK" run inner -- sh -c 'echo inside; exec sleep 1000'`)
	holder.see("up")
	holder.see("inside")
	as(alice, "locks", "inner").want(0)
	for _, file := range []string{mallory, h.put("nobody", "ip:here\n")} {
		for _, command := range []string{"run --wait 0 demo -- true", "elect --restart never /lockkeeper/locks/demo -- true", "locks demo", "revoke demo", "break --force demo", "slots demo 3"} {
			as(file, strings.Fields(command)[0], strings.Fields(command)[1:]...).want(77, "/lockkeeper/locks/demo", "not authorised (with the credentials in "+file+")")
		}
	}
	h.run("locks", "demo").want(77, "/lockkeeper/locks/demo", "without credentials", "--auth-file")
	h.run("bench", "--duration", "1ms").want(77, "/lockkeeper/bench", "without credentials") // below what is alice's

	// The secret is in nothing that others can look at.
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range table {
		if !h.started(p) {
			continue
		}
		seen++
		for _, of := range []string{"cmdline", "environ"} {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Pid, of))
			if strings.Contains(string(b), secret) || strings.Contains(string(b), "sesame") {
				t.Errorf("process %d has the secret in its %s", p.Pid, of)
			}
		}
	}
	if seen < 7 { // two runs of three, and the server
		t.Errorf("%d processes", seen)
	}
	if out := as(alice, "locks", "--json").want(0).stdout.String(); strings.Contains(out, "sesame") || !strings.Contains(out, "inner") {
		t.Errorf("locks: %s", out)
	}
	as(alice, "break", "--force", "demo").want(0)
	holder.want(74)
	if b, err := os.ReadFile(status); err != nil || !strings.Contains(string(b), "lost") || strings.Contains(string(b), "sesame") {
		t.Errorf("the status file: %s, %v", b, err)
	}
	if strings.Contains(holder.stderr.String(), "sesame") {
		t.Errorf("standard error: %s", holder.stderr)
	}

	// A directory that is open stays so, and the claims in it are their creators'.
	h.run("run", "--auth-file", alice, "/open/demo", "--", "true").want(0)
	h.run("run", "/open/demo", "--", "true").want(0)
	for _, command := range []string{"run", "elect --restart never"} {
		args := append(strings.Fields(command), "--auth-file", alice, "--acl", "creator", "/open/demo", "--", "sh", "-c", `LOCKKEEPER_AUTH_FILE= exec "$LK" revoke /open/demo`)
		h.run(args...).want(77, "/open/demo/", "not authorised")
	}
	h.run("run", "--auth-file", alice, "--acl", "creator", "--slots", "1", "/closed", "--", "true").want(0)
	as(alice, "slots", "/closed", "2").want(0)
	as(mallory, "slots", "/closed", "1").want(77, "/closed")
	h.run("run", "--slots", "2", "/closed", "--", "true").want(77, "/closed")
	h.run("elect", "--auth-file", alice, "--acl", "creator", "--restart", "never", "/boss", "--", "true").want(0)
	h.run("run", "--acl", "creator", "demo", "--", "true").want(64, "--acl creator", "--auth-file")
	h.run("run", "--acl", "nobody", "demo", "--", "true").want(64, "--acl nobody", "world and creator")
}

// A file of credentials that cannot be used is named, and the line, and nothing that is in it.
func TestCredentialsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	open := h.put("open", "digest:alice:sesame\n")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	shared := h.put("shared", "digest:alice:sesame\n")
	if err := os.Chmod(shared, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(h.dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file   string
		status int
		words  []string
	}{
		{shared, 0, nil},
		{open, 64, []string{open, "open to other users (mode 0644)", "chmod o= " + open}},
		{h.dir + "/missing", 64, []string{h.dir + "/missing", "no such file"}},
		{h.dir + "/pipe", 64, []string{h.dir + "/pipe", "regular file"}},
		{h.dir, 64, []string{h.dir, "regular file"}},
		{h.put("empty", "# nothing\n"), 64, []string{"empty", "no credentials"}},
		{h.put("half", "\n#\ndigest:sesame"), 64, []string{"half:3:", "digest:USER:PASSWORD"}},
		{h.put("none", "sesame\n"), 64, []string{"none:1:", "SCHEME:CREDENTIAL"}},
		{h.put("long", strings.Repeat("#\n", 64<<10)), 64, []string{"long", "65536 bytes"}},
		{h.put("unknown", "digest:alice:sesame\n#\nsesame:e\n"), 77, []string{"authentication failed", "refused a credential whose scheme is none of ZooKeeper's own",
			"a line of " + h.dir + "/unknown is SCHEME:CREDENTIAL, as in digest:USER:PASSWORD; not of the scheme digest: " + h.dir + "/unknown:3"}},
	} {
		for _, command := range []string{"run --wait 0 demo -- true", "locks"} {
			words := strings.Fields(command)
			j := h.run(append([]string{words[0], "--servers", address, "--auth-file", c.file}, words[1:]...)...).want(c.status, c.words...)
			if strings.Contains(j.stderr.String(), "sesame") {
				t.Errorf("%s: the secret is in the message: %s", c.file, j.stderr)
			}
		}
	}
	h.run("run", "--auth-file", shared, "demo", "--", "true").want(64, "--auth-file", "the keeper")
	bytes := h.put("\xff", "digest:alice:sesame\n")
	for _, command := range []string{"run demo -- true", "elect demo -- true", "hold --lease 1h demo"} {
		words := strings.Fields(command)
		h.run(append([]string{words[0], "--servers", address, "--auth-file", bytes}, words[1:]...)...).want(64, `/\xff" is not UTF-8`)
	}
}

// Each term of an election has a session of its own, and so what is then in the files.
func TestElectReadsCredentialsForEachTerm(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	_, address := h.server("--data", h.dir+"/data", "--listen", "127.0.0.1:0")
	file := h.put("auth", "digest:alice:old\n")
	h.run("run", "--servers", address, "--auth-file", h.put("new", "digest:alice:new\n"), "--acl", "creator", "/new/made", "--", "true").want(0)
	j := h.run("elect", "--servers", address, "--auth-file", file, "--backoff", "0", "/boss", "--", "sh", "-c",
		`test -e again || { touch again; cp new auth; exit 0; }; exec "$LK" run --wait 0 /new/made -- rm auth`)
	j.want(64, "auth: no such file") // the third term has nothing to show
	if strings.Contains(j.stderr.String(), "not authorised") {
		t.Errorf("the second term shows the old credentials: %s", j.stderr)
	}
}
