package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A countingConn counts the writes to a connection.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// The requests of a pipeline leave in one write, in order, with nothing between them, however many others
// are sending.
func TestPipelineLeavesInOneWrite(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		var writes atomic.Int64
		s := open(t, n, fakeAddr, client.Options{Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			nc, err := n.DialAs(ctx, "client", addr)
			return countingConn{nc, &writes}, err
		}})
		synctest.Wait()
		before := writes.Load()
		p := s.Pipeline()
		created := p.Create("/n", nil, zk.Persistent, nil)
		listed := p.Children("/")
		got := p.Get("/n")
		synctest.Wait()
		if f.asked() != nil {
			t.Error("requests left before Send")
		}
		p.Send(t.Context())
		_, err := created.Wait(t.Context())
		must(t, err)
		_, err = listed.Wait(t.Context())
		must(t, err)
		_, err = got.Wait(t.Context())
		must(t, err)
		if w := writes.Load() - before; w != 1 {
			t.Errorf("%d writes, want 1", w)
		}
		if created.Conn() != 1 || got.Conn() != 1 {
			t.Errorf("answered on connections %d and %d, want 1", created.Conn(), got.Conn())
		}

		done := make(chan struct{})
		for i := range 20 {
			go func() {
				for j := range 20 {
					p := s.Pipeline()
					var last *client.Pending[client.Node]
					for k := range 5 {
						last = p.Get(fmt.Sprintf("/%d/%d/%d", i, j, k))
					}
					p.Send(context.Background())
					last.Wait(context.Background())
				}
				done <- struct{}{}
			}()
		}
		for range 20 {
			<-done
		}
		var paths []string
		for _, h := range f.asked(wire.OpGetData)[1:] {
			var req wire.WatchRequest
			must(t, wire.Unmarshal(h.Body, &req))
			paths = append(paths, req.Path)
		}
		next := map[int]int{}
		for ; len(paths) >= 5; paths = paths[5:] {
			var i, j int
			fmt.Sscanf(paths[0], "/%d/%d/", &i, &j)
			for k := range 5 {
				if want := fmt.Sprintf("/%d/%d/%d", i, next[i], k); paths[k] != want {
					t.Fatalf("%s where %s was due", paths[k], want)
				}
			}
			next[i]++
		}
	})
}

// A brokenConn breaks when much is written at once.
type brokenConn struct{ net.Conn }

func (c brokenConn) Write(b []byte) (int, error) {
	if len(b) > 1<<19 {
		c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// Of a pipeline whose first requests go with a connection, nothing is sent on the next: a listing without the sync
// that was put ahead of it could be that of a server which lags. However much else waits to be sent.
func TestPipelineLeavesOnOneConnection(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			nc, err := n.DialAs(ctx, "client", addr)
			return brokenConn{nc}, err
		}})
		n.Link("client", "").Refuse()
		n.Link("client", "").Cut()
		await(t, s, client.Disconnected)
		const rest = 4 + 8 + 4 + len("/n") + 4 + 4 // length, header, path, length of the data, version
		p := s.Pipeline()
		for range 2 { // a megabyte, less than a sync takes
			p.Set("/n", make([]byte, 1<<19-rest-5), -1)
		}
		p.Send(t.Context())
		p = s.Pipeline()
		synced, listed := p.Sync("/"), p.Children("/")
		p.Send(t.Context())
		n.Link("client", "").Heal()
		_, err := synced.Wait(t.Context())
		wantErr(t, "sync", err, zk.ErrConnectionLoss)
		if _, err = listed.Wait(t.Context()); !errors.Is(err, zk.ErrConnectionLoss) || len(f.asked(wire.OpGetChildren2)) > 0 {
			t.Errorf("listed on connection %d, without its sync: %v", listed.Conn(), err)
		}
	})
}

