package client_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// serverWatches asks the server how many watches it keeps.
func serverWatches(t testing.TB, n *memnet.Network) (count int) {
	t.Helper()
	nc, err := n.DialAs(t.Context(), "operator", fakeAddr)
	must(t, err)
	defer nc.Close()
	nc.Write([]byte("mntr"))
	var b strings.Builder
	buf := make([]byte, 4<<10)
	for {
		k, err := nc.Read(buf)
		b.Write(buf[:k])
		if err != nil {
			break
		}
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Sscanf(line, "zk_watch_count\t%d", &count); err == nil {
			return count
		}
	}
	t.Fatalf("no zk_watch_count in %q", b.String())
	return 0
}

func withWords(t testing.TB, n *memnet.Network) *ours {
	return startWith(t, n, fakeAddr, server.Options{Words: []string{"*"}})
}

// F10, F49: a watch survives reconnects, and what changed while there was no connection fires it.
func TestF10_WatchesSurviveAFlap(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(ctx context.Context, s *client.Session) error
		data   zk.EventType // of the watch on /dir/a, which is there; 0: none
		child  zk.EventType // on the children of /dir
		absent zk.EventType // on /dir/b, which is not
	}{
		{"nothing", func(context.Context, *client.Session) error { return nil }, 0, 0, 0},
		{"set", func(ctx context.Context, s *client.Session) error {
			_, err := s.Set(ctx, "/dir/a", nil, -1)
			return err
		}, zk.NodeDataChanged, 0, 0},
		{"deleted", func(ctx context.Context, s *client.Session) error { return s.Delete(ctx, "/dir/a", -1) },
			zk.NodeDeleted, zk.NodeChildrenChanged, 0},
		{"created", func(ctx context.Context, s *client.Session) error {
			_, err := s.Create(ctx, "/dir/b", nil, zk.Persistent, nil)
			return err
		}, 0, zk.NodeChildrenChanged, zk.NodeCreated},
		{"F49: deleted and created again", func(ctx context.Context, s *client.Session) error {
			s.Delete(ctx, "/dir/a", -1)
			_, err := s.Create(ctx, "/dir/a", nil, zk.Persistent, nil)
			return err
		}, zk.NodeDataChanged, zk.NodeChildrenChanged, 0},
		{"F49: everything deleted and created again", func(ctx context.Context, s *client.Session) error {
			s.Delete(ctx, "/dir/a", -1)
			s.Delete(ctx, "/dir", -1)
			s.Create(ctx, "/dir", nil, zk.Persistent, nil)
			_, err := s.Create(ctx, "/dir/a", nil, zk.Persistent, nil)
			return err
		}, zk.NodeDataChanged, zk.NodeChildrenChanged, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				withWords(t, n)
				other := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")})
				for _, path := range []string{"/dir", "/dir/a"} {
					_, err := other.Create(t.Context(), path, nil, zk.Persistent, nil)
					must(t, err)
				}
				s := open(t, n, fakeAddr, client.Options{})
				_, _, data, err := s.WatchGet(t.Context(), "/dir/a")
				must(t, err)
				_, _, child, err := s.WatchChildren(t.Context(), "/dir")
				must(t, err)
				_, ok, absent, err := s.WatchExists(t.Context(), "/dir/b")
				must(t, err)
				if ok {
					t.Fatal("/dir/b is there")
				}
				n.Link("client", "").Refuse()
				n.Link("client", "").Cut()
				await(t, s, client.Disconnected)
				must(t, tt.change(t.Context(), other))
				n.Link("client", "").Heal()
				st := await(t, s, client.Connected)
				_, _, err = s.Get(t.Context(), "/") // events come before any later answer
				must(t, err)
				kept := 0
				for _, w := range []struct {
					name  string
					watch *client.Watch
					path  string
					want  zk.EventType
				}{{"data", data, "/dir/a", tt.data}, {"child", child, "/dir", tt.child}, {"absent", absent, "/dir/b", tt.absent}} {
					select {
					case <-w.watch.Done():
						if ev, conn, err := w.watch.Event(); ev.Type != w.want || ev.Path != w.path || conn != st.Conn || err != nil {
							t.Errorf("%s: %v of %s on connection %d, %v, want %v of %s on %d", w.name, ev.Type, ev.Path, conn, err, w.want, w.path, st.Conn)
						}
					default:
						kept++
						if w.want != 0 {
							t.Errorf("%s: nothing, want %v", w.name, w.want)
						}
						if w.watch.Conn() != st.Conn {
							t.Errorf("%s: armed on connection %d, want %d", w.name, w.watch.Conn(), st.Conn)
						}
					}
				}
				if got := serverWatches(t, n); got != kept {
					t.Errorf("%d watches on the server, want %d", got, kept)
				}
			})
		})
	}
}

