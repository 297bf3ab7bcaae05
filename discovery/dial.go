package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// Dial connects to an instance of a service, in turn. A port behind the name, as in "orders:80", is ignored, as it is by Transport:
// the instance says which port it has. If it cannot be reached, or has no port, that is noted (Failed), and the
// next one is tried, until each has been tried once. dial makes the connection; nil means a net.Dialer. The error is a
// *NoInstanceError, or says of each instance why there is no connection.
func (d *Directory) Dial(ctx context.Context, network, name string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	var conn net.Conn
	err := d.each(ctx, serviceName(name), true, Instance.HostPort, func(address string) (dead bool, err error) {
		conn, err = dial(ctx, network, address)
		return true, err
	})
	return conn, err
}

// DialContext is Dial with a net.Dialer, in the form that http.Transport.DialContext has, and whatever else dials "host:port".
// A dialer is not told the scheme, so it takes the SSL port only of an instance that has no other; Transport does for https.
func (d *Directory) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.Dial(ctx, network, address, nil)
}

// serviceName returns the name of the service in an address, without a port.
func serviceName(address string) string { return (&url.URL{Host: address}).Hostname() }

// each tries the instances of a service in turn, each once at most, until use, which gets the instance's address by
// addressOf, returns no error. If it reports an instance as dead, that is noted, and with retry the next one is tried. One
// without such an address is dead, and the next one is tried in any case, because nothing has been used.
func (d *Directory) each(ctx context.Context, name string, retry bool, addressOf func(Instance) (string, error), use func(address string) (dead bool, err error)) error {
	l := d.listing()
	if len(l.usable[name]) == 0 {
		return d.none(l, name)
	}
	var errs []error
	for i := range d.inTurn(l, name) {
		address, err := addressOf(i)
		if err != nil {
			errs = append(errs, err)
			d.Failed(i)
			continue
		}
		dead, err := use(address)
		if err == nil {
			d.Worked(i)
			return nil
		}
		errs = append(errs, fmt.Errorf("instance %s of %s at %s: %w", i.ID, name, address, err))
		if !dead || ctx.Err() != nil {
			break
		}
		d.Failed(i)
		if !retry {
			break
		}
	}
	return errors.Join(errs...)
}

// Transport returns a RoundTripper that takes the host of a request's URL for the name of a service, and sends each
// request to an instance, in turn: to its port, or to its SSL port if the URL's scheme is https. A port in the URL is ignored, as
// it is by Dial. The Host header stays as the URL has it. If no connection comes about, nothing has been sent: that is noted (Failed), and the next instance is tried,
// as far as the request's body can be read again. An instance without a port is passed over in the same way. next makes the requests; nil means http.DefaultTransport.
func (d *Directory) Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{d, next}
}

type transport struct {
	d    *Directory
	next http.RoundTripper
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var resp *http.Response
	first := true
	replayable := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	addressOf := func(i Instance) (string, error) { return hostPort(i, req.URL.Scheme) }
	err := t.d.each(req.Context(), req.URL.Hostname(), replayable, addressOf, func(address string) (dead bool, err error) {
		out := req.Clone(req.Context())
		if !first && req.GetBody != nil {
			if out.Body, err = req.GetBody(); err != nil {
				return false, err
			}
		}
		first = false
		out.URL.Host = address
		if out.Host == "" {
			out.Host = req.URL.Host
		}
		resp, err = t.next.RoundTrip(out)
		return notConnected(err), err
	})
	if first && req.Body != nil { // a RoundTripper closes the body in any case
		req.Body.Close()
	}
	return resp, err
}

// hostPort returns where an instance serves a scheme.
func hostPort(i Instance, scheme string) (string, error) {
	if scheme == "https" && i.SSLPort != 0 {
		i.Port = i.SSLPort
	}
	return i.HostPort()
}

// notConnected reports whether an error says that there was no connection, so nothing was sent.
func notConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
