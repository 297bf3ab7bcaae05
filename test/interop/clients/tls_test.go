package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/test/interop/proc"
	"github.com/lockkeeper/lockkeeper/zk"
)

const storePassword = "changeit"

// keytool makes a key pair with a self-signed certificate for a host, in a store of its own, and returns
// the store and the certificate as PEM.
func keytool(t *testing.T, dir, name, host string) (store, cert string) {
	t.Helper()
	store, cert = filepath.Join(dir, name+".p12"), filepath.Join(dir, name+".pem")
	common := []string{"-storetype", "PKCS12", "-keystore", store, "-storepass", storePassword, "-alias", name}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("keytool", append(args, common...)...).CombinedOutput(); err != nil {
			t.Fatalf("keytool %s: %v\n%s", args[0], err, out)
		}
	}
	run("-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-validity", "2", "-dname", "CN="+name, "-ext", "san=dns:"+host)
	run("-exportcert", "-rfc", "-file", cert)
	return store, cert
}

// selfSigned makes a key pair with a self-signed certificate for a client, and returns it and a file of both as PEM.
func selfSigned(t *testing.T, dir, name string) (pair tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	file = filepath.Join(dir, name+".pem")
	must(t, os.WriteFile(file, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// startTLS starts a server that wants TLS and the certificates in these files, at the port that it returns, and none of it
// at its other one. Its own certificate, for localhost, is in the file serverPEM.
func startTLS(t *testing.T, dir string, clients ...string) (srv *apache.Server, port, serverPEM string) {
	t.Helper()
	// Debian's zookeeper.jar names too few of Netty's jars for a server on Netty.
	jars, err := filepath.Glob("/usr/share/java/netty-*.jar")
	must(t, err)
	t.Setenv("JDK_JAVA_OPTIONS", "-Xbootclasspath/a:"+strings.Join(jars, ":"))
	serverStore, serverPEM := keytool(t, dir, "server", "localhost")
	trust := filepath.Join(dir, "trust.p12")
	for _, file := range clients {
		if out, err := exec.Command("keytool", "-importcert", "-noprompt", "-storetype", "PKCS12", "-keystore", trust,
			"-storepass", storePassword, "-alias", filepath.Base(file), "-file", file).CombinedOutput(); err != nil {
			t.Fatalf("keytool: %v\n%s", err, out)
		}
	}
	ports, err := proc.FreePorts(1)
	must(t, err)
	port = strconv.Itoa(ports[0])
	srv = apache.Start(t, apache.Options{Tick: tick,
		Config: map[string]string{"secureClientPort": port, "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider"},
		Properties: map[string]string{
			"zookeeper.serverCnxnFactory":       "org.apache.zookeeper.server.NettyServerCnxnFactory",
			"zookeeper.ssl.keyStore.location":   serverStore,
			"zookeeper.ssl.keyStore.password":   storePassword,
			"zookeeper.ssl.trustStore.location": trust,
			"zookeeper.ssl.trustStore.password": storePassword,
		}})
	return srv, port, serverPEM
}

// F50: TLS to Apache ZooKeeper: the name is verified, a client certificate is presented, and its subject
// is an identity for ACLs.
func TestF50_TLS(t *testing.T) {
	dir := t.TempDir()
	pair, clientPEM := selfSigned(t, dir, "client")
	_, port, serverPEM := startTLS(t, dir, clientPEM)

	file, err := os.ReadFile(serverPEM)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(file)
	address := net.JoinHostPort("localhost", port)

	s := open(t, address, client.Options{TLS: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}})
	create(t, s, "/over-tls", zk.Persistent)
	_, err = s.Create(within(t, patience), "/mine", nil, zk.Persistent, []zk.ACL{{Perms: zk.PermAll, Scheme: "x509", ID: "CN=client"}})
	must(t, err)
	if _, _, err := s.Get(within(t, patience), "/mine"); err != nil {
		t.Errorf("get of what the certificate's subject may read: %v", err)
	}

	var name x509.HostnameError
	err = refusal(t, net.JoinHostPort("127.0.0.1", port), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		func(err error) bool { return errors.As(err, &name) })
	if !errors.As(err, &name) {
		t.Errorf("another name: %v, want an x509.HostnameError", err)
	}
	var authority x509.UnknownAuthorityError
	err = refusal(t, address, &tls.Config{Certificates: []tls.Certificate{pair}}, func(err error) bool { return errors.As(err, &authority) })
	if !errors.As(err, &authority) {
		t.Errorf("an authority that is not ours: %v, want an x509.UnknownAuthorityError", err)
	}
	err = refusal(t, address, &tls.Config{RootCAs: roots}, func(err error) bool {
		var alert *net.OpError
		return errors.As(err, &alert) && alert.Op == "remote error"
	})
	if err == nil {
		t.Error("no client certificate: a session")
	}
}

// refusal tries to open a session until an attempt fails as it should, and returns with what error Open gives up then.
func refusal(t *testing.T, servers string, c *tls.Config, should func(error) bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t, patience))
	defer cancel()
	s, err := client.Open(ctx, servers, client.Options{TLS: c, Trace: client.Trace{Attempt: func(_ string, err error) {
		if should(err) {
			cancel()
		}
	}}})
	if err == nil {
		s.Close(within(t, time.Second))
	}
	return err
}
