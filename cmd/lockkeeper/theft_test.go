//go:build linux

package main

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

var sessionOf = regexp.MustCompile(`"session": ?"0x([0-9a-f]+)"`)

// A client that knows the holder's session, but not the holder's identity, computes the password as Apache ZooKeeper does and
// closes the session with one write. The holder keeps the lock, also where the server's passwords are those of Apache
// ZooKeeper; there only the identity protects.
func TestALockWithAnIdentityIsNotStolen(t *testing.T) {
	t.Parallel()
	for _, passwords := range []string{"false", "true"} {
		h := newHome(t)
		a := newAuthority(h, "authority")
		us, them := a.issue("us", time.Hour), a.issue("them", time.Hour)
		_, secure, plain := h.secure(a, a.issue("server", time.Hour), "--set", "lockkeeper.apachePasswords="+passwords)
		pair, err := tls.LoadX509KeyPair(them, them)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			flags []string
			dial  func() (net.Conn, error)
		}{
			"digest": {[]string{"--servers", plain, "--auth-file", h.put("alice", "digest:alice:sesame\n")},
				func() (net.Conn, error) { return net.Dial("tcp", plain) }},
			"certificate": {[]string{"--servers", secure, "--tls-ca", a.file, "--tls-cert", us},
				func() (net.Conn, error) {
					return tls.Dial("tcp", secure, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
				}},
		} {
			with := func(command string, args ...string) []string {
				return append(append([]string{command}, c.flags...), args...)
			}
			path := "/" + name + "/demo"
			holder := h.start(with("run", "--acl", "creator", path, "--", "sh", "-c", "echo up; until test -e done-"+name+"; do sleep 0.05; done; exit 7")...)
			holder.see("up")
			before := sessionOf.FindStringSubmatch(h.run(with("locks", "--json", path)...).want(0).stdout.String())
			if before == nil {
				t.Fatal("the lock has no holder")
			}
			id, err := strconv.ParseUint(before[1], 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				nc, err := c.dial()
				if err != nil {
					t.Fatal(err)
				}
				password := session.ApachePassword(int64(id))
				q := &wire.ConnectRequest{Timeout: 10000, SessionID: int64(id), Password: password[:], HasReadOnly: true}
				b, at := wire.BeginFrame(nil)
				b, at = wire.BeginFrame(wire.EndFrame(q.AppendTo(b), at))
				b = wire.EndFrame((&wire.RequestHeader{Xid: 1, Op: wire.OpCloseSession}).AppendTo(b), at)
				if _, err := nc.Write(b); err != nil {
					t.Fatal(err)
				}
				nc.SetReadDeadline(time.Now().Add(limit))
				if _, err := io.Copy(io.Discard, nc); os.IsTimeout(err) {
					t.Errorf("%s: the server does not hang up", name)
				}
				nc.Close()
			}
			after := h.run(with("locks", "--json", path)...).want(0).stdout.String()
			if m := sessionOf.FindStringSubmatch(after); m == nil || m[0] != before[0] {
				t.Errorf("%s, computed passwords %s: the holder's session has been closed: %s", name, passwords, after)
			}
			h.put("done-"+name, "")
			holder.want(7)
		}
	}
}
