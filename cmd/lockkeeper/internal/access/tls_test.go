package access

import (
	"crypto/x509"
	"strings"
	"testing"
)

// The names in a certificate that is refused come from the other end, and go to the user's terminal.
func TestNamesInACertificateAreMadeHarmless(t *testing.T) {
	err := &HandshakeError{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"zk\x1b[2J\u009b31m"}}, Host: "localhost"}}
	if got := err.Error(); !strings.Contains(got, "zk?[2J?31m") {
		t.Errorf("the error is %q", got)
	}
}
