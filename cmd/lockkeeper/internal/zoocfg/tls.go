package zoocfg

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
)

// Java's names of the versions of TLS that are spoken.
const (
	tls12 = "TLSv1.2"
	tls13 = "TLSv1.3"
)

// protocol takes the name of an SSLContext. ZooKeeper enables that version alone, unless
// ssl.enabledProtocols says more.
func protocol(p *parser, s Setting) error {
	switch s.Value {
	case tls12, tls13:
		p.protocol = s.Value
	case "TLS":
		p.protocol = ""
	default:
		return &Error{s, fmt.Sprintf("must be %s, %s or TLS", tls12, tls13)}
	}
	return nil
}

// enabledProtocols takes the versions of TLS. Older ones are passed over, which refuses clients that
// ZooKeeper would let in, but never one version alone.
func enabledProtocols(p *parser, s Setting) error {
	names := list(s.Value)
	has12, has13 := slices.Contains(names, tls12), slices.Contains(names, tls13)
	if !has12 && !has13 {
		return &Error{s, fmt.Sprintf("must name %s, %s or both", tls12, tls13)}
	}
	if n := slices.DeleteFunc(names, func(n string) bool { return n == tls12 || n == tls13 }); len(n) > 0 {
		p.Notes = append(p.Notes, Note{s, strings.Join(n, ", ") + ": has no effect: only " + tls12 + " and " + tls13 + " are spoken"})
	}
	p.protocols = true
	p.speak(has12, has13)
	return nil
}

// speak says which versions of TLS are spoken.
func (p *parser) speak(has12, has13 bool) {
	p.TLS.MinVersion, p.TLS.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
	if has12 {
		p.TLS.MinVersion = tls.VersionTLS12
	}
	if has13 {
		p.TLS.MaxVersion = tls.VersionTLS13
	}
}

// suites are what ssl.ciphersuites names.
type suites struct {
	setting Setting
	has13   bool     // one of TLS 1.3, where none can be chosen from the others
	of12    []uint16 // numbers of those of TLS 1.2
}

// cipherSuites takes the names of cipher suites, which are Java's and Go's alike. Those that Go does
// not know or thinks unsafe, and those in CBC mode, are passed over.
func cipherSuites(p *parser, s Setting) error {
	named := &suites{setting: s}
	var passed []string
	for _, name := range list(s.Value) {
		i := slices.IndexFunc(tls.CipherSuites(), func(c *tls.CipherSuite) bool { return c.Name == name })
		if i < 0 || strings.Contains(name, "_CBC_") {
			passed = append(passed, name)
			continue
		}
		c := tls.CipherSuites()[i]
		if slices.Contains(c.SupportedVersions, tls.VersionTLS13) {
			named.has13 = true
		} else {
			named.of12 = append(named.of12, c.ID)
		}
	}
	if !named.has13 && len(named.of12) == 0 {
		return &Error{s, "names no cipher suite that Go speaks and thinks safe, as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is"}
	}
	if len(passed) > 0 {
		p.Notes = append(p.Notes, Note{s, strings.Join(passed, ", ") + ": has no effect: Go does not know it or thinks it unsafe, or it is in CBC mode"})
	}
	p.suites = named
	return nil
}

// tls puts together which versions and cipher suites are spoken. A version without a named suite
// is not, as in Java.
func (p *parser) tls() error {
	if p.protocol != "" && !p.protocols {
		p.speak(p.protocol == tls12, p.protocol == tls13)
	}
	if p.suites == nil {
		return nil
	}
	may12 := p.TLS.MinVersion != tls.VersionTLS13 && len(p.suites.of12) > 0
	may13 := p.TLS.MaxVersion != tls.VersionTLS12 && p.suites.has13
	if !may12 && !may13 {
		return &Error{p.suites.setting, "names no cipher suite of the version of TLS that is asked for"}
	}
	p.speak(may12, may13)
	if may12 {
		p.TLS.CipherSuites = p.suites.of12
	}
	return nil
}

// list splits at commas, and leaves out blanks and nothing.
func list(value string) (items []string) {
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		if item != "" {
			items = append(items, item)
		}
	}
	return items
}
