package tlsconf

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// stamps are what shows, without reading them, that files have changed.
type stamps [2]struct {
	modified time.Time
	size     int64
}

func (o *Options) stamps() (s stamps) {
	for i, path := range []string{o.KeyStore.Location, o.TrustStore.Location} {
		if info, err := os.Stat(path); err == nil {
			s[i].modified, s[i].size = info.ModTime(), info.Size()
		}
	}
	return s
}

// KeyPair reads a private key from keys and its certificates from certs, in whatever order they stand there. Both
// may be the same file.
func KeyPair(certs, keys Store) (tls.Certificate, error) {
	blocks, err := certs.blocks()
	if err != nil {
		return tls.Certificate{}, err
	}
	var cert tls.Certificate
	for _, b := range blocks {
		if b.Type == "CERTIFICATE" {
			cert.Certificate = append(cert.Certificate, b.Bytes)
		}
	}
	if keys != certs {
		if blocks, err = keys.blocks(); err != nil {
			return tls.Certificate{}, err
		}
	}
	var key crypto.PrivateKey
	for _, b := range blocks {
		if !strings.HasSuffix(b.Type, "PRIVATE KEY") {
			continue
		}
		if key != nil {
			return tls.Certificate{}, keys.fail(errors.New("holds more than one private key"))
		}
		if key, err = keys.privateKey(b); err != nil {
			return tls.Certificate{}, keys.fail(err)
		}
	}
	switch {
	case key == nil:
		return tls.Certificate{}, keys.fail(errors.New("holds no private key"))
	case len(cert.Certificate) == 0:
		return tls.Certificate{}, certs.fail(errors.New("holds no certificate"))
	}
	cert.PrivateKey = key
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		return tls.Certificate{}, certs.fail(err)
	}
	public, ok := key.(interface{ Public() crypto.PublicKey }).Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(cert.Leaf.PublicKey) {
		where := ""
		if keys != certs {
			where = " in " + certs.Location
		}
		return tls.Certificate{}, keys.fail(fmt.Errorf("the private key is not that of the first certificate%s", where))
	}
	return cert, nil
}

// privateKey reads a private key in any of the forms that openssl writes.
func (s *Store) privateKey(b *pem.Block) (crypto.PrivateKey, error) {
	if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
		return nil, fmt.Errorf("the private key is encrypted, which is not supported: guard the file by its mode, and decrypt the key: openssl pkey -in %s -out key.pem", s.Location)
	}
	switch b.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.Bytes)
	}
	return x509.ParsePKCS8PrivateKey(b.Bytes)
}

// Authorities reads the certificates to believe.
func (s *Store) Authorities() (*x509.CertPool, error) {
	blocks, err := s.blocks()
	if err != nil {
		return nil, err
	}
	pool, n := x509.NewCertPool(), 0
	for _, b := range blocks {
		if b.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, s.fail(err)
		}
		pool.AddCert(cert)
		n++
	}
	if n == 0 {
		return nil, s.fail(errors.New("holds no certificate"))
	}
	return pool, nil
}

// storeBytesMax is the largest file that is read.
const storeBytesMax = 4 << 20

// blocks reads what stands in a PEM file.
func (s *Store) blocks() ([]*pem.Block, error) {
	if err := s.checkType(); err != nil {
		return nil, err
	}
	switch info, err := os.Stat(s.Location); {
	case err != nil:
		return nil, fmt.Errorf("tls: %w", err)
	case !info.Mode().IsRegular(): // a pipe would block until a program writes to it, and be empty the next time
		return nil, s.fail(errors.New("is not a regular file"))
	case info.Size() > storeBytesMax:
		return nil, s.fail(fmt.Errorf("has %d bytes, the limit is %d", info.Size(), storeBytesMax))
	}
	f, err := os.Open(s.Location)
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	defer f.Close()
	rest, err := io.ReadAll(io.LimitReader(f, storeBytesMax))
	if err != nil {
		return nil, fmt.Errorf("tls: %w", err)
	}
	var blocks []*pem.Block
	for {
		var b *pem.Block
		b, rest = pem.Decode(rest)
		if b == nil {
			break
		}
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 {
		if typ := recognize(rest); typ != "" {
			return nil, s.refuse(typ)
		}
		return nil, s.fail(errors.New("is not a PEM file"))
	}
	return blocks, nil
}

// checkType refuses what is declared, or by its name, not PEM.
func (s *Store) checkType() error {
	typ := strings.ToUpper(s.Type)
	if typ == "" {
		switch strings.ToLower(filepath.Ext(s.Location)) {
		case ".jks":
			typ = "JKS"
		case ".p12", ".pfx":
			typ = "PKCS12"
		case ".bcfks":
			typ = "BCFKS"
		default: // .pem, or a name that says nothing
			return nil
		}
	}
	switch typ {
	case "PEM":
		return nil
	case "JKS", "PKCS12", "BCFKS":
		return s.refuse(typ)
	}
	return s.fail(fmt.Errorf("is said to be of type %q, which does not exist: PEM is what can be read", s.Type))
}

// recognize names the kind of store that does not call itself what it is.
func recognize(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte{0xfe, 0xed, 0xfe, 0xed}):
		return "JKS"
	case bytes.HasPrefix(b, []byte{0x30, 0x82}):
		return "PKCS12"
	}
	return ""
}

// refuse is the error of a store in a format of Java's, and what to do about it.
func (s *Store) refuse(typ string) error {
	advice := "openssl pkcs12 -in " + s.Location + " -nodes -out store.pem"
	switch typ {
	case "JKS":
		advice = "keytool -importkeystore -srckeystore " + s.Location + " -destkeystore store.p12 -deststoretype PKCS12 && openssl pkcs12 -in store.p12 -nodes -out store.pem"
	case "BCFKS":
		advice = "export its keys and certificates"
	}
	return s.fail(fmt.Errorf("is of type %s, which cannot be read here: convert it to PEM (%s) and give that", typ, advice))
}

func (s *Store) fail(err error) error { return fmt.Errorf("tls: %s: %w", s.Location, err) }
