package clients

import (
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
	"github.com/lockkeeper/lockkeeper/zk"
)

// kazooLock takes a lock with credentials of its own and an ACL for those that have them, and runs a program under it.
//
//go:embed testdata/kazoo_lock.py
var kazooLock string

// The command reaches an Apache ZooKeeper that wants TLS, certificates and credentials, makes what only they open, and
// shares that with those that have them too.
func TestTheCommandOnASecuredServer(t *testing.T) {
	dir := t.TempDir()
	lockkeeper := filepath.Join(dir, "lockkeeper")
	must(t, proc.BuildCommand(lockkeeper))
	pair, ours := selfSigned(t, dir, "client")
	_, others := selfSigned(t, dir, "somebody-else")
	_, strangers := selfSigned(t, dir, "stranger")
	srv, port, serverPEM := startTLS(t, dir, ours, others)
	secure := net.JoinHostPort("localhost", port)

	// run runs the command to its end, which must be with that status, and words on its standard error.
	run := func(status int, words []string, args ...string) (stdout string) {
		t.Helper()
		cmd := exec.CommandContext(within(t, patience), lockkeeper, args...)
		cmd.Env = append(os.Environ(), "LK="+lockkeeper)
		var said strings.Builder
		cmd.Stderr = &said
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Errorf("%q: exit status %d, want %d\n%s%s", args, got, status, out, &said)
		}
		for _, w := range words {
			if !strings.Contains(said.String(), w) {
				t.Errorf("%q says %q, want it to mention %q", args, &said, w)
			}
		}
		return string(out)
	}
	as := func(cert string, command ...string) []string {
		return append([]string{command[0], "--servers", secure, "--tls-ca", serverPEM, "--tls-cert", cert}, command[1:]...)
	}

	// By certificate: the ACL names its subject.
	file, err := os.ReadFile(serverPEM)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file)
	s := open(t, secure, client.Options{TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})
	run(0, nil, as(ours, "run", "--acl", "creator", "/by-certificate/demo", "--", "sh", "-c", `exec "$LK" run /by-certificate/inner -- true`)...)
	acl, _, err := s.ACL(within(t, patience), "/by-certificate")
	must(t, err)
	if want := []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=client"}}; !slices.Equal(acl, want) {
		t.Errorf("the ACL is %v, want %v", acl, want)
	}
	run(77, []string{"/by-certificate/demo", "not authorised", "with the certificate in " + others}, as(others, "run", "/by-certificate/demo", "--", "true")...)
	if out := run(0, nil, as(ours, "status")...); !strings.Contains(out, "standalone") {
		t.Errorf("status: %s", out)
	}
	run(0, nil, as(ours, "bench", "--duration", "1ms")...)
	var all sync.WaitGroup // those that are refused go on trying for as long as they may
	refused := func(words string, args ...string) {
		all.Go(func() {
			run(69, []string{words}, append([]string{"run", "--connect-timeout", "5s"}, append(args, "demo", "--", "true")...)...)
		})
	}
	refused("the server refuses the client certificate in "+strangers, "--servers", secure, "--tls-ca", serverPEM, "--tls-cert", strangers)
	refused("the server wants a client certificate (--tls-cert)", "--servers", secure, "--tls-ca", serverPEM)
	refused("wants TLS", "--servers", secure)
	refused("127.0.0.1", "--servers", net.JoinHostPort("127.0.0.1", port), "--tls-ca", serverPEM, "--tls-cert", ours)
	refused("the server's port for TLS?", "--servers", srv.Addr(), "--tls-ca", serverPEM, "--tls-cert", ours)
	all.Wait()

	// By credentials.
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	alice, wrong := put("alice", "digest:alice:open:sesame\n"), put("wrong", "digest:alice:guess\n")
	with := func(file string, command ...string) []string {
		return append([]string{command[0], "--servers", srv.Addr(), "--auth-file", file}, command[1:]...)
	}
	run(0, nil, with(alice, "run", "--slots", "1", "--acl", "creator", "/by-credentials/many", "--", "true")...)
	run(0, nil, with(alice, "slots", "/by-credentials/many", "2")...)
	run(0, nil, with(alice, "elect", "--restart", "never", "--acl", "creator", "/by-credentials/boss", "--", "true")...)
	for _, file := range []string{wrong, put("another", "digest:bob:open:sesame\n")} {
		run(77, []string{"/by-credentials/demo", "not authorised", "with the credentials in " + file}, with(file, "run", "/by-credentials/demo", "--", "true")...)
	}
	run(77, []string{"/by-credentials/many", "without credentials"}, "run", "--slots", "2", "--servers", srv.Addr(), "/by-credentials/many", "--", "true")

	// Where servers enforce credentials.
	strict := apache.Start(t, apache.Options{Tick: tick, Properties: map[string]string{"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": "digest"}})
	run(0, nil, "run", "--servers", strict.Addr(), "--auth-file", alice, "demo", "--", "true")
	for _, command := range []string{"run demo -- true", "elect --restart never demo -- true", "locks"} {
		words := strings.Fields(command)
		run(77, []string{"requires authentication", "without credentials; --auth-file"}, append([]string{words[0], "--servers", strict.Addr()}, words[1:]...)...)
	}

	// Under a lock that kazoo holds with the same credentials ours is busy, and the other way round.
	kazoo := func(program ...string) (string, error) {
		out, err := exec.CommandContext(within(t, patience), "/usr/bin/python3",
			append([]string{"-c", kazooLock, srv.Addr(), "alice", "open:sesame", "/by-credentials/shared"}, program...)...).CombinedOutput()
		return string(out), err
	}
	try := with(alice, "run", "--acl", "creator", "--wait", "0", "/by-credentials/shared", "--", "echo", "got it")
	if out, err := kazoo(append([]string{lockkeeper}, try...)...); err != nil || !strings.Contains(out, "busy") || !strings.Contains(out, "ended with 75") {
		t.Errorf("under kazoo's lock: %s, %v", out, err)
	}
	under := with(alice, "run", "--acl", "creator", "/by-credentials/shared", "--", "/usr/bin/python3", "-c", kazooLock, srv.Addr(), "alice", "open:sesame", "/by-credentials/shared", "true")
	if out := run(0, nil, under...); !strings.Contains(out, "busy") {
		t.Errorf("kazoo under ours: %s", out)
	}

	// The library's holder is seen, asked and put out.
	m, err := lock.NewMutex(s, "/by-certificate/held", lock.Options{ACL: zk.CreatorACL(), ParentACL: zk.CreatorACL()})
	must(t, err)
	hold, err := m.Lock(within(t, patience))
	must(t, err)
	run(77, []string{"/by-certificate/held"}, as(others, "break", "--force", "/by-certificate/held")...)
	run(0, []string{"asked"}, as(ours, "revoke", "/by-certificate/held")...)
	run(0, []string{"put"}, as(ours, "break", "--force", "/by-certificate/held")...)
	<-hold.Done()
}