// With a request that is withdrawn, before it has been sent, goes all of its pipeline, whichever it is, and nothing of others.
func TestPipelineIsWithdrawnAsAWhole(t *testing.T) {
	for _, which := range []int{0, 1, 2} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := serveFake(t, n, fakeAddr, well)
			s := open(t, n, fakeAddr, client.Options{})
			n.Link("", "").Refuse()
			n.Link("", "").Cut()
			await(t, s, client.Disconnected)
			pipelines := make([][]*client.Pending[struct{}], 3)
			for i := range pipelines {
				p := s.Pipeline()
				for range 3 {
					pipelines[i] = append(pipelines[i], p.Sync("/"))
				}
				p.Send(t.Context())
			}
			_, err := pipelines[1][which].Wait(short(t, time.Second))
			wantErr(t, "the one that is waited for", err, context.DeadlineExceeded)
			for _, other := range pipelines[1] {
				_, err := other.Wait(t.Context())
				wantErr(t, "another of its pipeline", err, context.DeadlineExceeded)
			}
			n.Link("", "").Heal()
			for _, synced := range append(pipelines[0], pipelines[2]...) {
				_, err := synced.Wait(t.Context())
				must(t, err)
			}
			if got := len(f.asked(wire.OpSync)); got != 6 {
				t.Errorf("%d requests were sent, want those of the two other pipelines, 6", got)
			}
		})
	}
}

// A pipeline that takes many writes goes through, and slowly if need be.
func TestLargePipeline(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		var writes atomic.Int64
		s := open(t, n, fakeAddr, client.Options{SessionTimeout: 6 * time.Second, Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			nc, err := n.DialAs(ctx, "client", addr)
			return &slowConn{Conn: countingConn{nc, &writes}}, err
		}})
		p := s.Pipeline()
		var last *client.Pending[zk.Stat]
		for range 20 {
			last = p.Set("/n", make([]byte, 1<<19), -1)
		}
		p.Send(t.Context())
		_, err := last.Wait(t.Context())
		must(t, err)
	})
}

// A slowConn takes a megabyte a second, until its deadline.
type slowConn struct {
	net.Conn
	deadline time.Time
}

func (c *slowConn) SetWriteDeadline(at time.Time) error { c.deadline = at; return nil }

func (c *slowConn) Write(b []byte) (int, error) {
	<-time.After(time.Second * time.Duration(len(b)) / (1 << 20))
	if !c.deadline.IsZero() && time.Now().After(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	return c.Conn.Write(b)
}

// An event is delivered before the answer of any request that saw the change.
func TestEventsComeBeforeAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{})
		_, err := s.Create(t.Context(), "/n", nil, zk.Persistent, nil)
		must(t, err)
		for i := range 100 {
			p := s.Pipeline()
			got, w := p.WatchGet("/n")
			set := p.Set("/n", nil, -1)
			p.Send(t.Context())
			_, err := got.Wait(t.Context())
			must(t, err)
			_, err = set.Wait(t.Context())
			must(t, err)
			select {
			case <-w.Done():
			default:
				t.Fatalf("round %d: the answer to the set is here and the event is not", i)
			}
		}
	})
}

// The xid wraps around to 1, past the numbers that mean something else.
func TestXidWraps(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		client.SetXid(s, math.MaxInt32-2)
		for range 4 {
			_, _, err := s.Get(t.Context(), "/n")
			must(t, err)
		}
		var xids []int32
		for _, h := range f.asked(wire.OpGetData) {
			xids = append(xids, h.Xid)
		}
		if want := []int32{math.MaxInt32 - 1, math.MaxInt32, 1, 2}; !slices.Equal(xids, want) {
			t.Errorf("xids %d, want %d", xids, want)
		}
		if c := s.Stats().Connections; c != 1 {
			t.Errorf("%d connections, want 1", c)
		}
	})
}

