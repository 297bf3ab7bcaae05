package tlsconf

import (
	"crypto/tls"
	"sync"
	"time"
)

// checkEvery is how often, at most, the files are looked at.
const checkEvery = time.Second

// New reads the files and returns the configuration of a listener (tls.NewListener), which reads
// them again when they change.
func New(o Options) (*tls.Config, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	l := &live{opts: o}
	if err := l.begin(); err != nil {
		return nil, err
	}
	return l.config(), nil
}

// live is a configuration that follows its files.
type live struct {
	opts Options

	mu struct {
		sync.Mutex
		config  *tls.Config // what was last read in full
		seen    stamps      // of the files when they were last read, in full or not
		failed  bool        // then they could not be used
		checked time.Time
	}
}

// begin reads the files for the first time.
func (l *live) begin() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.config, l.mu.seen, err = l.opts.read()
	l.mu.checked = time.Now()
	return err
}

// config returns a configuration that asks for the current one at each handshake.
func (l *live) config() *tls.Config {
	return &tls.Config{
		MinVersion: l.opts.MinVersion,
		MaxVersion: l.opts.MaxVersion,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.current(), nil
		},
	}
}

// current returns the configuration for a handshake. A handshake that comes while the files are being read
// waits for it: a moment, and the files' owner has asked for it.
func (l *live) current() *tls.Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.mu.checked) < checkEvery {
		return l.mu.config
	}
	l.mu.checked = now
	changed := l.opts.stamps() != l.mu.seen
	if !changed && !l.mu.failed { // what kept them from being read need not have been in them
		return l.mu.config
	}
	config, seen, err := l.opts.read()
	l.mu.seen, l.mu.failed = seen, err != nil
	if err != nil {
		if changed {
			l.opts.Logger.Error("TLS files have changed and cannot be used; what was read before stays in force", "err", err)
		}
		return l.mu.config
	}
	l.opts.Logger.Info("TLS files have changed and are in force",
		"keys", l.opts.KeyStore.Location, "trust", l.opts.TrustStore.Location)
	l.mu.config = config
	return config
}

// read makes a configuration of what the files hold.
func (o *Options) read() (*tls.Config, stamps, error) {
	seen := o.stamps() // before reading, so that a change in between is noticed next time
	cert, err := KeyPair(o.KeyStore, o.KeyStore)
	if err != nil {
		return nil, seen, err
	}
	auth, err := o.clientAuth()
	if err != nil {
		return nil, seen, err
	}
	config := &tls.Config{
		MinVersion:             o.MinVersion,
		MaxVersion:             o.MaxVersion,
		CipherSuites:           o.CipherSuites,
		Certificates:           []tls.Certificate{cert},
		ClientAuth:             auth,
		SessionTicketsDisabled: true,
	}
	if auth != tls.NoClientCert {
		if config.ClientCAs, err = o.TrustStore.Authorities(); err != nil {
			return nil, seen, err
		}
	}
	return config, seen, nil
}
