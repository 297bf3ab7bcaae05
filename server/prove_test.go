package server

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// authOf is the request that shows a digest identity.
func authOf(credential string) []byte {
	return frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "digest", Auth: []byte(credential)})
}

// authenticate shows digest identities.
func (p *peer) authenticate(credentials ...string) {
	p.t.Helper()
	for _, c := range credentials {
		p.raw(authOf(c))
		if a := p.receive(); a.Xid != wire.XidAuth || a.Err != zk.OK {
			p.t.Fatalf("auth %s: answered with %+v", c, a)
		}
	}
}

// connectFrame is the request for a session with its password.
func connectFrame(id int64, password []byte) []byte {
	b, at := wire.BeginFrame(nil)
	return wire.EndFrame((&wire.ConnectRequest{Timeout: 10000, SessionID: id, Password: password}).AppendTo(b), at)
}

// A credential that is longer than all names of a connection may be is refused before it is hashed, behind a write, too: that would keep
// the committer from everything else.
func TestALongCredentialIsRefused(t *testing.T) {
	for _, behind := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			p := r.connect("c")
			p.authenticate("user:" + strings.Repeat("p", identityBytesMax-100))
			b := authOf("user:" + strings.Repeat("p", identityBytesMax))
			if behind {
				b = append(frameOf(1, wire.OpSync, &wire.PathRecord{Path: "/"}), b...)
			}
			p.raw(b)
			if behind {
				p.receive()
			}
			if a := p.receive(); a.Err != zk.ErrAuthFailed {
				t.Errorf("answered with %+v", a)
			}
			p.wantClosed()
		})
	}
}

// A client that has a session's password, and is not known by the session's identities, does not get the session: it stays
// with its owner, whose connection notices nothing.
func TestAPasswordIsNotEnoughForASessionWithAnIdentity(t *testing.T) {
	request := func(op wire.Op, r wire.Record) []byte { return frameOf(1, op, r) }
	for name, behind := range map[string][]byte{
		"closeSession":            request(wire.OpCloseSession, nil),
		"another's digest":        append(authOf("eve:pw"), request(wire.OpCloseSession, nil)...),
		"the user, another word":  append(authOf("bob:pq"), request(wire.OpCloseSession, nil)...),
		"one digest of two":       append(authOf("bob:pw"), request(wire.OpCloseSession, nil)...),
		"a write":                 request(wire.OpSetData, &wire.SetDataRequest{Path: "/lock", Version: -1}),
		"a read":                  request(wire.OpExists, &wire.WatchRequest{Path: "/lock"}),
		"ping":                    frameOf(wire.XidPing, wire.OpPing, nil),
		"scheme that is not one":  frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "world"}),
		"the scheme ip":           append(frameOf(wire.XidAuth, wire.OpAuth, &wire.AuthRequest{Scheme: "ip"}), request(wire.OpCloseSession, nil)...),
		"SASL":                    frameOf(1, wire.OpSASL, nil),
		"a frame too short":       {0, 0, 0, 2, 0, 0},
		"a frame too long":        {0, 2, 0, 0, 0, 0, 0, 0},
		"nothing, until the last": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lockedBuffer
				r := start(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
				holder := r.connect("holder")
				holder.authenticate("bob:pw", "ops:pw")
				lock := createReq("/lock", zk.Ephemeral)
				lock.ACL = zk.CreatorACL()
				if code := holder.call(wire.OpCreate, lock, nil); code != zk.OK {
					t.Fatal(code)
				}
				thief := r.dial("thief")
				thief.raw(append(connectFrame(holder.session, holder.password), behind...))
				began := time.Now()
				closed := make(chan time.Duration, 1)
				go func() {
					io.Copy(io.Discard, thief.in)
					closed <- time.Since(began)
				}()
				for range 6 {
					time.Sleep(2 * time.Second)
					holder.ping()
				}
				took, most := <-closed, lingerTimeout
				if behind == nil {
					most += 10 * time.Second // until the connection has to have a session
				}
				if took > most {
					t.Errorf("the connection was closed after %v", took)
				}
				if !holder.exists("/lock") {
					t.Error("the lock is gone")
				}
				if n := strings.Count(log.String(), "session kept from a connection") + strings.Count(log.String(), "authentication refused"); n != 1 {
					t.Errorf("%d lines about it, want 1:\n%s", n, log.String())
				}
			})
		})
	}
}

// The rule is the same for certificates: that of another user does not open the session, and the same one does.
func TestACertificateOfAnotherDoesNotOpenASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		l, err := r.net.Listen("secure")
		if err != nil {
			t.Fatal(err)
		}
		go r.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{selfSigned(t, pkix.Name{CommonName: "zk"})}, ClientAuth: tls.RequireAnyClientCert,
		}))
		dial := func(name string) *peer {
			raw, err := r.net.DialAs(t.Context(), name, "secure")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { raw.Close() })
			return newPeer(t, tls.Client(raw, &tls.Config{
				InsecureSkipVerify: true, Certificates: []tls.Certificate{selfSigned(t, pkix.Name{CommonName: name})},
			}))
		}
		holder := dial("alice")
		holder.handshake(wire.ConnectRequest{Timeout: 10000})
		holder.create("/lock", zk.Ephemeral)
		for _, thief := range []*peer{dial("eve"), r.dial("plain")} {
			thief.raw(theft(holder.session, holder.password))
			io.Copy(io.Discard, thief.in)
			holder.ping()
			if !holder.exists("/lock") {
				t.Fatal("the session was closed by a client with another certificate, or none")
			}
		}
		again := dial("alice")
		again.handshake(wire.ConnectRequest{Timeout: 10000, SessionID: holder.session, Password: holder.password})
		if again.session != holder.session || !again.exists("/lock") {
			t.Error("a client with the same certificate did not get its session back")
		}
		holder.wantClosed()
	})
}

