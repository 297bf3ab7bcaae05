package client_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Credentials that the server refuses end the session with an error that says which; there is no loop.
func TestRefusedCredentialsEndTheSession(t *testing.T) {
	refuse := func(p *peer) {
		if p.open() {
			p.serve(func(h heard) bool {
				if h.Op == wire.OpAuth {
					p.answer(h.Xid, zk.ErrAuthFailed, nil)
					p.nc.Close()
				}
				return h.Op == wire.OpAuth
			})
		}
	}
	bad := client.Auth{Scheme: "sasl", Credential: []byte("x")}
	t.Run("with a secret for a scheme", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			serveFake(t, n, fakeAddr, refuse)
			s := open(t, n, fakeAddr, client.Options{})
			err := s.AddAuth(t.Context(), client.Auth{Scheme: "sesame", Credential: []byte("x")})
			wantErr(t, "AddAuth", err, zk.ErrAuthFailed)
			<-s.Done()
			if text := s.Err().Error(); contains(text, "sesame") || !contains(text, "zk:2181 refused a credential whose scheme is none of ZooKeeper's own") {
				t.Errorf("error %v", text)
			}
		})
	})
	t.Run("at the start", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := serveFake(t, n, fakeAddr, refuse)
			s, err := client.Open(t.Context(), fakeAddr, client.Options{Auth: []client.Auth{bad}, Dial: n.Dialer("client")})
			if err == nil { // the refusal is still under way
				_, _, err = s.Get(t.Context(), "/n")
				if st, _ := s.State(); st.Phase != client.AuthFailed {
					t.Errorf("state %v", st.Phase)
				}
				wantErr(t, "Close", s.Close(t.Context()), zk.ErrAuthFailed) // the server keeps the session until it expires
			}
			wantErr(t, "Open or get", err, zk.ErrAuthFailed)
			if !contains(err.Error(), "zk:2181 refused the sasl credential") {
				t.Errorf("error %v", err)
			}
			<-time.After(time.Minute)
			if f.connections() != 1 {
				t.Errorf("%d connections, want 1", f.connections())
			}
		})
	})
	t.Run("later, with calls waiting", func(t *testing.T) {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			serveFake(t, n, fakeAddr, refuse)
			s := open(t, n, fakeAddr, client.Options{})
			err := s.AddAuth(t.Context(), bad)
			wantErr(t, "AddAuth", err, zk.ErrAuthFailed)
			<-s.Done()
			wantErr(t, "Err", s.Err(), zk.ErrAuthFailed)
		})
	})
}

// F50: credentials go ahead of everything else on every connection, once each, also if the caller has wiped its copy.
func TestF50_CredentialsOnEveryConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		a, b := client.Auth{Scheme: "digest", Credential: []byte("a:1")}, client.Auth{Scheme: "digest", Credential: []byte("b:2")}
		s := open(t, n, fakeAddr, client.Options{Auth: []client.Auth{a}})
		must(t, s.AddAuth(t.Context(), b))
		must(t, s.AddAuth(t.Context(), b)) // known already
		shown := f.asked(wire.OpAuth)
		clear(a.Credential)
		clear(b.Credential)
		_, _, _, err := s.WatchGet(t.Context(), "/n")
		must(t, err)
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		await(t, s, client.Disconnected)
		p := s.Pipeline()
		got := p.Get("/n")
		p.Send(t.Context())
		n.Link("client", "").Heal()
		_, err = got.Wait(t.Context())
		must(t, err)
		synctest.Wait()
		var ops []wire.Op
		for _, h := range f.asked() {
			if h.Peer == 2 {
				ops = append(ops, h.Op)
			}
		}
		want := []wire.Op{wire.OpAuth, wire.OpAuth, wire.OpSetWatches, wire.OpGetData, wire.OpPing}
		if len(ops) != len(want) {
			t.Fatalf("second connection: %v, want %v", ops, want)
		}
		for i := range want {
			if ops[i] != want[i] {
				t.Fatalf("second connection: %v, want %v", ops, want)
			}
		}
		for i, h := range f.asked(wire.OpAuth)[len(shown):] {
			if !bytes.Equal(h.Body, shown[i].Body) {
				t.Errorf("second connection: credential %q, want %q", h.Body, shown[i].Body)
			}
		}
	})
}

// F50: a znode that only one user may touch stays within reach across reconnects, and for a new session
// with the same options.
func TestF50_DigestAcrossSessions(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		opt := client.Options{SessionTimeout: 4 * time.Second, Auth: []client.Auth{{Scheme: "digest", Credential: []byte("bob:pw")}}}
		s := open(t, n, fakeAddr, opt)
		_, err := s.Create(t.Context(), "/private", nil, zk.Persistent, zk.CreatorACL())
		must(t, err)
		n.Link("client", "").Cut()
		_, _, err = s.Get(t.Context(), "/private")
		must(t, err)
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		<-time.After(10 * time.Second)
		n.Link("client", "").Heal()
		<-s.Done()
		again := open(t, n, fakeAddr, opt)
		_, _, err = again.Get(t.Context(), "/private")
		must(t, err)
		stranger := open(t, n, fakeAddr, client.Options{})
		_, _, err = stranger.Get(t.Context(), "/private")
		wantErr(t, "a stranger's get", err, zk.ErrNoAuth)
	})
}
