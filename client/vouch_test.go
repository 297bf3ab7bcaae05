package client_test

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/clock"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// ages returns the age at each level, weakest first.
func ages(s *client.Session) [3]time.Duration {
	return [3]time.Duration{s.Age(client.VouchPing), s.Age(client.VouchSync), s.Age(client.VouchWrite)}
}

// F17: what the answer to each request proves, counted from the sending of the request and not from the
// arrival of its answer, which comes a second later here.
func TestF17_WhatAnAnswerProves(t *testing.T) {
	const trip = time.Second
	old := -1 * time.Second // in wants: as old as it was before
	for _, tt := range []struct {
		name string
		code zk.Code
		call func(ctx context.Context, s *client.Session)
		want [3]time.Duration // ages right after the answer
	}{
		{"get", zk.OK, func(ctx context.Context, s *client.Session) { s.Get(ctx, "/n") }, [3]time.Duration{trip, old, old}},
		{"get, refused", zk.ErrNoNode, func(ctx context.Context, s *client.Session) { s.Get(ctx, "/n") }, [3]time.Duration{trip, old, old}},
		{"sync", zk.OK, func(ctx context.Context, s *client.Session) { s.Sync(ctx, "/n") }, [3]time.Duration{trip, trip, old}},
		{"set", zk.OK, func(ctx context.Context, s *client.Session) { s.Set(ctx, "/n", nil, -1) }, [3]time.Duration{trip, trip, trip}},
		{"set, refused where it was decided", zk.ErrBadVersion, func(ctx context.Context, s *client.Session) { s.Set(ctx, "/n", nil, -1) }, [3]time.Duration{trip, trip, trip}},
		{"set, refused by the first server that saw it", zk.ErrThrottled, func(ctx context.Context, s *client.Session) { s.Set(ctx, "/n", nil, -1) }, [3]time.Duration{trip, old, old}},
		{"set, session gone", zk.ErrSessionExpired, func(ctx context.Context, s *client.Session) { s.Set(ctx, "/n", nil, -1) }, [3]time.Duration{old, old, old}},
		{"multi", zk.OK, func(ctx context.Context, s *client.Session) { s.Multi(ctx, client.OpCheck("/n", -1)) }, [3]time.Duration{trip, trip, trip}},
		{"credentials", zk.OK, func(ctx context.Context, s *client.Session) {
			s.AddAuth(ctx, client.Auth{Scheme: "digest", Credential: []byte("a:b")})
		}, [3]time.Duration{old, old, old}},
		{"persistent watch", zk.OK, func(ctx context.Context, s *client.Session) { s.AddWatch(ctx, "/n", false) }, [3]time.Duration{trip, old, old}},
		{"removal of a watch", zk.OK, func(ctx context.Context, s *client.Session) {
			_, _, w, _ := s.WatchGet(ctx, "/n")
			w.Cancel()
			<-time.After(trip)
		}, [3]time.Duration{trip, old, old}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				serveFake(t, n, fakeAddr, func(p *peer) {
					if p.open() {
						p.serve(func(h heard) bool {
							if h.Op == wire.OpCloseSession {
								return false
							}
							<-time.After(trip)
							if tt.code != zk.OK {
								p.answer(h.Xid, tt.code, nil)
							}
							return tt.code != zk.OK
						})
					}
				})
				s := open(t, n, fakeAddr, client.Options{SessionTimeout: time.Minute})
				<-time.After(5 * time.Second)
				before, began := ages(s), time.Now()
				tt.call(t.Context(), s)
				synctest.Wait()
				for i, want := range tt.want {
					if want == old {
						want = before[i] + time.Since(began)
					}
					if got := ages(s)[i]; got != want {
						t.Errorf("age at strength %d: %v, want %v", i, got, want)
					}
				}
			})
		})
	}
}

