package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
	"github.com/lockkeeper/lockkeeper/internal/tlsconf"
)

// adminHostDefault is where the admin port listens: for this machine only, since it has much to tell and
// asks for no identity.
const adminHostDefault = "127.0.0.1"

// The listeners of a server. Those that are not wanted are nil.
type listeners struct {
	clients, secure net.Listener
	admin, metrics  net.Listener
}

// doors are the listeners that clients come by.
func (l *listeners) doors() []net.Listener { return present(l.clients, l.secure) }

func (l *listeners) close() {
	for _, one := range present(l.clients, l.secure, l.admin, l.metrics) {
		one.Close()
	}
}

func present(all ...net.Listener) []net.Listener {
	return slices.DeleteFunc(all, func(l net.Listener) bool { return l == nil })
}

// attrs tells a log where the listeners are.
func (l *listeners) attrs() []any {
	var attrs []any
	for _, one := range []struct {
		name string
		net.Listener
	}{{"address", l.clients}, {"secure", l.secure}, {"admin", l.admin}, {"metrics", l.metrics}} {
		if one.Listener != nil {
			attrs = append(attrs, one.name, one.Addr().String())
		}
	}
	return attrs
}

// listenAll opens the listeners of a configuration. An admin port that is just the
// default was not asked for, so a taken one is only warned of.
func listenAll(c *zoocfg.Config, f serverFlags, warn func(string, error)) (l listeners, err error) {
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if c.SecureAddress != "" {
		config, err := tlsconf.New(c.TLS)
		if err != nil {
			return l, exit.Errorf(f.wrongConfig(), "server: secureClientPort: %w", err)
		}
		plain, err := listenOn(c.SecureAddress, "secureClientPort")
		if err != nil {
			return l, err
		}
		l.secure = tls.NewListener(plain, config)
	}
	if c.Address != "" {
		setting := "--listen"
		if f.listen == "" && f.config != "" {
			setting = "clientPort"
		}
		if l.clients, err = listenOn(c.Address, setting); err != nil {
			return l, err
		}
	}
	if c.Metrics != "" {
		if l.metrics, err = listenOn(c.Metrics, "metricsProvider.httpPort"); err != nil {
			return l, err
		}
	}
	if c.Admin.Enabled {
		address := net.JoinHostPort(cmp.Or(c.Admin.Host, adminHostDefault), c.Admin.Port)
		if l.admin, err = listenOn(address, "admin.serverPort"); err != nil && !c.Admin.Asked {
			warn(address, err)
			err = nil
		}
	}
	return l, err
}

// listenOn opens a listener on host:port or unix:/path, which the named setting says.
func listenOn(address, setting string) (net.Listener, error) {
	network := "tcp"
	path, isSocket := strings.CutPrefix(address, "unix:")
	if isSocket {
		network, address = "unix", path
		if path == "" {
			return nil, exit.Errorf(exit.Usage, "server: %s unix: without a path", setting)
		}
		// A socket without a server behind it is left over from a server that was killed. A file of another kind
		// does not answer either.
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
			return nil, exit.Errorf(exit.OS, "server: %s is there, and is no socket (choose another place with %s)", path, setting)
		}
		if c, err := net.Dial(network, path); err == nil {
			c.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, exit.Errorf(exit.OS, "server: %w", err)
			}
		}
	} else if _, port, err := net.SplitHostPort(address); err != nil {
		return nil, exit.Errorf(exit.Usage, "server: %s %s: neither host:port nor unix:/path", setting, address)
	} else if _, err := net.LookupPort(network, port); err != nil || port == "" {
		return nil, exit.Errorf(exit.Usage, "server: %s %s: %q is no port", setting, address, port)
	}
	l, err := net.Listen(network, address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, exit.Errorf(exit.OS, "server: %w (is a server running already? choose another place with %s)", err, setting)
	}
	if isSocket && errors.Is(err, syscall.EINVAL) {
		return nil, exit.Errorf(exit.Usage, "server: %s: the path of a socket may not be so long: %w", setting, err)
	}
	if err != nil {
		return nil, exit.Errorf(exit.OS, "server: %s: %w", setting, err)
	}
	return l, nil
}
