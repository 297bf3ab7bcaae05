package admin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// checkHost refuses requests at a loopback address whose Host is a name other than localhost. A web page that a user of this
// machine looks at can give its own name this address, and its scripts could read the answers then.
func checkHost(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local != nil && local.IP.IsLoopback() && !isLocalName(r.Host) {
			write(w, http.StatusForbidden, "text/plain; charset=utf-8",
				[]byte("this port is for this machine only: ask for it by its address or as localhost (a server at another address is open to others: admin.serverAddress, elect --http)\n"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocalName reports whether a Host header is an address or localhost, with or without a port.
func isLocalName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	_, err := netip.ParseAddr(host)
	return err == nil || host == "" || strings.EqualFold(host, "localhost")
}
