package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"net"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// The ports and which connections are inside TLS, as conf and the admin port show them.
func TestPortsWithAndWithoutTLS(t *testing.T) {
	s, err := Open(Options{DataDir: "/d", fs: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	if plain, secure := s.Ports(); plain != -1 || secure != -1 {
		t.Errorf("ports %d and %d before there are any", plain, secure)
	}
	served := make(chan error, 2)
	defer func() {
		s.Close()
		<-served
		<-served
	}()
	listen := func() (l net.Listener, port int) {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		return l, l.Addr().(*net.TCPAddr).Port
	}
	l, plainPort := listen()
	inner, securePort := listen()
	go func() { served <- s.Serve(l) }()
	go func() {
		served <- s.Serve(tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{selfSigned(t, pkix.Name{CommonName: "zk"})}}))
	}()
	client := func(nc net.Conn, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		newPeer(t, nc).handshake(wire.ConnectRequest{Timeout: 10000})
	}
	client(net.Dial("tcp", l.Addr().String()))
	client(tls.Dial("tcp", inner.Addr().String(), &tls.Config{InsecureSkipVerify: true}))
	if plain, secure := s.Ports(); plain != plainPort || secure != securePort {
		t.Errorf("ports %d and %d, want %d and %d", plain, secure, plainPort, securePort)
	}
	if all := s.Connections(); len(all) != 2 || all[0].Secure || !all[1].Secure {
		t.Errorf("connections %+v, want one without TLS and one with it", all)
	}
}