// F17: a handshake proves as much as a write if it made the session, and as a sync if it resumed it and the first heartbeat, which
// leaves at once, is answered: both from when it was sent. Heartbeats go on from there, not from when the answer came.
func TestF17_WhatAHandshakeProves(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const slow = 3 * time.Second
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			req, _ := p.hello()
			<-time.After(slow)
			p.grant(fakeSession, time.Duration(req.Timeout)*time.Millisecond)
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 12 * time.Second})
		if got, want := ages(s), ([3]time.Duration{slow, slow, slow}); got != want {
			t.Errorf("ages after the first handshake: %v, want %v", got, want)
		}
		<-time.After(500 * time.Millisecond)
		cut(t, n, s)
		synctest.Wait()
		if a := ages(s); a[0] != 0 || a[1] != slow || a[2] <= slow {
			t.Errorf("ages after the second handshake: %v, want 0 for ping, %v for sync and more for write", a, slow)
		}
		v := s.Vouch(client.VouchSync)
		defer v.Stop()
		<-time.After(10 * time.Millisecond)
		if got := len(f.asked(wire.OpSync)); got != 1 {
			t.Errorf("%d heartbeats, want 1 at once: the handshake left %v ago, a sixth of the timeout is 2s", got, slow)
		}
	})
}

// F17: what goes ahead on a new connection is answered by its server alone. A follower that is cut off
// would take watches and credentials for as long as it does not notice.
func TestF17_ReconnectingProvesNoMoreThanItsHandshake(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			req, ok := p.hello()
			if p.number > 1 {
				<-time.After(time.Second)
			}
			p.grant(fakeSession, time.Duration(req.Timeout)*time.Millisecond)
			if ok {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpSetWatches || h.Op == wire.OpSetWatches2 || h.Op == wire.OpAuth {
						<-time.After(time.Second)
					}
					return false
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: time.Minute,
			Auth: []client.Auth{{Scheme: "digest", Credential: []byte("a:b")}}})
		_, _, _, err := s.WatchGet(t.Context(), "/n")
		must(t, err)
		_, err = s.AddWatch(t.Context(), "/m", true)
		must(t, err)
		<-time.After(3 * time.Second)
		cut(t, n, s)
		connected := time.Now()
		<-time.After(5 * time.Second) // the answers are here
		if len(f.asked(wire.OpSetWatches2)) != 1 || len(f.asked(wire.OpAuth)) != 2 {
			t.Errorf("asked: %v", f.asked())
		}
		if got, want := s.Age(client.VouchSync), time.Since(connected)+time.Second; got != want {
			t.Errorf("age at sync %v, want %v: since the handshake", got, want)
		}
	})
}

// F17: heartbeats leave a third of the timeout apart on an idle session, a sixth while a caller asks for
// vouching, of the strength that was asked for; ordinary requests of that strength take their place. The
// timeout is the one that was granted.
func TestF17_HeartbeatPacing(t *testing.T) {
	const granted = 6 * time.Second
	for _, tt := range []struct {
		name  string
		vouch []client.Vouch
		every time.Duration
		op    wire.Op
		work  func(ctx context.Context, s *client.Session) // every 500 ms
		beats bool
	}{
		{name: "idle", every: granted / 3, op: wire.OpPing, beats: true},
		{name: "ping", vouch: []client.Vouch{client.VouchPing}, every: granted / 6, op: wire.OpPing, beats: true},
		{name: "sync", vouch: []client.Vouch{client.VouchSync}, every: granted / 6, op: wire.OpSync, beats: true},
		{name: "write", vouch: []client.Vouch{client.VouchWrite}, every: granted / 6, op: wire.OpMulti, beats: true},
		{name: "all", vouch: []client.Vouch{client.VouchSync, client.VouchPing, client.VouchWrite, client.VouchSync}, every: granted / 6, op: wire.OpMulti, beats: true},
		{name: "idle, reading", op: wire.OpPing, work: func(ctx context.Context, s *client.Session) { s.Get(ctx, "/n") }},
		{name: "sync, reading", vouch: []client.Vouch{client.VouchSync}, every: granted / 6, op: wire.OpSync, beats: true,
			work: func(ctx context.Context, s *client.Session) { s.Get(ctx, "/n") }},
		{name: "sync, writing", vouch: []client.Vouch{client.VouchSync}, op: wire.OpSync,
			work: func(ctx context.Context, s *client.Session) { s.Set(ctx, "/n", nil, -1) }},
		{name: "idle, authenticating", every: granted / 3, op: wire.OpPing, beats: true,
			work: func(ctx context.Context, s *client.Session) {
				s.AddAuth(ctx, client.Auth{Scheme: "digest", Credential: []byte("a:b")})
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := serveFake(t, n, fakeAddr, func(p *peer) {
					p.hello()
					p.grant(fakeSession, granted)
					p.serve(nil)
				})
				s := open(t, n, fakeAddr, client.Options{SessionTimeout: time.Minute})
				if s.Timeout() != granted {
					t.Errorf("F46: Timeout() = %v, want what was granted, %v", s.Timeout(), granted)
				}
				for _, v := range tt.vouch {
					defer s.Vouch(v).Stop()
				}
				end := time.Now().Add(time.Minute)
				for time.Now().Before(end) {
					if tt.work != nil {
						tt.work(t.Context(), s)
					}
					<-time.After(500 * time.Millisecond)
				}
				synctest.Wait()
				beats := f.asked(tt.op)
				if !tt.beats {
					if len(beats) != 0 {
						t.Errorf("%d heartbeats, want none", len(beats))
					}
					return
				}
				if s.Stats().Heartbeats != uint64(len(beats)) {
					t.Errorf("%d heartbeats, %d of the right kind", s.Stats().Heartbeats, len(beats))
				}
				if want := int(time.Minute / tt.every); len(beats) < want-1 || len(beats) > want+1 {
					t.Errorf("%d heartbeats in a minute, want %d", len(beats), want)
				}
				for i := 1; i < len(beats); i++ {
					if d := beats[i].At.Sub(beats[i-1].At); d > tt.every+10*time.Millisecond {
						t.Errorf("%v between two heartbeats, want %v", d, tt.every)
					}
				}
			})
		})
	}
}

