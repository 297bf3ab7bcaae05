package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// F48: Close ends in time in every state, with a hundred calls under way; each of them is completed, and
// nothing is left: the bubble ends only when every goroutine has.
func TestF48_CloseInEveryState(t *testing.T) {
	swallow := func(swallowed func(op wire.Op) bool) func(p *peer) {
		return func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool { return swallowed(h.Op) })
			}
		}
	}
	for _, tt := range []struct {
		name  string
		serve func(p *peer)
		spoil func(n *memnet.Network)
		clean bool // the server answers the close
		opt   client.Options
	}{
		{name: "idle", serve: well, clean: true},
		{name: "calls unanswered", serve: swallow(func(op wire.Op) bool { return op != wire.OpExists })},
		{name: "close unanswered", serve: swallow(func(op wire.Op) bool { return op == wire.OpCloseSession })},
		{name: "silent server", serve: func(p *peer) {
			if p.open() {
				silent(p)
			}
		}},
		{name: "credentials unanswered", serve: swallow(func(op wire.Op) bool { return op == wire.OpAuth }), clean: true,
			opt: client.Options{Auth: []client.Auth{{Scheme: "digest", Credential: []byte("a:b")}}}},
		{name: "no server", serve: well, spoil: func(n *memnet.Network) { n.Link("", "").Refuse(); n.Link("", "").Cut() }},
		{name: "server in a black hole", serve: well, spoil: func(n *memnet.Network) { n.Link("", "").Lose(memnet.Both) }},
		{name: "reconnecting to silence", serve: func(p *peer) {
			if p.number > 1 {
				silent(p)
			} else if p.open() {
				p.serve(nil)
			}
		}, spoil: func(n *memnet.Network) { n.Link("", "").Cut() }},
		{name: "server takes nothing more", serve: func(p *peer) {
			if p.open() {
				<-time.After(time.Hour)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				l, err := n.Listen(fakeAddr)
				must(t, err)
				must(t, l.Close())
				serveFake(t, n, fakeAddr, tt.serve)
				s := open(t, n, fakeAddr, tt.opt)
				_, _, w, err := s.WatchExists(short(t, 100*time.Millisecond), "/watched")
				if tt.clean {
					must(t, err)
				}
				if tt.spoil != nil {
					tt.spoil(n)
				}
				outcomes := make(chan error, 200)
				var calls sync.WaitGroup
				for i := range 100 {
					calls.Go(func() {
						// A payload that fills the way to a server that takes nothing.
						_, err := s.Set(context.Background(), fmt.Sprintf("/n/%d", i), make([]byte, 4<<10), -1)
						outcomes <- err
					})
					calls.Go(func() {
						_, _, err := s.Get(context.Background(), fmt.Sprintf("/n/%d", i))
						outcomes <- err
					})
				}
				<-time.After(time.Millisecond)
				const limit = 2 * time.Second
				began := time.Now()
				err = s.Close(short(t, limit))
				if took := time.Since(began); took > limit+slack {
					t.Errorf("Close took %v of %v", took, limit)
				}
				if tt.clean != (err == nil) {
					t.Errorf("Close: %v, clean: %v", err, tt.clean)
				}
				calls.Wait()
				close(outcomes)
				for err := range outcomes {
					if err != nil && !errors.Is(err, zk.ErrClosed) && !errors.Is(err, zk.ErrConnectionLoss) {
						t.Errorf("call: %v", err)
					}
				}
				if w != nil {
					fired(t, w)
					_, _, err = w.Event()
					wantErr(t, "watch", err, zk.ErrClosed)
				}
				_, _, err = s.Get(context.Background(), "/n")
				wantErr(t, "call after Close", err, zk.ErrClosed)
				if s.Go(func(context.Context) {}) {
					t.Error("Go runs something after Close")
				}
				if err := s.Close(context.Background()); tt.clean != (err == nil) {
					t.Errorf("second Close: %v, clean: %v", err, tt.clean)
				}
				if l := client.LeftoversOf(s); l != (client.Leftovers{}) {
					t.Errorf("left: %+v", l)
				}
			})
		})
	}
}

// F48: when Close has returned nil, what the session held is free, without waiting for its timeout.
func TestF48_CloseFreesEphemerals(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{})
		other := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")})
		_, err := s.Create(t.Context(), "/held", nil, zk.Ephemeral, nil)
		must(t, err)
		must(t, s.Close(t.Context()))
		if _, ok, err := other.Exists(t.Context(), "/held"); ok || err != nil {
			t.Errorf("exists after Close: %v, %v", ok, err)
		}
	})
}

// F48: a close whose answer was lost is asked again, and found to have been done.
func TestF48_CloseAnswerLost(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			p.hello()
			if p.number > 1 {
				p.grant(0, 0) // it is gone
				return
			}
			p.grant(fakeSession, 10*time.Second)
			p.serve(func(h heard) bool {
				if h.Op == wire.OpCloseSession {
					p.nc.Close()
				}
				return h.Op == wire.OpCloseSession
			})
		})
		s := open(t, n, fakeAddr, client.Options{})
		must(t, s.Close(t.Context()))
		wantErr(t, "Err", s.Err(), zk.ErrClosed)
		if f.connections() != 2 {
			t.Errorf("%d connections, want 2", f.connections())
		}
	})
}

