package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// slack is what a call may take beyond its deadline.
const slack = 250 * time.Millisecond

// F08: a call ends with its context, whatever has become of the servers, and a Close as well.
func TestF08_EveryCallEndsInTime(t *testing.T) {
	const limit = 2 * time.Second
	faults := []struct {
		name   string
		inject func(n *memnet.Network, down func())
	}{
		{"down", func(_ *memnet.Network, down func()) { down() }},
		{"black hole", func(n *memnet.Network, _ func()) { n.Link("client", "").Lose(memnet.Both) }},
		{"frozen", func(n *memnet.Network, _ func()) { n.Freeze("client") }},
		{"answers lost", func(n *memnet.Network, _ func()) { n.Link("client", "").Lose(memnet.ToClient) }},
		{"refusing", func(n *memnet.Network, _ func()) { n.Link("client", "").Refuse(); n.Link("client", "").Cut() }},
		{"accepting and silent", func(n *memnet.Network, down func()) {
			down()
			n.Listen("zk1:2181") // nothing accepts: connecting works, and then no answer comes
		}},
	}
	calls := []struct {
		name string
		call func(ctx context.Context, s *client.Session) error
	}{
		{"get", func(ctx context.Context, s *client.Session) error {
			_, _, err := s.Get(ctx, "/")
			return err
		}},
		{"create", func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, "/n", nil, zk.Persistent, nil)
			return err
		}},
		{"watch", func(ctx context.Context, s *client.Session) error {
			_, err := s.AddWatch(ctx, "/n", true)
			return err
		}},
		{"watch children", func(ctx context.Context, s *client.Session) error {
			_, _, _, err := s.WatchChildren(ctx, "/")
			return err
		}},
		{"auth", func(ctx context.Context, s *client.Session) error {
			return s.AddAuth(ctx, client.Auth{Scheme: "digest", Credential: []byte("a:b")})
		}},
		{"close", func(ctx context.Context, s *client.Session) error { return s.Close(ctx) }},
	}
	for _, fault := range faults {
		t.Run(fault.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				srv := start(t, n, "zk1:2181")
				// The second server of the list is never there.
				s := open(t, n, "zk1:2181,zk2:2181", client.Options{})
				fault.inject(n, srv.down)
				for _, c := range calls {
					began := time.Now()
					err := c.call(short(t, limit), s)
					if took := time.Since(began); took > limit+slack {
						t.Errorf("%s took %v with a limit of %v", c.name, took, limit)
					}
					if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, zk.ErrConnectionLoss) {
						t.Errorf("%s: %v", c.name, err)
					}
				}
				if l := client.LeftoversOf(s); l != (client.Leftovers{}) {
					t.Errorf("left after Close: %+v", l)
				}
			})
			bubble(t, func(t *testing.T, n *memnet.Network) {
				srv := start(t, n, "zk1:2181")
				fault.inject(n, srv.down)
				began := time.Now()
				_, err := client.Open(short(t, limit), "zk1:2181,zk2:2181", client.Options{Dial: n.Dialer("client")})
				if took := time.Since(began); took > limit+slack {
					t.Errorf("Open took %v with a limit of %v", took, limit)
				}
				wantErr(t, "Open", err, context.DeadlineExceeded)
			})
		})
	}
}

// Without its own limit, Close takes CloseTimeout and no longer, and says what it leaves behind.
func TestCloseTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{CloseTimeout: time.Second})
		n.Freeze("client")
		began := time.Now()
		err := s.Close(context.Background())
		if took := time.Since(began); took != time.Second {
			t.Errorf("Close took %v, want 1s", took)
		}
		wantErr(t, "Close", err, context.DeadlineExceeded)
		wantErr(t, "second Close", s.Close(context.Background()), zk.ErrClosed)
	})
}

// Requests that give up while there is no server leave nothing behind: an outage may be long.
func TestWithdrawnRequestsLeaveTheQueue(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		await(t, s, client.Disconnected)
		for range 100 {
			_, _, _, err := s.WatchGet(short(t, time.Millisecond), "/n")
			wantErr(t, "get", err, context.DeadlineExceeded)
		}
		if l := client.LeftoversOf(s); l != (client.Leftovers{}) {
			t.Errorf("left by 100 requests that gave up: %+v", l)
		}
	})
}

// A credential that no server would read is refused, and not shown to those that come later either.
func TestCredentialTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{})
		err := s.AddAuth(t.Context(), client.Auth{Scheme: "digest", Credential: make([]byte, 2<<20)})
		var size *client.SizeError
		if !errors.As(err, &size) {
			t.Errorf("AddAuth = %v, want a *SizeError", err)
		}
		n.Link("", "").Cut()
		if _, _, err := s.Get(short(t, 5*time.Second), "/"); err != nil {
			t.Errorf("after a reconnect: %v", err)
		}
		_, err = client.Open(t.Context(), "zk:2181", client.Options{Auth: []client.Auth{{Scheme: "digest", Credential: make([]byte, 2<<20)}}})
		if !errors.As(err, &size) {
			t.Errorf("Open = %v, want a *SizeError", err)
		}
	})
}

// A watch on a path so long that it could be set, and not set again, would keep the session from its next connection.
func TestWatchTooLargeForTheNextConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const most = 4 << 10
		startWith(t, n, fakeAddr, server.Options{FrameBytesMax: most})
		s := open(t, n, fakeAddr, client.Options{RequestBytesMax: most})
		set, refused := 0, 0
		for bytes := most - 60; bytes <= most; bytes++ {
			path := "/" + strings.Repeat("x", bytes-1)
			_, _, _, err := s.WatchExists(short(t, 5*time.Second), path)
			_, persistentErr := s.AddWatch(short(t, 5*time.Second), path, true)
			for _, err := range []error{err, persistentErr} {
				var size *client.SizeError
				switch {
				case err == nil:
					set++
				case errors.As(err, &size):
					refused++
				default:
					t.Fatalf("a path of %d bytes: %.100v", bytes, err)
				}
			}
		}
		if set == 0 || refused == 0 {
			t.Errorf("%d watches were set, %d refused", set, refused)
		}
		n.Link("", "").Cut()
		if _, _, err := s.Get(short(t, 5*time.Second), "/"); err != nil {
			t.Errorf("after a reconnect: %.200v", err)
		}
	})
}

// A caller that gives up a wait for what has not been sent yet has withdrawn nothing.
func TestWaitBeforeSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{})
		p := s.Pipeline()
		made := p.Create("/n", nil, zk.Persistent, nil)
		_, err := made.Wait(short(t, time.Second))
		wantErr(t, "Wait before Send", err, context.DeadlineExceeded)
		if !client.MaybeApplied(err) {
			t.Errorf("Wait before Send = %v, which is not settled", err)
		}
		p.Send(t.Context())
		_, err = made.Wait(short(t, time.Second))
		must(t, err)
	})
}

// A pipeline that is sent again has nothing left to send.
func TestPipelineSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		start(t, n, "zk:2181")
		s := open(t, n, "zk:2181", client.Options{InFlightMax: 1})
		p := s.Pipeline()
		got := p.Get("/")
		p.Send(t.Context())
		p.Send(t.Context())
		_, err := got.Wait(t.Context())
		must(t, err)
		p.Send(t.Context())
		_, _, err = s.Get(short(t, time.Second), "/")
		must(t, err)
	})
}