// F14: a watch that no caller waits for any more is forgotten by the server and by the session; one that
// another needs stays.
func TestF14_CancelledWatchesAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		withWords(t, n)
		s := open(t, n, fakeAddr, client.Options{})
		wantWatches := func(when string, want int) {
			t.Helper()
			must(t, s.Sync(t.Context(), "/"))
			synctest.Wait() // a removal leaves when the watch's own request is answered
			if got := serverWatches(t, n); got != want {
				t.Errorf("%s: %d watches on the server, want %d", when, got, want)
			}
			if l := client.LeftoversOf(s); l.Spots != want {
				t.Errorf("%s: %d watches in the session, want %d", when, l.Spots, want)
			}
		}
		_, _, one, err := s.WatchGet(t.Context(), "/")
		must(t, err)
		_, _, two, err := s.WatchExists(t.Context(), "/")
		must(t, err)
		_, _, child, err := s.WatchChildren(t.Context(), "/")
		must(t, err)
		wantWatches("three watches, two of them one at the server", 2)
		one.Cancel()
		one.Cancel()
		wantWatches("one of two cancelled", 2)
		child.Cancel()
		wantWatches("children cancelled", 1)
		_, err = s.Set(t.Context(), "/", nil, -1)
		must(t, err)
		fired(t, two)
		select {
		case <-one.Done():
			t.Error("the cancelled watch fired")
		default:
		}
		two.Cancel()
		wantWatches("fired", 0)

		// Requests that end before their answer, one way or another.
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			p := s.Pipeline()
			got, w := p.WatchGet("/")
			p.Send(ctx)
			synctest.Wait()
			cancel()
			got.Wait(ctx)
			w.Cancel()
		}
		wantWatches("a hundred abandoned", 0)
		_, _, _, err = s.WatchGet(t.Context(), "/none")
		wantErr(t, "get", err, zk.ErrNoNode)
		wantWatches("a get that failed", 0)
	})
}

// F14: the removal may meet the end of the connection; the server's watches went with that, and the next
// connection does not ask for what is not needed.
func TestF14_RemovalMeetsCut(t *testing.T) {
	for _, before := range []bool{true, false} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			withWords(t, n)
			proxy := faultproxy.New(n.Dialer("client"))
			defer proxy.Close()
			s := open(t, n, fakeAddr, client.Options{Dial: proxy.Dial})
			_, _, w, err := s.WatchGet(t.Context(), "/")
			must(t, err)
			m := faultproxy.Match{Ops: []wire.Op{wire.OpRemoveWatches}}
			if before {
				proxy.CutBefore(m)
			} else {
				proxy.CutAfter(m)
			}
			w.Cancel()
			<-time.After(time.Second)
			must(t, s.Sync(t.Context(), "/"))
			if got := serverWatches(t, n); got != 0 {
				t.Errorf("cut before: %v: %d watches on the server, want none", before, got)
			}
			if l := client.LeftoversOf(s); l.Spots != 0 {
				t.Errorf("cut before: %v: %+v", before, l)
			}
			must(t, s.Close(t.Context()))
		})
	}
}

// F49: however many watches there are, each is there again after each reconnect, in frames of bounded size.
func TestF49_ManyWatches(t *testing.T) {
	const watches, reconnects = 20_000, 20
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr, client.Options{})
		long := "/" + strings.Repeat("x", 200)
		all := make([]*client.Watch, watches)
		for i := 0; i < watches; i += 500 {
			p := s.Pipeline()
			var last *client.Pending[client.Node]
			for j := i; j < i+500; j++ {
				last, all[j] = p.WatchGet(fmt.Sprintf("%s/%d", long, j))
			}
			p.Send(t.Context())
			_, err := last.Wait(t.Context())
			must(t, err)
		}
		for range reconnects {
			cut(t, n, s)
			_, _, err := s.Get(t.Context(), "/") // answered behind the registrations
			must(t, err)
		}
		seen := make(map[int]int) // connection → paths
		for _, h := range f.asked(wire.OpSetWatches) {
			var req wire.SetWatchesRequest
			must(t, wire.Unmarshal(h.Body, &req))
			seen[h.Peer] += len(req.Data)
			if len(h.Body) > 129<<10 {
				t.Fatalf("a frame of %d bytes", len(h.Body))
			}
		}
		if len(seen) != reconnects {
			t.Errorf("registered again on %d connections, want %d", len(seen), reconnects)
		}
		for conn, paths := range seen {
			if paths != watches {
				t.Errorf("connection %d: %d watches, want %d", conn, paths, watches)
			}
		}
		for i, w := range all {
			if w.Conn() != reconnects+1 {
				t.Fatalf("watch %d is set on connection %d, want %d", i, w.Conn(), reconnects+1)
			}
		}
	})
}

// F49: watches that cannot be registered again leave no caller blind: the connection is given up.
func TestF49_RefusedRegistrationIsNotSilent(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpSetWatches && p.number < 4 {
						p.answer(h.Xid, zk.ErrMarshalling, nil)
						return true
					}
					return false
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{})
		_, _, w, err := s.WatchGet(t.Context(), "/n")
		must(t, err)
		n.Link("client", "").Cut()
		<-time.After(10 * time.Second)
		if w.Conn() != 4 || f.connections() != 4 {
			t.Errorf("set on connection %d of %d, want 4 of 4", w.Conn(), f.connections())
		}
	})
}

