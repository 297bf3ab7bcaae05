package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/memnet"
)

// Whoever gives up while there is no connection is told why there is none. Here the server has come back with a
// certificate that another authority has signed.
func TestWhyThereIsNoConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		ours, theirs := newAuthority(t), newAuthority(t)
		var shown atomic.Pointer[tls.Certificate]
		show := func(a *authority) {
			cert := a.issue("zk")
			shown.Store(&cert)
		}
		show(ours)
		serveTLS(t, n, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return shown.Load(), nil }})
		s := open(t, n, fakeAddr, client.Options{TLS: &tls.Config{RootCAs: ours.pool()}, SessionTimeout: time.Minute, InFlightMax: 1})
		stream, err := s.Watch(t.Context(), "/", false)
		must(t, err)

		show(theirs)
		n.Link("", "").Cut()
		time.Sleep(time.Second)
		const why = "reset by peer; since then zk:2181: TLS: tls: failed to verify certificate: x509: certificate signed by unknown authority"
		told := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), why) != 1 {
				t.Errorf("%s: %v, want the deadline and, once, %q", what, err, why)
			}
		}
		_, _, err = s.Get(short(t, time.Second), "/")
		told("a request", err)
		p := s.Pipeline()
		p.Get("/")
		p.Send(t.Context())
		_, _, err = s.Get(short(t, time.Second), "/")
		told("one that waits for room", err)
		_, err = s.Set(short(t, -time.Second), "/", nil, -1)
		told("one that comes too late", err)
		_, err = stream.Next(short(t, time.Second))
		told("a stream", err)
		ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now(), err)
		defer cancel()
		_, _, err = s.Get(ctx, "/")
		told("a request that ends because of another", err)

		st, changed := s.State()
		if target := new(x509.UnknownAuthorityError); st.Phase != client.Disconnected || !errors.As(st.Cause, target) {
			t.Errorf("the session is %v: %v", st.Phase, st.Cause)
		}
		show(ours)
		<-changed
		if st, _ := s.State(); st.Phase != client.Connected || st.Cause != nil {
			t.Errorf("the session is %v: %v", st.Phase, st.Cause)
		}
		must(t, s.Sync(t.Context(), "/"))
		_, err = s.Set(short(t, -time.Second), "/", nil, -1)
		if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "connection") {
			t.Errorf("with a connection: %v", err)
		}
		show(theirs)
		n.Link("", "").Cut()
		time.Sleep(time.Second)
		told("Close", s.Close(short(t, time.Second)))
	})
}
