package client_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
)

// The error of a caller that gives up while there is no connection says why there is none. Here the server has come back with a
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
		watch, err := s.AddWatch(t.Context(), "/", false)
		must(t, err)

		show(theirs)
		n.Link("", "").Cut()
		for tooLate := time.After(time.Second); ; { // State tells of the attempt that fails after the cut
			st, changed := s.State()
			if errors.As(st.Cause, new(x509.UnknownAuthorityError)) {
				break
			}
			select {
			case <-changed:
			case <-tooLate:
				t.Fatalf("the session is %v: %v", st.Phase, st.Cause)
			}
		}
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
		_, err = watch.Next(short(t, time.Second))
		told("a persistent watch", err)
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

// While Open finds no server, or a session none any more, the log says once what came of each.
func TestLogOfServersThatCannotBeReached(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const other = "other:2181"
		var log bytes.Buffer // read while no goroutine writes to it
		said := func(lines ...string) {
			t.Helper()
			synctest.Wait()
			got := slices.Collect(strings.Lines(log.String()))
			last := got[len(got)-1]
			if !slices.EqualFunc(got, lines, strings.Contains) || !strings.Contains(last, fakeAddr) || !strings.Contains(last, other) || strings.Count(last, ": connection refused") != 1 {
				t.Errorf("the log is not %q, with both servers and the reason once in the last line, but\n%s", lines, &log)
			}
		}
		opt := client.Options{Dial: n.Dialer("client"), Logger: slog.New(slog.NewTextHandler(&log, nil))}
		_, err := client.Open(short(t, time.Minute), fakeAddr+","+other, opt)
		wantErr(t, "Open", err, context.DeadlineExceeded)
		said("no server can be reached")

		log.Reset()
		srv := start(t, n, fakeAddr)
		open(t, n, fakeAddr+","+other, opt)
		srv.down()
		time.Sleep(time.Minute)
		said("state=connected", "state=disconnected", "no server can be reached")
	})
}

// The log has the session timeout that is in force, and warns if it is not the one that was asked for, or changes.
func TestLogOfTheSessionTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		for _, tt := range []struct {
			asked   time.Duration
			granted time.Duration
			lines   []string
		}{
			{10 * time.Second, 10 * time.Second, []string{"state=connected"}},
			{time.Hour, 20 * time.Second, []string{"state=connected", "level=WARN msg=\"another session timeout is granted than was asked for"}},
		} {
			var log bytes.Buffer // read while no goroutine writes to it
			srv := start(t, n, fakeAddr)
			s := open(t, n, fakeAddr, client.Options{SessionTimeout: tt.asked, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			synctest.Wait()
			got := slices.Collect(strings.Lines(log.String()))
			if !slices.EqualFunc(got, tt.lines, strings.Contains) || s.Timeout() != tt.granted ||
				!strings.Contains(got[0], "timeout="+tt.granted.String()) || !strings.Contains(got[len(got)-1], tt.granted.String()) {
				t.Errorf("asked for %v, granted %v, the log is not %q, but\n%s", tt.asked, s.Timeout(), tt.lines, &log)
			}
			if tt.asked == time.Hour { // the session goes over to a server that grants more
				log.Reset()
				srv.down()
				srv.opt.MaxSessionTimeout = 30 * time.Second
				srv.up()
				time.Sleep(time.Minute)
				synctest.Wait()
				if !strings.Contains(log.String(), "before=20s granted=30s counts=20s") || s.Timeout() != tt.granted {
					t.Errorf("the log does not say that more is granted than %v:\n%s", s.Timeout(), &log)
				}
			}
			srv.down()
		}
	})
}
