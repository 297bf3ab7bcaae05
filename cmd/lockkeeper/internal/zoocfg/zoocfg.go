// Package zoocfg reads the configuration of Apache ZooKeeper, zoo.cfg, as far as it concerns a server
// that stands alone. Guarantees:
//
//  1. every key of ZooKeeper's that matters to such a server is either in force or spoken of: a value
//     that cannot be is an error that names the place, the key, the value and what is allowed; a key
//     without effect here is a note that says why; an unknown one is listed;
//  2. what would leave the server open to a client that ZooKeeper would refuse is an error, not a note;
//  3. more than one server line is an error that says how to run such an ensemble;
//  4. no error and no note repeats a secret.
//
// The file is one of Java's properties files; see Read. Keys that ZooKeeper hands on to the JVM as
// properties may carry the prefix that they have there, "zookeeper.". Of a key that comes twice the last
// one counts.
package zoocfg

import (
	"cmp"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/tlsconf"
	"github.com/lockkeeper/lockkeeper/server"
)

// Config is what settings say, with ZooKeeper's defaults for what they do not.
type Config struct {
	Server server.Options // without a Logger, and without a DataDir if none is set

	Address       string // host:port for clients; empty without clientPort
	SecureAddress string // the same with TLS; empty without secureClientPort
	TLS           tlsconf.Options

	SecureAsked bool // lockkeeper.secure is set, be it to true or to false

	Admin   Admin
	Metrics string // host:port for Prometheus alone; empty if it was not asked for

	Ensemble []Setting // that concern an ensemble only, and are passed over
	Notes    []Note
	Unknown  []Setting
	Public   string // all settings, as text, without the secrets
}

// Admin is the HTTP port.
type Admin struct {
	Enabled     bool
	Asked       bool   // for, by a setting that concerns it
	Host, Port  string // no host is none given; ZooKeeper would listen everywhere
	CommandPath string
}

// A Note is what to tell about a setting that is not in force as it is meant.
type Note struct {
	Setting
	Text string
}

func (n Note) String() string {
	return fmt.Sprintf("%s: %s: %s", n.Where, n.shown(), n.Text)
}

// An Error says which setting cannot be used, and why.
type Error struct {
	Setting
	Reason string // what is allowed
}

func (e *Error) Error() string { return e.Where + ": " + e.Text() }

// Text is the error without the place.
func (e *Error) Text() string { return e.shown() + ": " + e.Reason }

// shown is the setting for a log, which is no place for secrets.
func (s Setting) shown() string {
	if s.secret() {
		return s.Key + "=…"
	}
	return s.Key + "=" + s.Value
}

func (s Setting) secret() bool {
	key := strings.ToLower(s.Key)
	return strings.HasSuffix(key, "password") || strings.HasSuffix(key, "superdigest")
}

// Parse puts settings together.
func Parse(settings []Setting) (Config, error) {
	p := parser{Config: defaults(), adminPort: "8080", minTimeout: unset, maxTimeout: unset}
	for _, s := range lastOfEach(settings) {
		if !s.secret() {
			p.Public += s.Key + "=" + s.Value + "\n"
		}
		if err := p.take(s); err != nil {
			return Config{}, err
		}
	}
	if err := p.finish(); err != nil {
		return Config{}, err
	}
	return p.Config, nil
}

// propertyPrefix is what the names of ZooKeeper's JVM properties begin with.
const propertyPrefix = "zookeeper."

// lastOfEach leaves out the settings that later ones replace, and takes the prefix off properties.
func lastOfEach(settings []Setting) []Setting {
	var kept []Setting
	for _, s := range settings {
		if name, ok := strings.CutPrefix(s.Key, propertyPrefix); ok && isProperty(name) {
			s.Key = name
		}
		kept = slices.DeleteFunc(kept, func(old Setting) bool { return old.Key == s.Key })
		kept = append(kept, s)
	}
	return kept
}

func defaults() Config {
	var c Config
	c.Server.TickTime = tickDefault
	c.Server.SnapRetain = -1 // without autopurge ZooKeeper keeps everything
	c.Admin = Admin{Enabled: true, CommandPath: "/commands"}
	return c
}

const (
	tickDefault  = 3 * time.Second
	unset        = -1 // the default, in ZooKeeper's words
	unlimited    = -1 // in those of server.Options
	retainMin    = 3
	minTicks     = 2 // the default of minSessionTimeout
	maxTicks     = 20
	snapCountMin = 2
)

// A parser collects what settings say piece by piece.
type parser struct {
	Config
	host, port             string // of clients
	secureHost, securePort string
	adminPort              string
	minTimeout, maxTimeout int64 // milliseconds, or unset
	purges                 bool
	retain                 int
	prometheus             bool
	metricsHost            string
	metricsPort            string
	servers                []Setting
	protocol               string // of ssl.protocol, unless it is both
	protocols              bool   // ssl.enabledProtocols says which
	suites                 *suites
}

// take takes one setting.
func (p *parser) take(s Setting) error {
	switch r := ruleOf(s.Key); {
	case r != nil:
		return r(p, s)
	case concernsEnsemble(s.Key):
		p.Ensemble = append(p.Ensemble, s)
	default:
		p.Unknown = append(p.Unknown, s)
	}
	return nil
}

// finish puts together what takes more than one setting.
func (p *parser) finish() error {
	if err := p.ensemble(); err != nil {
		return err
	}
	if err := p.tls(); err != nil {
		return err
	}
	ms := func(n int64, ticks time.Duration) time.Duration {
		if n == unset {
			return ticks * p.Server.TickTime
		}
		return time.Duration(max(n, 1)) * time.Millisecond
	}
	p.Server.MinSessionTimeout, p.Server.MaxSessionTimeout = ms(p.minTimeout, minTicks), ms(p.maxTimeout, maxTicks)
	if p.Server.MinSessionTimeout > p.Server.MaxSessionTimeout {
		return fmt.Errorf("minSessionTimeout of %v is longer than maxSessionTimeout of %v (their defaults are %d and %d times tickTime, which is %v)",
			p.Server.MinSessionTimeout, p.Server.MaxSessionTimeout, minTicks, maxTicks, p.Server.TickTime)
	}
	if p.Server.MinSessionTimeout > math.MaxInt32*time.Millisecond {
		return fmt.Errorf("tickTime of %v is too long: clients cannot be told session timeouts of %d ticks", p.Server.TickTime, minTicks)
	}
	if p.purges {
		p.Server.SnapRetain = max(p.retain, retainMin)
	}
	if p.port != "" && (p.port != "0" || p.securePort == "") { // beside a port with TLS, 0 is none: else clients could come without TLS
		p.Address = net.JoinHostPort(p.host, p.port)
	}
	if p.securePort != "" {
		p.SecureAddress = net.JoinHostPort(cmp.Or(p.secureHost, p.host), p.securePort)
	}
	p.Admin.Port = p.adminPort
	if p.prometheus {
		if p.metricsPort == "" {
			p.metricsPort = "7000"
		}
		p.Metrics = net.JoinHostPort(p.metricsHost, p.metricsPort)
	}
	return nil
}
