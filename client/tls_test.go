package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/zk"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &authority{t, cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

func (a *authority) issue(name string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		KeyUsage: x509.KeyUsageDigitalSignature, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	must(a.t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serveTLS is a fake behind TLS.
func serveTLS(t *testing.T, n *memnet.Network, cfg *tls.Config) *fake {
	return serveFake(t, n, fakeAddr, func(p *peer) {
		tc := tls.Server(p.nc, cfg)
		if tc.Handshake() != nil {
			return
		}
		p.nc = tc
		well(p)
	})
}

// F50: the server must prove to be the one that the server list says; a client certificate is presented.
func TestF50_TLS(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ours, theirs := newAuthority(t), newAuthority(t)
		us := ours.issue("the client")
		for _, tt := range []struct {
			name   string
			server *tls.Config
			client *tls.Config
			refuse any // errors.As target; nil: the session is opened
		}{
			{"good", &tls.Config{Certificates: []tls.Certificate{ours.issue("zk")}}, &tls.Config{RootCAs: ours.pool()}, nil},
			{"name given", &tls.Config{Certificates: []tls.Certificate{ours.issue("other")}},
				&tls.Config{RootCAs: ours.pool(), ServerName: "other"}, nil},
			{"client certificate", &tls.Config{Certificates: []tls.Certificate{ours.issue("zk")}, ClientCAs: ours.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
				&tls.Config{RootCAs: ours.pool(), Certificates: []tls.Certificate{us}}, nil},
			{"another name", &tls.Config{Certificates: []tls.Certificate{ours.issue("other")}}, &tls.Config{RootCAs: ours.pool()}, new(x509.HostnameError)},
			{"another authority", &tls.Config{Certificates: []tls.Certificate{theirs.issue("zk")}}, &tls.Config{RootCAs: ours.pool()}, new(x509.UnknownAuthorityError)},
			{"no client certificate", &tls.Config{Certificates: []tls.Certificate{ours.issue("zk")}, ClientCAs: ours.pool(), ClientAuth: tls.RequireAndVerifyClientCert},
				&tls.Config{RootCAs: ours.pool()}, new(*net.OpError)},
		} {
			stop := serveTLSOnce(t, n, tt.server)
			s, err := client.Open(short(t, 3*time.Second), fakeAddr, client.Options{Dial: n.Dialer("client"), TLS: tt.client})
			switch {
			case tt.refuse == nil && err != nil:
				t.Errorf("%s: %v", tt.name, err)
			case tt.refuse != nil && !asAny(err, tt.refuse):
				t.Errorf("%s: Open = %v, want %T", tt.name, err, tt.refuse)
			}
			if s != nil {
				if _, _, err := s.Get(t.Context(), "/"); err != nil {
					t.Errorf("%s: get: %v", tt.name, err)
				}
				must(t, s.Close(t.Context()))
			}
			stop()
		}
	})
}

// The error of a client that comes without TLS to a server that wants it says so.
func TestWithoutTLS(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		stop := serveTLSOnce(t, n, &tls.Config{Certificates: []tls.Certificate{newAuthority(t).issue("zk")}})
		defer stop()
		_, err := client.Open(short(t, 3*time.Second), fakeAddr, client.Options{Dial: n.Dialer("client")})
		if err == nil || !strings.Contains(err.Error(), "wants TLS") {
			t.Errorf("Open = %v, want an error that speaks of TLS", err)
		}
	})
}

// The error of a client that has the wrong port, or the wrong server, says so.
func TestWhatIsNotZooKeeper(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		secure := &tls.Config{RootCAs: newAuthority(t).pool()}
		for _, tt := range []struct {
			answer string // to whatever is said first; then the server hangs up
			reset  bool   // instead of that
			tls    *tls.Config
			want   string
		}{
			{"SSH-2.0-OpenSSH\r\n", false, nil, `not ZooKeeper's: it begins with "SSH-"`},
			{"\x15\x03\x03\x00\x02\x02\x28", false, nil, "wants TLS"},
			{"", false, secure, "port for TLS?"},
			{"", true, secure, "reset by peer (is this the server's port for TLS?)"},
			{"HTTP/1.1 400 Bad Request\r\n", false, secure, "port for TLS?"},
			{"\x15\x03\x03\x00\x02\x02\x28", false, secure, "TLS: remote error: tls: handshake failure)"},
		} {
			stop := serveEach(t, n, func(nc net.Conn) {
				nc.Read(make([]byte, 4<<10))
				if tt.reset {
					n.Link("", "").Cut()
				}
				nc.Write([]byte(tt.answer))
			})
			_, err := client.Open(short(t, 3*time.Second), fakeAddr, client.Options{Dial: n.Dialer("client"), TLS: tt.tls})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%q, TLS %v: Open = %v, want %q", tt.answer, tt.tls != nil, err, tt.want)
			}
			stop()
		}
	})
}

// serveTLSOnce is serveTLS with an end before the test's.
func serveTLSOnce(t *testing.T, n *memnet.Network, cfg *tls.Config) (stop func()) {
	return serveEach(t, n, func(nc net.Conn) {
		tc := tls.Server(nc, cfg)
		if tc.Handshake() == nil {
			well(&peer{fake: &fake{t: t}, nc: tc, number: 1})
		}
	})
}

// serveEach serves one connection after the other, and hangs up, until it is stopped.
func serveEach(t *testing.T, n *memnet.Network, serve func(nc net.Conn)) (stop func()) {
	l, err := n.Listen(fakeAddr)
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			serve(nc)
			nc.Close()
		}
	}()
	return func() {
		l.Close()
		<-done
	}
}

// asAny is errors.As for a target of unknown type.
func asAny(err error, target any) bool {
	switch target := target.(type) {
	case *x509.HostnameError:
		return errors.As(err, target)
	case *x509.UnknownAuthorityError:
		return errors.As(err, target)
	case **net.OpError: // what the server says to us
		return errors.As(err, target)
	}
	return false
}

// F50: across a reconnect, the name is verified again, and a peer that has stopped listening cannot hold
// up Close.
func TestF50_TLSReconnectAndClose(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ca := newAuthority(t)
		serveTLS(t, n, &tls.Config{Certificates: []tls.Certificate{ca.issue("zk")}})
		s := open(t, n, fakeAddr, client.Options{TLS: &tls.Config{RootCAs: ca.pool()}})
		cut(t, n, s)
		_, _, err := s.Get(t.Context(), "/")
		must(t, err)
		n.Freeze("client")
		for range 20 { // more than the way takes
			p := s.Pipeline()
			p.Set("/n", make([]byte, 100<<10), -1)
			p.Send(t.Context())
		}
		began := time.Now()
		err = s.Close(short(t, time.Second))
		if took := time.Since(began); took > time.Second+slack || err == nil {
			t.Errorf("Close took %v, %v", took, err)
		}
		if _, _, err := s.Get(t.Context(), "/"); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("get: %v", err)
		}
	})
}
