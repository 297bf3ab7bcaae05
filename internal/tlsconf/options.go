package tlsconf

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// A Store is a file that holds keys or certificates, as ZooKeeper's settings describe it.
type Store struct {
	// Location is the path of the file (ssl.keyStore.location, ssl.trustStore.location).
	Location string
	// Password is taken and has no effect (ssl.keyStore.password): encrypted private keys are refused, and the
	// certificates of a trust store need none.
	Password string
	// Type is PEM, or empty: then the name of the file says it (ssl.keyStore.type,
	// ssl.trustStore.type). JKS, PKCS12 and BCFKS are refused.
	Type string
}

// Options say what a listener with TLS shows and demands.
type Options struct {
	// KeyStore holds the server's private key and its certificate, followed by those between it
	// and an authority. It is required.
	KeyStore Store
	// TrustStore holds the certificates of the authorities that vouch for clients. It is required
	// unless ClientAuth is "none".
	TrustStore Store
	// ClientAuth says whether clients show a certificate (ssl.clientAuth): they must with "need",
	// may with "want", and are not asked with "none". Default "need", as in ZooKeeper.
	ClientAuth string
	// MinVersion and MaxVersion bound the versions of TLS that are used
	// (ssl.enabledProtocols), in the numbers of crypto/tls. Defaults 1.2 and 1.3.
	MinVersion, MaxVersion uint16
	// CipherSuites are those that are used with TLS 1.2 (ssl.ciphersuites), in the numbers of crypto/tls;
	// those of TLS 1.3 cannot be chosen. Default SafeSuites.
	CipherSuites []uint16
	// Logger hears of files read again, and of those that cannot be used. Default silence.
	Logger *slog.Logger
}

// Values of Options.ClientAuth, in ZooKeeper's words.
const (
	ClientAuthNeed = "need"
	ClientAuthWant = "want"
	ClientAuthNone = "none"
)

// SafeSuites returns the numbers of the cipher suites of TLS 1.2 that Go thinks safe, without those in CBC mode, against
// which there are attacks that measure times. Java and OpenSSL have the others since 2014 at the latest.
func SafeSuites() (ids []uint16) {
	for _, c := range tls.CipherSuites() {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS12) && !strings.Contains(c.Name, "_CBC_") {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// withDefaults fills in what is empty, and refuses what contradicts itself.
func (o Options) withDefaults() (Options, error) {
	if o.ClientAuth == "" {
		o.ClientAuth = ClientAuthNeed
	}
	if o.MinVersion == 0 {
		o.MinVersion = tls.VersionTLS12
	}
	if o.MaxVersion == 0 {
		o.MaxVersion = tls.VersionTLS13
	}
	if o.MinVersion < tls.VersionTLS12 || o.MinVersion > o.MaxVersion {
		return o, fmt.Errorf("tls: versions from %s to %s: the oldest that is spoken is %s",
			tls.VersionName(o.MinVersion), tls.VersionName(o.MaxVersion), tls.VersionName(tls.VersionTLS12))
	}
	if o.CipherSuites == nil {
		o.CipherSuites = SafeSuites()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.KeyStore.Location == "" {
		return o, errors.New("tls: no key store given (ssl.keyStore.location): it holds the server's key and certificate")
	}
	if _, err := o.clientAuth(); err != nil {
		return o, err
	}
	if o.ClientAuth != ClientAuthNone && o.TrustStore.Location == "" {
		return o, fmt.Errorf("tls: no trust store given (ssl.trustStore.location), which says whose clients to believe; without one, ssl.clientAuth must be %s", ClientAuthNone)
	}
	return o, nil
}

func (o *Options) clientAuth() (tls.ClientAuthType, error) {
	switch o.ClientAuth {
	case ClientAuthNeed:
		return tls.RequireAndVerifyClientCert, nil
	case ClientAuthWant:
		return tls.VerifyClientCertIfGiven, nil
	case ClientAuthNone:
		return tls.NoClientCert, nil
	}
	return 0, fmt.Errorf("tls: ssl.clientAuth is %q, which is none of %s, %s and %s", o.ClientAuth, ClientAuthNeed, ClientAuthWant, ClientAuthNone)
}
