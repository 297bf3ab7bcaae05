package tlsconf

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// An authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t, key: newKey(t)}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert, a.pem = a.sign(template, template, a.key)
	return a
}

func (a *authority) sign(template, parent *x509.Certificate, key crypto.Signer) (*x509.Certificate, []byte) {
	a.t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// issue returns a key with its certificate, in PEM.
func (a *authority) issue(name string) []byte {
	a.t.Helper()
	return a.issueFor(name, newKey(a.t))
}

func (a *authority) issueFor(name string, key crypto.Signer) []byte {
	a.t.Helper()
	_, cert := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), cert...)
}

func (a *authority) client(name string) tls.Certificate {
	a.t.Helper()
	both := a.issue(name)
	cert, err := tls.X509KeyPair(both, both)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert
}

// handshake shows a client's certificates to a server and returns the name in the server's.
func handshake(server *tls.Config, client ...tls.Certificate) (name string, err error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	served := make(chan error, 1)
	sc := tls.Server(b, server)
	go func() {
		served <- sc.Handshake()
		b.Close()
	}()
	cc := tls.Client(a, &tls.Config{
		InsecureSkipVerify: true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(client) == 0 {
				return new(tls.Certificate), nil
			}
			return &client[0], nil // also if the server says that it will not believe it
		},
	})
	err = cc.Handshake()
	if err == nil {
		a.SetReadDeadline(time.Now().Add(time.Minute))
		cc.Read(make([]byte, 1)) // a refusal of the client's certificate comes behind the handshake
	}
	if serr := <-served; serr != nil {
		return "", serr
	}
	if err != nil {
		return "", err
	}
	return cc.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// files are a key store and a trust store.
type files struct {
	t   *testing.T
	dir string
}

func (f files) write(name string, content []byte) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// touch makes a file as old as that many seconds from now, so that a change shows on any disk.
func (f files) touch(path string, seconds int) {
	f.t.Helper()
	at := time.Now().Add(time.Duration(seconds) * time.Second)
	if err := os.Chtimes(path, at, at); err != nil {
		f.t.Fatal(err)
	}
}

func TestClientAuth(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	f := files{t, t.TempDir()}
	keys, trust := f.write("keys.pem", ours.issue("zk")), f.write("trust.pem", ours.pem)
	known, stranger := ours.client("alice"), theirs.client("mallory")
	for _, c := range []struct {
		auth                    string
		none, knownOK, stranger bool
	}{
		{"", false, true, false},
		{ClientAuthNeed, false, true, false},
		{ClientAuthWant, true, true, false},
		{ClientAuthNone, true, true, true}, // what they have is not looked at
	} {
		config, err := New(Options{KeyStore: Store{Location: keys}, TrustStore: Store{Location: trust}, ClientAuth: c.auth})
		if err != nil {
			t.Fatal(err)
		}
		for who, want := range map[string]struct {
			certs []tls.Certificate
			ok    bool
		}{"nobody": {nil, c.none}, "a client of ours": {[]tls.Certificate{known}, c.knownOK}, "a stranger": {[]tls.Certificate{stranger}, c.stranger}} {
			if _, err := handshake(config, want.certs...); (err == nil) != want.ok {
				t.Errorf("clientAuth %q: %s: %v", c.auth, who, err)
			}
		}
	}
}

func TestNothingOlderThanTLS12(t *testing.T) {
	ours := newAuthority(t, "ours")
	f := files{t, t.TempDir()}
	config, err := New(Options{KeyStore: Store{Location: f.write("keys.pem", ours.issue("zk"))}, ClientAuth: ClientAuthNone})
	if err != nil {
		t.Fatal(err)
	}
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		a, b := net.Pipe()
		go func() {
			tls.Server(b, config).Handshake()
			b.Close()
		}()
		err := tls.Client(a, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version}).Handshake()
		if (err == nil) != want {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		a.Close()
	}
}

