package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// selfSigned makes a certificate that vouches for itself.
func selfSigned(t *testing.T, name pkix.Name) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, DNSNames: []string{"zk"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestClientCertificateIsAnIdentity(t *testing.T) {
	testClientCertificate(t, "", zk.ErrNoAuth)
	testClientCertificate(t, "CN=alice", zk.ErrNoAuth)
	testClientCertificate(t, "CN=alice,O=ops", zk.OK)
}

func testClientCertificate(t *testing.T, super string, want zk.Code) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, func(o *Options) { o.SuperSubject = super })
		l, err := r.net.Listen("secure")
		if err != nil {
			t.Fatal(err)
		}
		go r.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{selfSigned(t, pkix.Name{CommonName: "zk"})},
			ClientAuth:   tls.RequireAnyClientCert,
		}))
		raw, err := r.net.DialAs(t.Context(), "c", "secure")
		if err != nil {
			t.Fatal(err)
		}
		nc := tls.Client(raw, &tls.Config{
			InsecureSkipVerify: true,
			Certificates:       []tls.Certificate{selfSigned(t, pkix.Name{CommonName: "alice", Organization: []string{"ops"}})},
		})
		defer raw.Close()
		p := newPeer(t, nc)
		p.handshake(wire.ConnectRequest{Timeout: 10000})
		q := createReq("/n", zk.Persistent)
		q.ACL = zk.CreatorACL()
		p.call(wire.OpCreate, q, nil)
		var acl wire.ACLResponse
		if code := p.call(wire.OpGetACL, &wire.PathRecord{Path: "/n"}, &acl); code != zk.OK {
			t.Fatal(code)
		}
		if len(acl.ACL) != 1 || acl.ACL[0].Scheme != "x509" || acl.ACL[0].ID != "CN=alice,O=ops" {
			t.Errorf("ACL %v, want everything to CN=alice,O=ops", acl.ACL)
		}
		for who, want := range map[*peer]zk.Code{p: zk.OK, r.connect("plain"): zk.ErrAuthFailed} {
			if code := who.call(wire.OpAuth, &wire.AuthRequest{Scheme: "x509"}, nil); code != want {
				t.Errorf("an auth request for x509: %v, want %v", code, want)
			}
		}
		// The subject named in the options may do anything.
		locked := createReq("/locked", zk.Persistent)
		locked.ACL = []zk.ACL{{Perms: zk.PermAll, Scheme: "digest", ID: "nobody:hash"}}
		p.call(wire.OpCreate, locked, nil)
		if code := p.call(wire.OpGetData, &wire.WatchRequest{Path: "/locked"}, nil); code != want {
			t.Errorf("superuser %q: reading what another owns: %v, want %v", super, code, want)
		}
		// The server waits for a client without TLS no longer than for others.
		silent, err := r.net.DialAs(t.Context(), "s", "secure")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		time.Sleep(r.opts.HandshakeTimeout + 15*time.Second + lingerTimeout)
		if n := r.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// A connection without TLS, or that breaks off in the middle of the handshake, is closed at once, and the log says why.
func TestPlaintextOnTheTLSPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		r := start(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		l, err := r.net.Listen("secure")
		if err != nil {
			t.Fatal(err)
		}
		go r.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{selfSigned(t, pkix.Name{CommonName: "zk"})}}))
		begin := time.Now()
		for _, bytes := range []string{"\x00\x00\x00\x2c\x00\x00\x00\x00", "ruok\n", "\x16\x03\x01\xff\xff", "GET / HTTP/1.1\r\n\r\n"} {
			nc, err := r.net.DialAs(t.Context(), "c", "secure")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			if _, err := nc.Write([]byte(bytes)); err != nil {
				t.Fatal(err)
			}
			nc.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.ReadAll(nc); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q: not hung up on", bytes)
			}
		}
		if d := time.Since(begin); d > lingerTimeout {
			t.Errorf("hanging up took %v", d)
		}
		if n := strings.Count(log.String(), "TLS handshake failed"); n != 1 {
			t.Errorf("%d lines about it within a moment, want 1:\n%s", n, log.String())
		}
		time.Sleep(2 * lingerTimeout)
		if n := r.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// A lockedBuffer keeps what several goroutines write.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