// A laggard is a connection that takes its time for each write.
type laggard struct {
	net.Conn
	takes time.Duration
}

func (l laggard) Write(b []byte) (int, error) {
	time.Sleep(l.takes)
	return l.Conn.Write(b)
}

// F17: heartbeats leave in time although something is queued at any moment, as where a write takes longer than an answer.
func TestF17_HeartbeatsAmongRequestsWithoutEnd(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		dial := n.Dialer("client")
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			return laggard{nc, time.Millisecond}, err
		}})
		defer s.Vouch(client.VouchSync).Stop()
		ctx := short(t, 6*time.Second)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for ctx.Err() == nil {
					s.Get(ctx, "/n")
				}
			})
		}
		readers.Wait()
		if age := s.Age(client.VouchSync); age > time.Second+10*time.Millisecond {
			t.Errorf("the last heartbeat that was answered was sent %v ago, want a second at most", age)
		}
	})
}

// A level that is none demands the strongest and takes nothing from the others.
func TestVouchNonsense(t *testing.T) {
	for _, level := range []client.Vouch{7, -1} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := serveFake(t, n, fakeAddr, well)
			s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
			defer s.Vouch(client.VouchSync).Stop()
			defer s.Vouch(level).Stop()
			<-time.After(time.Minute)
			beats := f.asked(wire.OpMulti)
			if len(beats) < 59 {
				t.Errorf("Vouch(%d): %d heartbeats in a minute, want one every second", int(level), len(beats))
			}
			for _, b := range beats {
				var req wire.MultiRequest
				req.DecodeFrom(wire.NewDecoder(b.Body))
				if len(req.Ops) != 1 || req.Ops[0].Op != wire.OpCheck || req.Ops[0].Path != "/" {
					t.Fatalf("Vouch(%d): asks for %+v", int(level), req.Ops)
				}
			}
		})
	}
}

// A vouching that is stopped asks for nothing any more.
func TestVouchingStops(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
		for _, level := range []client.Vouch{client.VouchPing, client.VouchSync, client.VouchWrite} {
			v := s.Vouch(level)
			<-time.After(10 * time.Second)
			v.Stop()
		}
		<-time.After(time.Second)
		before := len(f.asked())
		<-time.After(time.Minute)
		if got := len(f.asked()) - before; got > 31 {
			t.Errorf("%d requests in a minute, want a ping every 2s", got)
		}
	})
}

