// Package access is how the command gets to its servers: which ones, over TLS or not, with which identity, and which identities may touch
// what it makes there.
//
// Guarantees:
//
//  1. Settings have names of files and no secrets, so they may travel between processes and stand in the
//     environment. The files are read by the process that has the session, and no error has any of a credential
//     in it.
//  2. The files for TLS are read again for every connection, so that certificates can be renewed under a session.
//     When they cannot be used, what was read before stays in force.
//  3. Credentials are read when a session is opened, and stay the same for as long as it lives, because its znodes may
//     be open to them alone. A file of credentials that other users may read is refused.
package access

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Local in place of a server list means the keeper on this machine.
const Local = "local"

// Settings say how to get to which servers. Names of files are absolute: processes have different directories.
type Settings struct {
	Servers string `json:"servers"` // a server list, or Local

	// TLS is used if any of these is set, but not on sockets of this machine.
	CA         string `json:"tls_ca,omitempty"`          // file with the authorities to believe; empty: the system's
	Cert       string `json:"tls_cert,omitempty"`        // file with the certificate that is shown
	Key        string `json:"tls_key,omitempty"`         // file with its key; empty: it is in Cert
	ServerName string `json:"tls_server_name,omitempty"` // what certificates must be for; empty: the host in Servers

	AuthFile string `json:"auth_file,omitempty"` // file with credentials
	ACL      string `json:"acl,omitempty"`       // World or Creator; empty: World

	ConnectTimeout time.Duration `json:"-"` // how long to look for a server; 0 leaves it to the command

	// Quiet: nothing is said about waiting, for servers or for a lock.
	Quiet bool `json:"quiet,omitempty"`
}

// The values of Settings.ACL: which identities may touch what is made.
const (
	World   = "world"   // all clients
	Creator = "creator" // clients with the credentials, or the certificate, that it was made with
)

// A SettingError says what is wrong with the value of a flag.
type SettingError struct{ Flag, Text string }

func (e *SettingError) Error() string { return "--" + e.Flag + ": " + e.Text }

// Check refuses settings that cannot work, whatever is in the files.
func (s Settings) Check() *SettingError {
	switch {
	case s.Key != "" && s.Cert == "":
		return &SettingError{"tls-key", "a key for TLS without a certificate (--tls-cert)"}
	case !slices.Contains([]string{"", World, Creator}, s.ACL):
		return &SettingError{"acl", "not one of " + World + " and " + Creator}
	case s.ACL == Creator && s.AuthFile == "" && s.Cert == "":
		return &SettingError{"acl", "needs credentials (--auth-file) or a certificate (--tls-cert), by which servers know the creator"}
	}
	return nil
}

// CheckFiles refuses files that cannot be used.
func (s Settings) CheckFiles() *SettingError {
	if s.AuthFile != "" {
		if _, _, err := readCredentials(s.AuthFile); err != nil {
			return &SettingError{"auth-file", err.Error()}
		}
	}
	for _, part := range []struct {
		flag string
		of   Settings
	}{{"tls-ca", Settings{CA: s.CA}}, {"tls-cert", Settings{Cert: s.Cert, Key: s.Key}}} {
		if _, err := part.of.readTLS(); err != nil {
			return &SettingError{part.flag, err.Error()}
		}
	}
	return nil
}

// TLS reports whether TLS is to be used.
func (s Settings) TLS() bool { return s.CA != "" || s.Cert != "" || s.ServerName != "" }

// ClientOptions reads the files and adds what a session needs of them to opt. notice is told when files for TLS
// cannot be used later on.
func (s Settings) ClientOptions(opt client.Options, notice func(string)) (client.Options, error) {
	var err error
	if opt.Dial, err = s.Dialer(notice); err == nil && s.AuthFile != "" {
		opt.Auth, _, err = readCredentials(s.AuthFile)
	}
	return opt, err
}

// MadeACL returns the access control list of what is made; nil lets all clients do everything.
func (s Settings) MadeACL() []zk.ACL {
	if s.ACL == Creator {
		return zk.CreatorACL()
	}
	return nil
}

// Refused reports whether the servers did not let us do something because of our identities.
func Refused(err error) bool {
	return errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrAuthFailed) || errors.Is(err, zk.ErrInvalidACL) ||
		errors.Is(err, zk.ErrSessionClosedRequireSASLAuth)
}

// AsWhom says what the servers know us by, for an error that is a refusal.
func (s Settings) AsWhom(err error) string {
	var shown []string
	if s.AuthFile != "" {
		shown = append(shown, "the credentials in "+s.AuthFile)
	}
	if s.Cert != "" {
		shown = append(shown, "the certificate in "+s.Cert)
	}
	switch {
	case errors.Is(err, zk.ErrInvalidACL) && s.ACL != Creator: // an ACL that the user wrote
		return "the server does not know the scheme of an entry, or its id; entries with auth need credentials that the server takes"
	case len(shown) == 0:
		return "without credentials; --auth-file has some to show"
	case errors.Is(err, zk.ErrAuthFailed) && s.AuthFile != "":
		return "a line of " + s.AuthFile + " is " + credentialForm + refusedLines(s.AuthFile)
	case s.ACL == Creator && errors.Is(err, zk.ErrInvalidACL):
		return "--acl " + Creator + ": the servers know no identity from " + strings.Join(shown, " or ")
	}
	return "with " + strings.Join(shown, " and ")
}
