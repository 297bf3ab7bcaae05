package access

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/printable"
	"github.com/lockkeeper/lockkeeper/internal/tlsconf"
)

// A Dialer makes connections, as client.Options.Dial does.
type Dialer func(ctx context.Context, network, address string) (net.Conn, error)

// A HandshakeError says why there is no TLS with a server that is there.
type HandshakeError struct{ Err error }

func (e *HandshakeError) Error() string {
	text := printable.Text(e.Err.Error()) // there are names in it from a certificate of any origin
	if errors.As(e.Err, new(tls.RecordHeaderError)) || errors.Is(e.Err, io.EOF) || errors.Is(e.Err, syscall.ECONNRESET) {
		return fmt.Sprintf("TLS: %s (is this the server's port for TLS?)", text)
	}
	switch {
	case errors.As(e.Err, new(x509.UnknownAuthorityError)):
		text += " (--tls-ca names a file with the authority)"
	case errors.As(e.Err, new(x509.HostnameError)):
		text += " (--tls-server-name says which name to expect)"
	}
	return "TLS: " + text
}

// Unwrap returns the cause.
func (e *HandshakeError) Unwrap() error { return e.Err }

// Dialer reads the files for TLS and returns what makes connections, which reads them again; see ClientOptions.
func (s Settings) Dialer(notice func(string)) (Dialer, error) {
	plain := (&net.Dialer{}).DialContext
	if !s.TLS() {
		return plain, nil
	}
	config, err := s.readTLS()
	if err != nil {
		return nil, err
	}
	r := &renewal{settings: s, notice: notice}
	r.mu.config = config
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := plain(ctx, network, address)
		if err != nil || network == "unix" {
			return c, err
		}
		config := r.current()
		if config.ServerName == "" {
			if config.ServerName, _, err = net.SplitHostPort(address); err != nil {
				c.Close()
				return nil, err
			}
		}
		request := watchRequest(config, s.Cert)
		over := tls.Client(c, config)
		if err := over.HandshakeContext(ctx); err != nil {
			c.Close()
			return nil, &HandshakeError{request.explain(err)}
		}
		return &conn{over, request}, nil
	}, nil
}

// A certificateRequest tells whether a server has asked for a client certificate during a handshake. What servers answer
// to a missing or unwelcome one differs between TLS versions and releases of Java, so the reason is given in words of our own.
type certificateRequest struct {
	file string // that holds our certificate; empty if there is none
	made atomic.Bool
}

// watchRequest notes in the returned value whether the server asks for a certificate in a handshake with config.
func watchRequest(config *tls.Config, file string) *certificateRequest {
	r := &certificateRequest{file: file}
	ours := config.GetClientCertificate
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		r.made.Store(true)
		if ours == nil {
			return &tls.Certificate{}, nil // none
		}
		return ours(info)
	}
	return r
}

// explain adds the reason to an alert that the server sent after it had asked for a certificate.
func (r *certificateRequest) explain(err error) error {
	var alert *net.OpError
	switch {
	case !r.made.Load() || !errors.As(err, &alert) || alert.Op != "remote error":
		return err
	case r.file == "":
		return fmt.Errorf("the server wants a client certificate (--tls-cert): %w", err)
	}
	return fmt.Errorf("the server refuses the client certificate in %s (--tls-cert): %w", r.file, err)
}

// A conn is a connection over TLS. In TLS 1.3 a server looks at the certificate after the handshake, so its alert is the
// answer to the first Read.
type conn struct {
	*tls.Conn
	request *certificateRequest
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = c.request.explain(err)
	}
	return n, err
}

// readTLS makes a configuration of what the files hold.
func (s Settings) readTLS() (*tls.Config, error) {
	config := &tls.Config{ServerName: s.ServerName}
	if s.CA != "" {
		authorities, err := (&tlsconf.Store{Location: s.CA}).Authorities()
		if err != nil {
			return nil, err
		}
		config.RootCAs = authorities
	}
	if s.Cert != "" {
		certs := tlsconf.Store{Location: s.Cert}
		keys := certs
		if s.Key != "" {
			keys = tlsconf.Store{Location: s.Key}
		}
		pair, err := tlsconf.KeyPair(certs, keys)
		if err != nil {
			return nil, err
		}
		// Also to servers that want one of another authority: they say what is wrong with it, and not
		// that there is none.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return config, nil
}

// A renewal is a configuration that follows its files.
type renewal struct {
	settings Settings
	notice   func(string)

	mu struct {
		sync.Mutex
		config *tls.Config // what was last read in full
		told   string      // why the files could not be used, when they last could not
	}
}

// current returns a configuration for a connection, which is the caller's.
func (r *renewal) current() *tls.Config {
	config, err := r.settings.readTLS()
	r.mu.Lock()
	told := r.mu.told
	r.mu.told = ""
	if err == nil {
		r.mu.config = config
	} else {
		r.mu.told = err.Error()
	}
	config, news := r.mu.config.Clone(), r.mu.told
	r.mu.Unlock()
	if news != "" && news != told {
		r.notice(news + "; what was read before stays in force")
	}
	return config
}