// F17: with the way cut at a random moment, the age exceeds two thirds of the timeout, where a holder
// gives up, before the server can expire the session; and it never looks younger than what the server
// has heard. Both in one time.
func TestF17_TheHolderKnowsFirst(t *testing.T) {
	for _, level := range []client.Vouch{client.VouchPing, client.VouchSync, client.VouchWrite} {
		for range 70 {
			seed := rand.Uint64()
			r := rand.New(rand.NewPCG(seed, 1))
			bubble(t, func(t *testing.T, n *memnet.Network) {
				start(t, n, fakeAddr)
				const timeout = 4 * time.Second
				n.Link("holder", "").Latency(time.Duration(r.IntN(300)) * time.Millisecond)
				s := open(t, n, fakeAddr, client.Options{SessionTimeout: timeout, Dial: n.Dialer("holder")})
				other := open(t, n, fakeAddr, client.Options{SessionTimeout: timeout, Dial: n.Dialer("other")})
				_, err := s.Create(t.Context(), "/held", nil, zk.Ephemeral, nil)
				must(t, err)
				defer s.Vouch(level).Stop()
				_, _, w, err := other.WatchGet(t.Context(), "/held")
				must(t, err)
				<-time.After(time.Duration(r.Int64N(int64(5 * time.Second))))
				way := []memnet.Direction{memnet.ToServer, memnet.ToClient, memnet.Both}[r.IntN(3)]
				n.Link("holder", "").Lose(way)
				<-time.After(max(timeout*2/3-s.Age(level), 0))
				for s.Age(level) <= timeout*2/3 { // a last answer was under way
					<-time.After(timeout*2/3 - s.Age(level) + 1)
				}
				select {
				case <-w.Done():
					t.Errorf("seed %d: %v: the node is gone and its holder's age is %v of %v", seed, level, s.Age(level), timeout)
				default:
				}
			})
		}
	}
}

// F18: the age counts time during which the machine slept.
func TestF18_AgeCountsSleep(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		var asleep atomic.Int64
		began := time.Now()
		c := clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(began) + time.Duration(asleep.Load()) }}
		s := open(t, n, fakeAddr, clock.With(client.Options{}, &c))
		must(t, s.Sync(t.Context(), "/"))
		asleep.Store(int64(time.Hour))
		if got := s.Age(client.VouchSync); got != time.Hour {
			t.Errorf("age after an hour's sleep: %v", got)
		}
		<-time.After(time.Millisecond)
		must(t, s.Sync(t.Context(), "/"))
		if got := s.Age(client.VouchSync); got != 0 {
			t.Errorf("age after the next answer: %v", got)
		}
	})
}

// F18: an answer that comes after the end of a lease begins another lease and does not prolong it. One that comes in time does.
func TestF18_ALateAnswerBeginsAnotherLease(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		var asleep atomic.Int64
		began := time.Now()
		c := clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(began) + time.Duration(asleep.Load()) }}
		s := open(t, n, fakeAddr, clock.With(client.Options{SessionTimeout: 6 * time.Second}, &c))
		first := s.Lease(client.VouchSync)
		if first.Remaining != 4*time.Second || first.ReadyIn != 0 {
			t.Errorf("the lease of a new session: %+v, want 4s and nothing to wait for", first)
		}
		for _, tt := range []struct {
			sleep   time.Duration
			number  uint64
			left    time.Duration
			readyIn time.Duration
		}{
			{4*time.Second - 1, first.Number, time.Second + 1, 1500 * time.Millisecond}, // a silence counts from a handshake, too
			{2 * time.Second, first.Number + 1, 3 * time.Second, 0},
			{time.Second, first.Number + 1, 3 * time.Second, 0},
			{time.Hour, first.Number + 2, -3595 * time.Second, 1500 * time.Millisecond},
		} {
			<-time.After(time.Millisecond) // one instant proves nothing twice
			asleep.Add(int64(tt.sleep - time.Millisecond))
			must(t, s.Sync(t.Context(), "/"))
			got := s.Lease(client.VouchSync)
			if want := (client.Lease{At: got.At, Remaining: tt.left, Number: tt.number, ReadyIn: tt.readyIn}); got != want {
				t.Errorf("an answer after %v: %+v, want %+v", tt.sleep, got, want)
			}
		}
		n.Link("", "").Refuse()
		n.Link("", "").Cut()
		await(t, s, client.Disconnected)
		asleep.Add(int64(time.Hour))
		n.Link("", "").Heal()
		await(t, s, client.Connected)
		synctest.Wait() // the first heartbeat is answered
		got := s.Lease(client.VouchSync)
		if want := (client.Lease{At: got.At, Remaining: 4 * time.Second, Number: first.Number + 3}); got != want {
			t.Errorf("after a handshake: %+v, want %+v", got, want)
		}
	})
}