// F48: closing, expiring, reconnecting and waiting at once, at random moments: every call ends, once, and
// every goroutine. (A call that was completed twice would close its channel twice.)
func TestF48_EverythingAtOnce(t *testing.T) {
	for range 40 {
		seed := rand.Uint64()
		bubble(t, func(t *testing.T, n *memnet.Network) {
			r := rand.New(rand.NewPCG(seed, 2))
			gone := time.Now().Add(time.Duration(200+r.IntN(2000)) * time.Millisecond) // not before the session is there
			serveFake(t, n, fakeAddr, func(p *peer) {
				p.hello()
				if time.Now().After(gone) {
					p.grant(0, 0)
					return
				}
				p.grant(fakeSession, 2*time.Second)
				p.serve(nil)
			})
			n.Link("client", "").Latency(time.Duration(r.IntN(20)) * time.Millisecond)
			s := open(t, n, fakeAddr, client.Options{InFlightMax: 20, BackoffMax: 50 * time.Millisecond})
			var calls sync.WaitGroup
			for i := range 50 {
				patience := time.Duration(r.IntN(1500)) * time.Millisecond
				cancel, pause := r.IntN(2) == 0, time.Duration(1+r.IntN(100))*time.Millisecond
				calls.Go(func() {
					for s.Err() == nil {
						ctx, end := context.WithTimeout(context.Background(), patience)
						p := s.Pipeline()
						got, w := p.WatchGet(fmt.Sprintf("/n/%d", i%7))
						set := p.Set("/n", nil, -1)
						p.Send(ctx)
						_, err := got.Wait(ctx)
						set.Wait(ctx)
						<-set.Done() // completed, whether or not a caller waits
						<-got.Done()
						if err == nil && cancel {
							w.Cancel()
						}
						end()
						<-time.After(pause)
					}
				})
			}
			for range r.IntN(6) {
				d := time.Duration(r.IntN(1000)) * time.Millisecond
				time.AfterFunc(d, func() { n.Link("client", "").Cut() })
			}
			<-time.After(time.Duration(r.IntN(3000)) * time.Millisecond)
			for range 2 {
				calls.Go(func() { s.Close(short(t, 3*time.Second)) })
			}
			calls.Wait()
			<-s.Done()
			if l := client.LeftoversOf(s); l != (client.Leftovers{}) {
				t.Errorf("seed %d: left %+v", seed, l)
			}
		})
	}
}

// What belongs to a session runs until it ends, and Close waits for it.
func TestGo(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		ended := false
		if !s.Go(func(ctx context.Context) {
			<-ctx.Done()
			<-time.After(time.Second)
			ended = true
		}) {
			t.Fatal("Go refuses")
		}
		must(t, s.Close(t.Context()))
		if !ended {
			t.Error("Close did not wait")
		}
	})
}

// A lingeringConn takes its time to close.
type lingeringConn struct {
	net.Conn
	open *atomic.Int64
}

func (c lingeringConn) Close() error {
	<-time.After(100 * time.Millisecond)
	c.open.Add(-1)
	return c.Conn.Close()
}

// A connection is closed before the next one is opened, or what is still to leave on it could arrive behind that;
// and before Close returns.
func TestHungUpBeforeTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		var conns atomic.Int64
		s := open(t, n, fakeAddr, client.Options{Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if conns.Add(1) > 1 {
				t.Error("the connection before is open")
			}
			nc, err := n.DialAs(ctx, "client", addr)
			return lingeringConn{nc, &conns}, err
		}})
		cut(t, n, s)
		must(t, s.Close(t.Context()))
		if conns.Load() > 0 {
			t.Error("a connection is open after Close")
		}
	})
}

// F48: several calls of Close say the same: an impatient one that ends the session without an answer leaves its ephemeral znodes,
// and a patient one beside it, or a later one, must not report that they are gone.
func TestF48_EveryCloseSaysTheSame(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 30 * time.Second, CloseTimeout: 20 * time.Second})
		_, err := s.Create(t.Context(), "/held", nil, zk.Ephemeral, nil)
		must(t, err)
		n.Freeze("client")
		patient := make(chan error)
		go func() { patient <- s.Close(context.Background()) }()
		<-s.Done()
		wantErr(t, "impatient Close", s.Close(short(t, time.Second)), context.DeadlineExceeded)
		wantErr(t, "patient Close", <-patient, zk.ErrClosed)
		wantErr(t, "later Close", s.Close(context.Background()), zk.ErrClosed)
		if s.Gone(t.Context()) {
			t.Error("Gone: true, and the server still has the session")
		}
	})
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		n.Link("client", "").Latency(100 * time.Millisecond)
		s := open(t, n, fakeAddr, client.Options{})
		both := make(chan error, 2)
		for range 2 {
			go func() { both <- s.Close(context.Background()) }()
		}
		must(t, <-both)
		must(t, <-both)
		must(t, s.Close(context.Background()))
		if !s.Gone(t.Context()) {
			t.Error("Gone: false, and the server has answered")
		}
	})
}
