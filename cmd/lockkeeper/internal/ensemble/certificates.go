package ensemble

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateYears is how long what is made here is valid. The authorities are for one ensemble alone.
const certificateYears = 10

// certificates are those of an ensemble.
type certificates struct {
	files []file
	pem   map[string][]byte // content, by path below Out
}

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // the certificate
}

// certificates makes the certificates of an ensemble with TLS, or takes those that are in its directory. There are two
// authorities: one for servers and clients, and one for the members among themselves, so that no client's certificate is good
// for the ports of the members.
func (s *Spec) certificates() (*certificates, error) {
	c := &certificates{pem: map[string][]byte{}}
	if !s.TLS {
		return c, nil
	}
	clients, err := c.authority(s.Out, "ca", "Authority of a ZooKeeper ensemble")
	if err != nil {
		return nil, err
	}
	members, err := c.authority(s.Out, "quorum-ca", "Authority of the members of a ZooKeeper ensemble")
	if err != nil {
		return nil, err
	}
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	for _, m := range s.Members {
		dir := filepath.Join(m.Folder(), "tls")
		c.add(s.Out, filepath.Join(dir, "ca.pem"), publicMode, clients.pem)
		c.add(s.Out, filepath.Join(dir, "quorum-ca.pem"), publicMode, members.pem)
		if err := c.signed(s.Out, filepath.Join(dir, "server.pem"), clients, s.names(m), both); err != nil {
			return nil, err
		}
		if err := c.signed(s.Out, filepath.Join(dir, "quorum.pem"), members, []string{m.Host}, both); err != nil {
			return nil, err
		}
	}
	return c, c.signed(s.Out, filepath.Join("tls", "client.pem"), clients, []string{"client"}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth})
}

// names returns the names by which clients reach a member.
func (s *Spec) names(m Member) []string {
	all := []string{m.Host}
	switch s.Format {
	case FormatCompose: // its ports are on this machine
		all = append(all, "localhost", localPlaces)
	case FormatKubernetes:
		service := s.Name + "." + s.Namespace
		all = append(all, s.Name, service, service+".svc", service+".svc.cluster.local")
	}
	return all
}

func (c *certificates) add(out, name string, mode fs.FileMode, data []byte) {
	c.files = append(c.files, file{path: filepath.Join(out, name), mode: mode, data: data})
	c.pem[name] = data
}

// authority reads an authority from the directory tls, or makes one.
func (c *certificates) authority(out, name, subject string) (*authority, error) {
	certName, keyName := filepath.Join("tls", name+".pem"), filepath.Join("tls", name+"-key.pem")
	certPath, keyPath := filepath.Join(out, certName), filepath.Join(out, keyName)
	certPEM, err := os.ReadFile(certPath)
	keyPEM, keyErr := os.ReadFile(keyPath)
	switch {
	case err == nil && keyErr == nil:
		a, err := readAuthority(certPEM, keyPEM)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certPath, keyPath, err)
		}
		c.add(out, certName, publicMode, certPEM)
		c.add(out, keyName, secretMode, keyPEM)
		return a, nil
	case !errors.Is(err, fs.ErrNotExist) || !errors.Is(keyErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%s and %s: one of them cannot be read: %w (put it back, or remove both for a new authority)", certPath, keyPath, errors.Join(err, keyErr))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(subject)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if keyPEM, err = keyText(key); err != nil {
		return nil, err
	}
	c.add(out, certName, publicMode, certPEM)
	c.add(out, keyName, secretMode, keyPEM)
	return readAuthority(certPEM, keyPEM)
}

func readAuthority(certPEM, keyPEM []byte) (*authority, error) {
	block, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if block == nil || keyBlock == nil {
		return nil, errors.New("not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok || !cert.IsCA {
		return nil, errors.New("no authority")
	}
	return &authority{cert: cert, key: signer, pem: certPEM}, nil
}

// signed adds a file with a certificate, for names of a host, and its key: that which is in the directory if it is still good, or a new one.
func (c *certificates) signed(out, name string, from *authority, names []string, uses []x509.ExtKeyUsage) error {
	path := filepath.Join(out, name)
	old, err := os.ReadFile(path)
	switch {
	case err == nil:
		if err := from.check(old, names); err != nil {
			return fmt.Errorf("%s: %w (remove it, and the next run makes a new one)", path, err)
		}
		c.add(out, name, secretMode, old)
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template, err := newTemplate(names[0])
	if err != nil {
		return err
	}
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, uses
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, from.cert, key.Public(), from.key)
	if err != nil {
		return err
	}
	text, err := keyText(key)
	if err != nil {
		return err
	}
	c.add(out, name, secretMode, append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...))
	return nil
}

// check returns why a file's certificate is no good for a host with these names.
func (a *authority) check(text []byte, names []string) error {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		pool.AddCert(a.cert)
		for _, name := range names {
			if _, err := cert.Verify(x509.VerifyOptions{DNSName: name, Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
				return err
			}
		}
		return nil
	}
	return errors.New("holds no certificate")
}

// serialBits is the length of serial numbers, which have to be without a pattern.
const serialBits = 127

func newTemplate(name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, err
	}
	now := time.Now().Add(-time.Hour) // clocks differ
	return &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.AddDate(certificateYears, 0, 0)}, nil
}

// keyText writes a key as Java reads it: PKCS 8.
func keyText(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return b.Bytes(), err
}
