package client

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A server is one entry of a server list.
type server struct {
	network string // "tcp" or "unix"
	address string // host:port, or the path of a socket
	host    string // what a certificate has to vouch for; empty for a socket
}

func (s server) String() string {
	if s.network == "unix" {
		return "unix:" + s.address
	}
	return s.address
}

const defaultPort = "2181"

// parseServers reads a server list: "host:port,host:port/chroot". The port may be left out (2181),
// IPv6 addresses stand in brackets, and "unix:/path" is a socket of this machine. The chroot, if
// any, follows the last server; behind a socket it cannot be given. The caller names the list in errors.
func parseServers(list string) (servers []server, chroot string, err error) {
	if strings.TrimSpace(list) == "" {
		return nil, "", errors.New("it is empty")
	}
	entries := strings.Split(list, ",")
	for i, entry := range entries {
		entry = strings.TrimSpace(entry)
		if path, ok := strings.CutPrefix(entry, "unix:"); ok {
			if path == "" {
				return nil, "", errors.New("unix: without a path")
			}
			servers = append(servers, server{network: "unix", address: path})
			continue
		}
		if scheme, _, ok := strings.Cut(entry, "://"); ok { // what follows would be taken for a chroot
			return nil, "", fmt.Errorf("a server is host:port, without %s:// (a list is host:port,host:port/chroot, not a URL)", scheme)
		}
		if j := strings.IndexByte(entry, '/'); j >= 0 {
			if i != len(entries)-1 {
				return nil, "", errors.New("a chroot may only follow the last server")
			}
			entry, chroot = entry[:j], strings.TrimSuffix(entry[j:], "/")
			if chroot != "" {
				err := zk.ValidatePath(chroot)
				if chroot == "/" {
					err = &zk.PathError{Path: "//", Reason: "has an empty name"}
				}
				if err != nil {
					return nil, "", fmt.Errorf("chroot: %w", err)
				}
			}
		}
		s, err := parseServer(entry)
		if err != nil {
			return nil, "", err
		}
		servers = append(servers, s)
	}
	return servers, chroot, nil
}

func parseServer(entry string) (server, error) {
	host, port, err := net.SplitHostPort(entry)
	if err != nil { // most likely there is no port
		host, port = strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), defaultPort
		if strings.Contains(host, ":") && !strings.HasPrefix(entry, "[") {
			return server{}, fmt.Errorf("%q is not host:port (an IPv6 address stands in brackets)", entry)
		}
	}
	if host == "" {
		return server{}, fmt.Errorf("%q has no host (it is host:port or unix:/path)", entry)
	}
	if strings.ContainsFunc(host, unicode.IsSpace) {
		return server{}, fmt.Errorf("%q has a blank in the host (servers are separated by commas)", entry)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return server{}, fmt.Errorf("%q: port %q is not a number from 1 to 65535", entry, port)
	}
	return server{network: "tcp", address: net.JoinHostPort(host, port), host: host}, nil
}

// goodAfter is how long a connection must have lasted to count as good.
const goodAfter = time.Second

// backoff returns how long to pause before a round through the servers, after so many in vain: not at all before the first, then
// BackoffMin, doubling up to BackoffMax, each shortened by a random part of up to a half so that clients do not march in step.
// Only a connection that proved good starts the count again: a server that accepts and hangs up at once is no better than one
// that refuses.
func (o *Options) backoff(rounds int) time.Duration {
	if rounds == 0 {
		return 0
	}
	d := o.BackoffMax
	if o.BackoffMin <= d>>(rounds-1) { // or it could overflow
		d = o.BackoffMin << (rounds - 1)
	}
	return d - rand.N(d/2+1)
}

// serverPath returns the server's name for a path of ours.
func (s *Session) serverPath(path string) string {
	if path == "/" && s.chroot != "" {
		return s.chroot
	}
	return s.chroot + path
}

// serverPathOfNew is serverPath for a znode to be made: the path of a sequential one is only how its name begins.
func (s *Session) serverPathOfNew(path string, mode zk.Mode) string {
	if path == "/" && mode.Sequential() {
		return s.chroot + "/"
	}
	return s.serverPath(path)
}

// clientPath returns our name for a path of the server's.
func (s *Session) clientPath(path string) string {
	if s.chroot == "" {
		return path
	}
	rest, ok := strings.CutPrefix(path, s.chroot)
	switch {
	case ok && rest == "":
		return "/"
	case ok && rest[0] == '/':
		return rest
	}
	return path
}