// F18: a heartbeat that fell due while the machine slept leaves within a second of waking, so that a lease that has time left then
// does not end.
func TestF18_AHeartbeatAfterSleep(t *testing.T) {
	for _, tt := range []struct {
		level client.Vouch
		op    wire.Op
	}{{client.VouchPing, wire.OpPing}, {client.VouchSync, wire.OpSync}, {client.VouchWrite, wire.OpMulti}} {
		for _, sleep := range []time.Duration{9 * time.Second, 12 * time.Second, 17 * time.Second} { // 18.5s are left
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := serveFake(t, n, fakeAddr, well)
				var asleep atomic.Int64
				began := time.Now()
				c := clock.Clock{Elapsed: func(time.Time) time.Duration { return time.Since(began) + time.Duration(asleep.Load()) }}
				s := open(t, n, fakeAddr, clock.With(client.Options{SessionTimeout: 30 * time.Second}, &c))
				v := s.Vouch(tt.level)
				defer v.Stop()
				<-time.After(61500 * time.Millisecond)
				before, beats := s.Lease(tt.level), len(f.asked(tt.op))
				asleep.Store(int64(sleep))
				<-time.After(time.Second)
				if got := len(f.asked(tt.op)); got != beats+1 {
					t.Errorf("%v: %d heartbeats within a second after %v of sleep, want 1", tt.level, got-beats, sleep)
				}
				<-time.After(time.Minute)
				if after := s.Lease(tt.level); after.Number != before.Number || after.Remaining < 10*time.Second {
					t.Errorf("%v: %v of sleep: the lease before %+v, after %+v", tt.level, sleep, before, after)
				}
			})
		}
	}
}

// F17: a session counts with the least timeout that it was ever granted, for its lease and for how long a server may be
// silent. A server that was restarted with another maximum grants more at a reconnect, and goes by the first grant after
// another restart.
func TestF17_TheLeastTimeoutThatWasGrantedCounts(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		grants := []time.Duration{10 * time.Second, 30 * time.Second, 6 * time.Second, 30 * time.Second}
		serveFake(t, n, fakeAddr, func(p *peer) {
			p.hello()
			p.grant(fakeSession, grants[p.number-1])
			p.serve(nil)
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 30 * time.Second})
		for i, want := range []time.Duration{10 * time.Second, 10 * time.Second, 6 * time.Second, 6 * time.Second} {
			if i > 0 {
				cut(t, n, s)
			}
			if got := s.Timeout(); got != want {
				t.Errorf("after grants of %v: Timeout() = %v, want %v", grants[:i+1], got, want)
			}
			if got := s.Lease(client.VouchSync).Remaining; got > want*2/3 {
				t.Errorf("after grants of %v: a lease of %v, want %v", grants[:i+1], got, want*2/3)
			}
		}
		n.Link("", "").Lose(memnet.Both)
		silent := time.Now()
		await(t, s, client.Disconnected)
		if d := time.Since(silent); d > 6*time.Second {
			t.Errorf("a silent server is given up after %v, the least timeout is 6s", d)
		}
	})
}

// F48: from the moment Close is called the session vouches for nothing: the server may free its locks
// before its answer is here.
func TestF48_ClosingVouchesForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		n.Link("client", "").Latency(500 * time.Millisecond)
		s := open(t, n, fakeAddr, client.Options{})
		other := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")})
		_, err := s.Create(t.Context(), "/held", nil, zk.Ephemeral, nil)
		must(t, err)
		_, _, w, err := other.WatchGet(t.Context(), "/held")
		must(t, err)
		closed := make(chan error)
		go func() { closed <- s.Close(t.Context()) }()
		<-s.Done()
		wantErr(t, "Err", s.Err(), zk.ErrClosed)
		if st, _ := s.State(); st.Phase != client.Closed {
			t.Errorf("state %v, want closed", st.Phase)
		}
		select {
		case <-w.Done():
			t.Error("the node went before Done was closed")
		default:
		}
		if age := s.Age(client.VouchPing); age < time.Hour {
			t.Errorf("age %v while closing, want for ever", age)
		}
		fired(t, w)
		must(t, <-closed)
		if age := s.Age(client.VouchPing); age < time.Hour {
			t.Errorf("age %v after Close, want for ever", age)
		}
	})
}

