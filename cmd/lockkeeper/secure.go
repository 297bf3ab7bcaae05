package main

import (
	"log/slog"
	"net"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/zoocfg"
)

// secure decides whether a server is secure (server.Options.Secure) if no setting says so, and refuses a secure server that
// other machines can reach without TLS. A server with a zoo.cfg takes ZooKeeper's place in start scripts, so it is as open
// as ZooKeeper, and the log says what to set.
func secure(c *zoocfg.Config, f serverFlags, ports *listeners, log *slog.Logger) error {
	plain := beyondLoopback(ports.clients)
	reachable := plain || beyondLoopback(ports.secure)
	if !c.SecureAsked && f.config == "" {
		c.Server.Secure = reachable
	}
	if !c.SecureAsked && f.config != "" && reachable {
		log.Warn("other machines reach this server, and any client may change the root and the quotas, as with Apache ZooKeeper: " +
			"set lockkeeper.secure=true, and secureClientPort, ssl.keyStore.location and ssl.trustStore.location in place of clientPort; lockkeeper.secure=false ends this warning")
	}
	if c.Server.Secure && plain {
		return exit.Errorf(f.wrongConfig(), "server: %v: other machines could reach the server without TLS (listen at 127.0.0.1; "+
			"or use TLS: secureClientPort=2281, ssl.keyStore.location=SERVER.pem and ssl.trustStore.location=CA.pem, without clientPort, or with clientPortAddress=127.0.0.1 and secureClientPortAddress=0.0.0.0; "+
			"or accept it: --set lockkeeper.secure=false)", ports.clients.Addr())
	}
	return nil
}

// beyondLoopback reports whether other machines can reach a listener, which may be nil.
func beyondLoopback(l net.Listener) bool {
	if l == nil {
		return false
	}
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && !a.IP.IsLoopback()
}
