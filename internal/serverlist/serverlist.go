// Package serverlist reads lists of servers as ZooKeeper's clients write them: "host:port,host:port/chroot". The port may be left out
// (2181), IPv6 addresses stand in brackets, and "unix:/path" is a socket of this machine. The chroot, if any, follows the last server;
// behind a socket it cannot be given.
package serverlist

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/lockkeeper/lockkeeper/zk"
)

// A Server is one entry of a server list.
type Server struct {
	Network string // "tcp" or "unix"
	Address string // host:port, or the path of a socket
	Host    string // what a certificate has to vouch for; empty for a socket
}

func (s Server) String() string {
	if s.Network == "unix" {
		return "unix:" + s.Address
	}
	return s.Address
}

const defaultPort = "2181"

// Parse reads a server list, and returns its servers and its chroot; "" is none. The caller names the list in errors.
func Parse(list string) (servers []Server, chroot string, err error) {
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
			servers = append(servers, Server{Network: "unix", Address: path})
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

// Check returns what is wrong with a server list.
func Check(list string) error {
	_, _, err := Parse(list)
	return err
}

func parseServer(entry string) (Server, error) {
	host, port, err := net.SplitHostPort(entry)
	if err != nil { // most likely there is no port
		host, port = strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), defaultPort
		if strings.Contains(host, ":") && !strings.HasPrefix(entry, "[") {
			return Server{}, fmt.Errorf("%q is not host:port (an IPv6 address stands in brackets)", entry)
		}
	}
	if host == "" {
		return Server{}, fmt.Errorf("%q has no host (it is host:port or unix:/path)", entry)
	}
	if strings.ContainsFunc(host, unicode.IsSpace) {
		return Server{}, fmt.Errorf("%q has a blank in the host (servers are separated by commas)", entry)
	}
	if strings.ContainsAny(host, "\"'") {
		return Server{}, fmt.Errorf("%s has a quote in the host", entry)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return Server{}, fmt.Errorf("%q: port %q is not a number from 1 to 65535", entry, port)
	}
	return Server{Network: "tcp", Address: net.JoinHostPort(host, port), Host: host}, nil
}