// Clients show their identities before they know the answer to the connect request, or after it.
func TestASessionWithIdentitiesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		old := r.connect("old")
		old.authenticate("bob:pw", "ops:pw")
		old.create("/lock", zk.Ephemeral)

		polite := r.dial("waits for each answer")
		a := polite.handshake(wire.ConnectRequest{Timeout: 8000, SessionID: old.session, Password: old.password})
		if a.SessionID != old.session || polite.timeout != 8*time.Second {
			t.Fatalf("answered with %+v", a)
		}
		polite.authenticate("ops:pw")
		old.ping() // it is the owner still
		polite.authenticate("bob:pw")
		old.wantClosed()
		if !polite.exists("/lock") {
			t.Error("the ephemeral is gone")
		}

		hasty := r.dial("sends all at once")
		all := append(append(connectFrame(old.session, old.password), authOf("bob:pw")...), authOf("ops:pw")...)
		all = append(all, authOf("more:pw")...)
		hasty.raw(append(all, frameOf(1, wire.OpDelete, &wire.VersionRequest{Path: "/lock", Version: -1})...))
		hasty.frame()
		for range 3 {
			if a := hasty.receive(); a.Xid != wire.XidAuth || a.Err != zk.OK {
				t.Errorf("answer to an auth request: %+v", a)
			}
		}
		if code := hasty.answerTo(1, nil); code != zk.OK {
			t.Error(code)
		}
		polite.wantClosed()

		// What was shown on the way is kept, too.
		partial := r.dial("partial")
		partial.raw(append(append(connectFrame(old.session, old.password), authOf("bob:pw")...), authOf("ops:pw")...))
		partial.raw(frameOf(1, wire.OpCloseSession, nil))
		io.Copy(io.Discard, partial.in)
		hasty.ping()
	})
}

// Attempts without the identities do not keep a session alive.
func TestAnUnprovedAttemptDoesNotRenewASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		watcher, holder := r.connect("watcher"), r.connect("holder")
		holder.authenticate("bob:pw")
		holder.create("/lock", zk.Ephemeral)
		holder.nc.Close()
		var attempt *peer
		for range 6 {
			attempt = r.dial("attempt")
			attempt.raw(connectFrame(holder.session, holder.password))
			time.Sleep(2 * time.Second)
			watcher.ping()
		}
		time.Sleep(testTick)
		if watcher.exists("/lock") {
			t.Error("the session has not expired")
		}
		// The session has ended meanwhile: the connection is closed, and the next attempt is told why.
		attempt.raw(authOf("bob:pw"))
		attempt.frame()
		if b, err := io.ReadAll(attempt.in); len(b) > 0 || err != nil {
			t.Errorf("read % x, %v; want the end", b, err)
		}
		last := r.dial("last")
		if a := last.handshake(wire.ConnectRequest{Timeout: 10000, SessionID: holder.session, Password: holder.password}); a.SessionID != 0 {
			t.Errorf("answered with %+v, want no session", a)
		}
	})
}

// The owner shows its first identity while another connection's wish for the session waits behind the disk.
func TestAnIdentityThatIsShownLateStillProtects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		holder, other := r.connect("holder"), r.connect("other")
		release := r.stall()
		other.send(wire.OpCreate, createReq("/n", zk.Persistent))
		synctest.Wait()
		thief := r.dial("thief")
		thief.raw(theft(holder.session, holder.password))
		synctest.Wait()
		holder.authenticate("bob:pw")
		release()
		thief.wantClosed()
		holder.ping()
	})
}

// The names of identities take little memory, whatever a client sends.
func TestIdentitiesAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		p := r.connect("c")
		p.authenticate(strings.Repeat("a", identityBytesMax/2) + ":pw")
		p.raw(authOf(strings.Repeat("b", identityBytesMax/2) + ":pw"))
		if a := p.receive(); a.Err != zk.ErrAuthFailed {
			t.Errorf("answered with %v, want %v", a.Err, zk.ErrAuthFailed)
		}
		p.wantClosed()
	})
}

// A request that shows nothing new costs nothing that depends on what the connection has shown before.
func TestAnIdentityIsHashedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, requests = 60 << 10, 100
		r := start(t)
		p := r.connect("c")
		p.authenticate(strings.Repeat("u", large)+":pw", "a:b")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			p.authenticate("a:b")
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / requests; bytes > large/2 {
			t.Errorf("%d bytes of memory for a request that shows nothing new", bytes)
		}
		q := r.dial("again")
		q.raw(connectFrame(p.session, p.password))
		q.raw(append(authOf("a:b"), authOf(strings.Repeat("u", large)+":pw")...))
		q.frame()
		for range 2 {
			if a := q.receive(); a.Err != zk.OK {
				t.Errorf("of a connection that shows the session's identities again: %+v", a)
			}
		}
		q.ping()
	})
}