// InFlightMax: further requests wait for room, give up with their context, and go on when there is room.
// A pipeline that is larger than the limit goes alone.
func TestInFlightMax(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		hold := make(chan struct{})
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpGetData {
						<-hold
					}
					return false
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{InFlightMax: 3, SessionTimeout: time.Hour})
		answered := make(chan error, 10)
		for range 5 {
			go func() {
				_, _, err := s.Get(context.Background(), "/n")
				answered <- err
			}()
		}
		synctest.Wait()
		if got := s.Stats().Requests; got != 3 {
			t.Errorf("%d requests sent, want 3", got)
		}
		_, err := s.Set(short(t, time.Second), "/n", nil, -1)
		wantErr(t, "set without room", err, context.DeadlineExceeded)
		if client.MaybeApplied(err) {
			t.Errorf("MaybeApplied(%v), but it was never sent", err)
		}
		close(hold)
		for range 5 {
			must(t, <-answered)
		}
		p := s.Pipeline()
		var last *client.Pending[client.Node]
		for range 10 {
			last = p.Get("/n")
		}
		p.Send(t.Context())
		_, err = last.Wait(t.Context())
		must(t, err)
		if got := len(f.asked(wire.OpGetData)); got != 15 {
			t.Errorf("%d gets, want 15", got)
		}
	})
}

// InFlightMax: callers that wait for room get it in turn, those that need much of it too, however many others come meanwhile.
func TestRoomIsGivenInTurn(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, well)
		n.Link("client", "").Latency(5 * time.Millisecond)
		s := open(t, n, fakeAddr, client.Options{InFlightMax: 10})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 15 {
			wg.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				for ctx.Err() == nil {
					s.Get(ctx, "/n")
				}
			})
		}
		<-time.After(time.Second)
		for _, size := range []int{1, 3, 10, 20} {
			p := s.Pipeline()
			var last *client.Pending[client.Node]
			for range size {
				last = p.Get("/n")
			}
			p.Send(short(t, time.Second))
			if _, err := last.Wait(t.Context()); err != nil {
				t.Errorf("%d requests at once: %v", size, err)
			}
		}
		quitter := s.Pipeline() // a caller that gives up lets the next one through
		for range 10 {
			quitter.Get("/n")
		}
		quitter.Send(short(t, time.Millisecond))
		_, _, err := s.Get(short(t, time.Second), "/n")
		must(t, err)
		stop()
		wg.Wait()
	})
}

// RequestBytesMax: a request that is too large fails at once, is not sent, and costs no connection. The
// limit is the same as the server's.
func TestRequestBytesMax(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{})
		_, err := s.Create(t.Context(), "/n", nil, zk.Persistent, nil)
		must(t, err)
		const rest = 8 + 4 + len("/n") + 4 + 4 // header, path, length of the data, version
		_, err = s.Set(t.Context(), "/n", make([]byte, wire.FrameBytesMax-rest), -1)
		must(t, err)
		_, err = s.Set(t.Context(), "/n", make([]byte, wire.FrameBytesMax-rest+1), -1)
		var size *client.SizeError
		if !errors.As(err, &size) || size.Bytes != wire.FrameBytesMax+1 || client.MaybeApplied(err) {
			t.Errorf("set of a byte more: %v, want a *SizeError", err)
		}
		if c := s.Stats().Connections; c != 1 {
			t.Errorf("%d connections, want 1", c)
		}
	})
}