// What changes is in force for the next connection, and what is broken is not.
func TestVersionsAndCipherSuites(t *testing.T) {
	ours := newAuthority(t, "ours")
	f := files{t, t.TempDir()}
	keys := Store{Location: f.write("keys.pem", ours.issue("zk"))}
	const ours12, other12 = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
	for name, c := range map[string]struct {
		server Options
		client *tls.Config
		ok     bool
	}{
		"1.2 meets 1.2 alone":        {Options{MaxVersion: tls.VersionTLS12}, &tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"1.3 alone meets 1.2 alone":  {Options{MaxVersion: tls.VersionTLS12}, &tls.Config{MinVersion: tls.VersionTLS13}, false},
		"1.2 meets 1.3 alone":        {Options{MinVersion: tls.VersionTLS13}, &tls.Config{MaxVersion: tls.VersionTLS12}, false},
		"the suite that is spoken":   {Options{CipherSuites: []uint16{ours12}}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{ours12}}, true},
		"GCM":                        {Options{}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{other12}}, true},
		"CBC":                        {Options{}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}, false},
		"a suite that is not spoken": {Options{CipherSuites: []uint16{ours12}}, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{other12}}, false},
	} {
		c.server.KeyStore, c.server.ClientAuth = keys, ClientAuthNone
		config, err := New(c.server)
		if err != nil {
			t.Fatal(err)
		}
		a, b := net.Pipe()
		go func() {
			tls.Server(b, config).Handshake()
			b.Close()
		}()
		c.client.InsecureSkipVerify = true
		if err := tls.Client(a, c.client).Handshake(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
		a.Close()
	}
	for _, o := range []Options{{MinVersion: tls.VersionTLS11}, {MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS12}} {
		o.KeyStore, o.ClientAuth = keys, ClientAuthNone
		if _, err := New(o); err == nil {
			t.Errorf("versions from %x to %x were accepted", o.MinVersion, o.MaxVersion)
		}
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	ours, next := newAuthority(t, "ours"), newAuthority(t, "next")
	f := files{t, t.TempDir()}
	keys, trust := f.write("keys.pem", ours.issue("first")), f.write("trust.pem", ours.pem)
	f.touch(keys, -100)
	f.touch(trust, -100)
	var log strings.Builder
	o, err := Options{
		KeyStore: Store{Location: keys}, TrustStore: Store{Location: trust}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	l := &live{opts: o}
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	old, young := ours.client("alice"), next.client("bob")
	want := func(step, name string, oldOK, youngOK bool, logged string) {
		t.Helper()
		for _, c := range []struct {
			cert tls.Certificate
			ok   bool
		}{{old, oldOK}, {young, youngOK}} {
			l.mu.checked = time.Time{} // a second later
			if got, err := handshake(l.config(), c.cert); c.ok && got != name || c.ok != (err == nil) {
				t.Errorf("%s: shown %q, %v; want %q and success %t", step, got, err, name, c.ok)
			}
		}
		if n := strings.Count(log.String(), "\n"); logged == "" && n > 0 || logged != "" && (n != 1 || !strings.Contains(log.String(), logged)) {
			t.Errorf("%s: logged %q, want one line with %q", step, log.String(), logged)
		}
		log.Reset()
	}
	want("at first", "first", true, false, "")
	f.write("keys.pem", ours.issue("second"))
	f.touch(keys, -90)
	want("another key", "second", true, false, "are in force")
	f.write("trust.pem", next.pem)
	f.touch(trust, -80)
	want("another authority", "second", false, true, "are in force")
	f.write("keys.pem", []byte("-----BEGIN NOTHING-----"))
	f.touch(keys, -70)
	want("a broken key", "second", false, true, "not a PEM file")
	want("still broken", "second", false, true, "")
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	want("gone", "second", false, true, "no such file")
	f.write("keys.pem", next.issue("third"))
	f.touch(keys, -60)
	want("whole again", "third", false, true, "are in force")

	// What kept it from being read may go without a trace in its size and time, as a mode does.
	whole := next.issue("unlocked")
	f.write("keys.pem", make([]byte, len(whole)))
	f.touch(keys, -55)
	want("locked", "third", false, true, "not a PEM file")
	info, err := os.Stat(keys)
	if err != nil {
		t.Fatal(err)
	}
	f.write("keys.pem", whole)
	if err := os.Chtimes(keys, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	want("unlocked", "unlocked", false, true, "are in force")

	// Within a second the files are not looked at. What follows may take longer on a busy machine.
	l.mu.checked = time.Now().Add(time.Hour)
	f.write("keys.pem", next.issue("fourth"))
	f.touch(keys, -50)
	if name, err := handshake(l.config(), young); name != "unlocked" || err != nil {
		t.Errorf("within a second: shown %q, %v", name, err)
	}
}

func TestRefusedStores(t *testing.T) {
	ours := newAuthority(t, "ours")
	f := files{t, t.TempDir()}
	good, trust := f.write("good.pem", ours.issue("zk")), f.write("trust.pem", ours.pem)
	other := ours.issue("other")
	key, rest := pem.Decode(other)
	encrypted := pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: key.Bytes})
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"nothing":         {Options{}, "ssl.keyStore.location"},
		"no trust":        {Options{KeyStore: Store{Location: good}}, "ssl.trustStore.location"},
		"unknown auth":    {Options{KeyStore: Store{Location: good}, ClientAuth: "maybe"}, `"maybe"`},
		"no file":         {Options{KeyStore: Store{Location: f.dir + "/none.pem"}, ClientAuth: "none"}, "none.pem"},
		"JKS by type":     {Options{KeyStore: Store{Location: good, Type: "jks"}, ClientAuth: "none"}, "keytool -importkeystore -srckeystore " + good},
		"PKCS12 by type":  {Options{KeyStore: Store{Location: good, Type: "PKCS12"}, ClientAuth: "none"}, "openssl pkcs12 -in " + good},
		"JKS by name":     {Options{KeyStore: Store{Location: f.write("s.jks", ours.pem)}, ClientAuth: "none"}, "type JKS"},
		"JKS by content":  {Options{KeyStore: Store{Location: f.write("s1", []byte("\xfe\xed\xfe\xed\x00\x00\x00\x02"))}, ClientAuth: "none"}, "type JKS"},
		"PKCS12 content":  {Options{KeyStore: Store{Location: f.write("s2", []byte("\x30\x82\x01\x02"))}, ClientAuth: "none"}, "type PKCS12"},
		"BCFKS":           {Options{KeyStore: Store{Location: f.dir + "/s.bcfks"}, ClientAuth: "none"}, "type BCFKS"},
		"no such type":    {Options{KeyStore: Store{Location: good, Type: "ZIP"}, ClientAuth: "none"}, `"ZIP"`},
		"no key":          {Options{KeyStore: Store{Location: trust}, ClientAuth: "none"}, "no private key"},
		"no certificate":  {Options{KeyStore: Store{Location: f.write("k.pem", pem.EncodeToMemory(key))}, ClientAuth: "none"}, "no certificate"},
		"encrypted key":   {Options{KeyStore: Store{Location: f.write("e.pem", append(encrypted, rest...))}, ClientAuth: "none"}, "is encrypted"},
		"not its key":     {Options{KeyStore: Store{Location: f.write("m.pem", append(pem.EncodeToMemory(key), ours.pem...))}, ClientAuth: "none"}, "not that of the first certificate"},
		"two keys":        {Options{KeyStore: Store{Location: f.write("2.pem", append(pem.EncodeToMemory(key), other...))}, ClientAuth: "none"}, "more than one"},
		"trust of nobody": {Options{KeyStore: Store{Location: good}, TrustStore: Store{Location: f.write("t.pem", pem.EncodeToMemory(key))}}, "t.pem: holds no certificate"},
		"no regular file": {Options{KeyStore: Store{Location: f.dir}, ClientAuth: "none"}, "is not a regular file"}, // a pipe would keep us waiting
		"too large":       {Options{KeyStore: Store{Location: f.write("l.pem", make([]byte, storeBytesMax+1))}, ClientAuth: "none"}, "the limit is"},
	} {
		if _, err := New(c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want something about %s", name, err, c.want)
		}
	}
}

func TestKindsOfKeys(t *testing.T) {
	ours := newAuthority(t, "ours")
	f := files{t, t.TempDir()}
	ec := newKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecDER, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typ string
		der []byte
		key crypto.Signer
	}{{"EC PRIVATE KEY", ecDER, ec}, {"RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), rsaKey}} {
		_, cert := pem.Decode(ours.issueFor("zk", c.key))
		// The key behind its certificate: the order does not matter.
		path := f.write("keys.pem", append(cert, pem.EncodeToMemory(&pem.Block{Type: c.typ, Bytes: c.der})...))
		config, err := New(Options{KeyStore: Store{Location: path}, ClientAuth: ClientAuthNone})
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		if name, err := handshake(config); name != "zk" || err != nil {
			t.Errorf("%s: %q, %v", c.typ, name, err)
		}
	}
}
