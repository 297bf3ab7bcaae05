package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Dial connects to an instance of a service, in turn. A port behind the name, as in "orders:80", is ignored, as it is by Transport:
// the instance says which port it has. If it cannot be reached, or has no port, that is noted (Failed), and the
// next one is tried, until each has been tried once. If ctx has a deadline, an attempt has a third of the time that is left, or half of
// it where only one more instance is left to try. dial makes the connection; nil means a net.Dialer. The error is a
// *NoInstanceError, or says of each instance why there is no connection.
func (d *Directory) Dial(ctx context.Context, network, name string, dial func(ctx context.Context, network, address string) (net.Conn, error)) (net.Conn, error) {
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	var conn net.Conn
	err := d.each(ctx, serviceName(name), true, Instance.HostPort, func(address string, left int) (dead bool, err error) {
		ctx, cancel := withShare(ctx, left)
		defer cancel()
		conn, err = dial(ctx, network, address)
		return true, err
	})
	return conn, err
}

// withShare returns a context for one attempt where so many are left, this one included: a host that drops all packets would use up
// the whole time otherwise.
func withShare(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(min(left, 3)))
}

// DialContext is Dial with a net.Dialer, in the form that http.Transport.DialContext has, and whatever else dials "host:port".
// A dialer is not told the scheme, so it takes the SSL port only of an instance that has no other; Transport does for https.
func (d *Directory) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return d.Dial(ctx, network, address, nil)
}

// serviceName returns the name of the service in an address, without a port.
func serviceName(address string) string { return (&url.URL{Host: address}).Hostname() }

// leastAttempt is how long an attempt has to last for its end by a deadline to say something of the instance.
const leastAttempt = 10 * time.Millisecond

// each tries the instances of a service in turn, each once at most, until use, which gets the instance's address by
// addressOf and how many instances are left, returns no error. If it reports an instance as dead, that is noted, unless the caller has
// given up or its time was too short to tell, and with retry the next one is tried. One without such an address is dead, and the next
// one is tried in any case, because nothing has been used.
func (d *Directory) each(ctx context.Context, name string, retry bool, addressOf func(Instance) (string, error), use func(address string, left int) (dead bool, err error)) error {
	l := d.listing()
	if len(l.usable[name]) == 0 {
		return d.none(l, name)
	}
	var errs []error
	left := len(l.usable[name]) + 1
	for i := range d.inTurn(l, name) {
		left--
		address, err := addressOf(i)
		if err != nil {
			errs = append(errs, err)
			d.Failed(i)
			continue
		}
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("resolve %s: %w", zk.Join(d.base, name), ending.Of(ctx)))
			break
		}
		began := time.Now()
		dead, err := use(address, left)
		if err == nil {
			d.Worked(i)
			return nil
		}
		hasty := errors.Is(err, context.DeadlineExceeded) && time.Since(began) < leastAttempt
		errs = append(errs, fmt.Errorf("instance %s of %s at %s: %w", i.ID, name, address, err))
		if dead && !hasty && (ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded)) {
			d.Failed(i)
		}
		if !dead || !retry || ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// Transport returns a RoundTripper that takes the host of a request's URL for the name of a service, and sends each
// request to an instance, in turn: to its port, or to its SSL port if the URL's scheme is https. A port in the URL is ignored, as
// it is by Dial. The Host header stays as the URL has it. If no connection comes about, until the request's deadline perhaps, nothing has
// been sent: that is noted (Failed), and the next instance is tried, as far as the request's body can be read again. An instance without a port is passed over in the same way. next makes the requests; nil means http.DefaultTransport.
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

// CloseIdleConnections closes those of next. http.Client.CloseIdleConnections calls it.
func (t *transport) CloseIdleConnections() {
	if next, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// queues reports whether a request may wait until others give a connection back, which says nothing of the instance.
func (t *transport) queues() bool {
	h, ok := t.next.(*http.Transport)
	return ok && h.MaxConnsPerHost > 0
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var resp *http.Response
	first := true
	replayable := req.Body == nil || req.Body == http.NoBody || req.GetBody != nil
	addressOf := func(i Instance) (string, error) { return hostPort(i, req.URL.Scheme) }
	err := t.d.each(req.Context(), req.URL.Hostname(), replayable, addressOf, func(address string, _ int) (dead bool, err error) {
		var connecting, connected atomic.Bool // connected stays: a connection that was begun for the request may come later
		trace := &httptrace.ClientTrace{
			GetConn:           func(string) { connecting.Store(!t.queues()) },
			DNSStart:          func(httptrace.DNSStartInfo) { connecting.Store(true) },
			ConnectStart:      func(string, string) { connecting.Store(true) },
			TLSHandshakeStart: func() { connecting.Store(true) },
			GotConn:           func(httptrace.GotConnInfo) { connected.Store(true) },
		}
		out := req.Clone(httptrace.WithClientTrace(req.Context(), trace))
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
		return notConnected(err) || connecting.Load() && !connected.Load(), err
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