// The same for a watch: what is too long to be asked for is not asked to be forgotten either.
func TestAWatchThatIsTooLarge(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		s := open(t, n, fakeAddr, client.Options{})
		var size *client.SizeError
		if _, err := s.AddWatch(t.Context(), "/"+strings.Repeat("n", wire.FrameBytesMax), true); !errors.As(err, &size) {
			t.Errorf("AddWatch: %v, want a *SizeError", err)
		}
		_, _, err := s.Get(t.Context(), "/")
		must(t, err)
		if c := s.Stats().Connections; c != 1 {
			t.Errorf("%d connections, want 1", c)
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		opt  client.Options
		says string
	}{
		{client.Options{SessionTimeout: -1}, "SessionTimeout"},
		{client.Options{SessionTimeout: time.Microsecond}, "SessionTimeout"},
		{client.Options{SessionTimeout: 25 * 24 * time.Hour}, "SessionTimeout"},
		{client.Options{SessionTimeoutMin: -1}, "SessionTimeoutMin"},
		{client.Options{SessionTimeoutMax: -1}, "SessionTimeoutMax"},
		{client.Options{SessionTimeoutMin: 2 * time.Second, SessionTimeoutMax: time.Second}, "SessionTimeoutMax"},
		{client.Options{ConnectTimeout: -1}, "ConnectTimeout"},
		{client.Options{BackoffMin: -1}, "BackoffMin"},
		{client.Options{BackoffMax: -1}, "BackoffMax"},
		{client.Options{BackoffMin: time.Minute}, "BackoffMax"},
		{client.Options{CloseTimeout: -1}, "CloseTimeout"},
		{client.Options{RequestBytesMax: 100}, "RequestBytesMax"},
		{client.Options{ReplyBytesMax: 15}, "ReplyBytesMax"},
		{client.Options{InFlightMax: -1}, "InFlightMax"},
	} {
		s, err := client.Open(t.Context(), "zk", tt.opt)
		if s != nil || err == nil || !contains(err.Error(), tt.says) {
			t.Errorf("Open with %s out of bounds: %v, %v", tt.says, s, err)
		}
	}
}

// Xids go on from connection to connection. A server of an ensemble finds the request that a commit belongs to by session and
// xid: a new request with the xid of one that is still under way could be given the other's answer.
func TestXidsGoOnAfterAReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(nil)
			}
		})
		s := open(t, n, fakeAddr, client.Options{})
		for range 3 {
			for range 2 {
				_, _, err := s.Get(t.Context(), "/n")
				must(t, err)
			}
			cut(t, n, s)
		}
		asked := f.asked(wire.OpGetData)
		if len(asked) != 6 || asked[0].Peer == asked[5].Peer {
			t.Fatalf("asked %v, want six requests on three connections", asked)
		}
		for i := 1; i < len(asked); i++ {
			if asked[i].Xid <= asked[i-1].Xid {
				t.Errorf("xid %d on connection %d follows %d on connection %d", asked[i].Xid, asked[i].Peer, asked[i-1].Xid, asked[i-1].Peer)
			}
		}
	})
}

// Servers say at once that they do not know a request, ahead of what they have been asked before, and hang up (Apache ZooKeeper's
// PrepRequestProcessor before 3.6 for AddWatch). What waits is not to be asked again and again for that.
func TestUnimplementedOvertakes(t *testing.T) {
	for _, event := range []bool{false, true} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			f := serveFake(t, n, fakeAddr, func(p *peer) {
				if !p.open() {
					return
				}
				for {
					switch h, ok := p.next(); {
					case !ok:
						return
					case h.Op == wire.OpExists && event:
						p.answer(h.Xid, zk.OK, &wire.StatResponse{})
						p.zxid = 7
						p.event(zk.NodeDeleted, "/n") // after which a transaction goes ahead on the next connection
					case h.Op == wire.OpAddWatch:
						p.zxid = -1
						p.answer(h.Xid, zk.ErrUnimplemented, nil)
						return
					case h.Op == wire.OpPing, h.Op == wire.OpCloseSession:
						p.answer(h.Xid, zk.OK, nil)
					}
				}
			})
			s := open(t, n, fakeAddr, client.Options{})
			if event {
				_, _, w, err := s.WatchExists(t.Context(), "/n")
				must(t, err)
				fired(t, w)
			}
			get, stop := context.WithCancel(t.Context())
			defer stop()
			go s.Get(get, "/n")
			synctest.Wait()
			_, err := s.AddWatch(short(t, time.Minute), "/n", true)
			wantErr(t, "AddWatch", err, zk.ErrUnimplemented)
			if asked := len(f.asked(wire.OpAddWatch)); asked != 1 {
				t.Errorf("asked %d times, want 1", asked)
			}
		})
	}
}