// F49: the state is a level: a late look sees what is true, and a trace that blocks holds nothing up.
// F15: user code runs on no goroutine that the session needs, and may use the session.
func TestF15_TraceMayBlock(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		var s *client.Session
		ready, release := make(chan struct{}), make(chan struct{})
		s = open(t, n, fakeAddr, client.Options{SessionTimeout: 4 * time.Second, Trace: client.Trace{State: func(st client.State) {
			<-ready
			if st.Conn == 1 && st.Phase == client.Connected {
				if _, err := s.Create(context.Background(), "/from-trace", nil, zk.Ephemeral, nil); err != nil {
					t.Errorf("create in a trace function: %v", err)
				}
				<-time.After(8 * time.Second) // twice the timeout
			}
			<-release
		}}})
		close(ready)
		<-time.After(9 * time.Second)
		if _, ok, err := s.Exists(t.Context(), "/from-trace"); !ok || err != nil {
			t.Errorf("exists: %v, %v: a blocked trace function cost the session", ok, err)
		}
		for range 300 {
			cut(t, n, s)
		}
		if st, _ := s.State(); st.Phase != client.Connected || st.Conn != 301 {
			t.Errorf("state %v on connection %d", st.Phase, st.Conn)
		}
		if s.Stats().TraceDropped == 0 {
			t.Error("600 changes of state fit into the trace's queue?")
		}
		must(t, s.Close(t.Context()))
		close(release)
	})
}

// An event tells of a transaction that no answer has named. After a reconnect, reads must not be older than that: another
// transaction goes ahead of them. After an answer the handshake says it all, and none is needed.
func TestTransactionAfterAnEventThatNoAnswerFollowed(t *testing.T) {
	for _, zxid := range []int64{-1, 7} { // before ZooKeeper 3.9, and since
		for _, answered := range []string{"no", "yes", "without a zxid"} {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				f := serveFake(t, n, fakeAddr, func(p *peer) {
					if !p.open() {
						return
					}
					p.serve(func(h heard) bool {
						if h.Op == wire.OpExists {
							p.answer(h.Xid, zk.OK, &wire.StatResponse{})
							p.zxid = zxid
							p.event(zk.NodeDeleted, "/gone")
							p.zxid = 7
							return true
						}
						if h.Op == wire.OpWhoAmI { // before 3.7
							p.zxid = -1
							p.answer(h.Xid, zk.ErrUnimplemented, nil)
							return true
						}
						return false
					})
				})
				s := open(t, n, fakeAddr, client.Options{})
				_, _, w, err := s.WatchExists(t.Context(), "/gone")
				must(t, err)
				fired(t, w)
				switch answered {
				case "yes":
					_, _, err = s.Get(t.Context(), "/n")
					must(t, err)
				case "without a zxid":
					_, err = s.WhoAmI(t.Context())
					wantErr(t, "WhoAmI", err, zk.ErrUnimplemented)
				}
				cut(t, n, s)
				_, _, err = s.Get(t.Context(), "/n")
				must(t, err)
				var ops []wire.Op
				for _, h := range f.asked() {
					if h.Peer == 2 && h.Op != wire.OpPing {
						ops = append(ops, h.Op)
					}
				}
				want := []wire.Op{wire.OpMulti, wire.OpGetData}
				if answered == "yes" {
					want = want[1:]
				}
				if !slices.Equal(ops, want) {
					t.Errorf("event with zxid %d, answered: %s: the new connection began with %v, want %v", zxid, answered, ops, want)
				}
			})
		}
	}
}

// F10: a connection breaks between the answer to the transaction that goes ahead and the request that sets watches again. The next
// connection asks what has happened since the watches were set, and not since that transaction.
func TestF10_WatchesAreSetAgainSinceTheyWereSet(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		var since []int64
		serveFake(t, n, fakeAddr, func(p *peer) {
			if !p.open() {
				return
			}
			p.zxid = 5
			p.serve(func(h heard) bool {
				switch h.Op {
				case wire.OpExists:
					p.answer(h.Xid, zk.OK, &wire.StatResponse{})
					p.zxid = 7
					p.event(zk.NodeDeleted, "/gone")
					return true
				case wire.OpMulti:
					p.zxid = 9 // other clients have written meanwhile
				case wire.OpSetWatches:
					var req wire.SetWatchesRequest
					must(t, wire.Unmarshal(h.Body, &req))
					since = append(since, req.RelativeZxid)
					if len(since) == 1 {
						p.nc.Close()
						return true
					}
				}
				return false
			})
		})
		s := open(t, n, fakeAddr, client.Options{})
		_, _, _, err := s.WatchGet(t.Context(), "/kept")
		must(t, err)
		_, _, w, err := s.WatchExists(t.Context(), "/gone")
		must(t, err)
		fired(t, w)
		cut(t, n, s)
		_, _, err = s.Get(t.Context(), "/n")
		must(t, err)
		if !slices.Equal(since, []int64{5, 5}) {
			t.Errorf("watches were set again as of %d, want 5 both times", since)
		}
	})
}