// F17: requests that are refused by the first server that sees them prove too little, and so take the place of no heartbeat,
// however many there are. And they call for no more heartbeats than are due.
func TestF17_RefusedRequestsAreNoHeartbeats(t *testing.T) {
	for _, level := range []client.Vouch{client.VouchSync, client.VouchWrite} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := serveFake(t, n, fakeAddr, func(p *peer) {
				if p.open() {
					p.serve(func(h heard) bool {
						if h.Op == wire.OpSetData {
							p.answer(h.Xid, zk.ErrQuotaExceeded, nil)
						}
						return h.Op == wire.OpSetData
					})
				}
			})
			n.Link("client", "").Latency(150 * time.Millisecond)
			s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second})
			defer s.Vouch(level).Stop()
			for range 600 {
				p := s.Pipeline()
				p.Set("/n", nil, -1)
				p.Send(t.Context())
				<-time.After(100 * time.Millisecond)
				if age := s.Age(level); age > 2*time.Second {
					t.Fatalf("%v: nothing has been proved for %v, a sixth of the timeout is 1s", level, age)
				}
			}
			if beats := len(f.asked(wire.OpSync, wire.OpMulti)); beats > 61 {
				t.Errorf("%v: %d heartbeats in a minute, want one a second", level, beats)
			}
		})
	}
}

// F17: a server may answer a handshake before it has renewed the session, as long as the credentials have not been shown again. So the
// handshake proves something only once a request behind them is answered, and then from when it was sent.
func TestF17_AHandshakeWithCredentialsProvesOnceTheyAreAccepted(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		const slow = 2 * time.Second
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpAuth && p.number > 1 {
						<-time.After(slow)
					}
					return false
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 12 * time.Second, Auth: []client.Auth{
			{Scheme: "digest", Credential: []byte("ann:sesame")}, {Scheme: "digest", Credential: []byte("bob:sesame")}}})
		<-time.After(time.Second)
		before := ages(s)
		cut(t, n, s)
		reconnected := time.Now()
		<-time.After(2*slow - time.Millisecond)
		for i, age := range ages(s) {
			if age < before[i]+2*slow-time.Millisecond {
				t.Errorf("age %d is %v while the second credential is not accepted, and was %v before the connection broke", i, age, before[i])
			}
		}
		<-time.After(time.Millisecond)
		synctest.Wait()
		if a, want := ages(s), time.Since(reconnected); a[1] != want || a[2] <= want {
			t.Errorf("ages once both are accepted: %v, want %v for sync and more for write", a, want)
		}
	})
}

// F17: `lockkeeper server` answers the handshake of a client that has yet to show the session's identities, and ends the session in time
// if they never come. A certificate that was renewed resumes the session if its subject is the same. With another one each attempt is
// greeted, which proves nothing: the lease is over before the session is.
func TestF17_AGreetingProvesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		zks, ca := start(t, n, fakeAddr), newAuthority(t)
		l, err := n.Listen("secure:2281")
		must(t, err)
		go zks.srv.Serve(tls.NewListener(l, &tls.Config{
			Certificates: []tls.Certificate{ca.issue("secure")}, ClientCAs: ca.pool(), ClientAuth: tls.RequireAndVerifyClientCert}))
		var cert atomic.Pointer[tls.Certificate]
		present := func(subject string) {
			issued := ca.issue(subject)
			cert.Store(&issued)
		}
		present("alice")
		s := open(t, n, "secure:2281", client.Options{SessionTimeout: 12 * time.Second, TLS: &tls.Config{RootCAs: ca.pool(),
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert.Load(), nil }}})
		defer s.Vouch(client.VouchSync).Stop()
		_, err = s.Create(t.Context(), "/held", nil, zk.Ephemeral, nil)
		must(t, err)
		_, _, gone, err := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")}).WatchGet(t.Context(), "/held")
		must(t, err)
		present("alice")
		cut(t, n, s)
		must(t, s.Sync(short(t, time.Second), "/"))
		present("alice.example.com")
		n.Link("client", "").Cut()
		fired(t, gone)
		if l := s.Lease(client.VouchSync); l.Remaining > 0 {
			t.Errorf("the session's znode is gone, and the lease lasts %v", l.Remaining)
		}
	})
}
