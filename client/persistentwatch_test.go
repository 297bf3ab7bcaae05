package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// A persistent watch reports what happens, in order, until it is closed; over a break it reports a gap.
func TestPersistentWatch(t *testing.T) {
	for _, recursive := range []bool{false, true} {
		bubble(t, func(t *testing.T, n *memnet.Network) {
			withWords(t, n)
			other := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")})
			s := open(t, n, fakeAddr, client.Options{})
			st, err := s.AddWatch(t.Context(), "/dir", recursive)
			must(t, err)
			twin, err := s.AddWatch(t.Context(), "/dir", recursive)
			must(t, err)
			work := func() {
				t.Helper()
				for _, path := range []string{"/dir", "/dir/a"} {
					_, err := other.Create(t.Context(), path, nil, zk.Persistent, nil)
					must(t, err)
				}
				_, err := other.Set(t.Context(), "/dir", nil, -1)
				must(t, err)
				must(t, other.Delete(t.Context(), "/dir/a", -1))
				must(t, other.Delete(t.Context(), "/dir", -1))
			}
			want := []zk.Event{{Type: zk.NodeCreated, Path: "/dir"}, {Type: zk.NodeChildrenChanged, Path: "/dir"},
				{Type: zk.NodeDataChanged, Path: "/dir"}, {Type: zk.NodeChildrenChanged, Path: "/dir"}, {Type: zk.NodeDeleted, Path: "/dir"}}
			if recursive {
				want = []zk.Event{{Type: zk.NodeCreated, Path: "/dir"}, {Type: zk.NodeCreated, Path: "/dir/a"},
					{Type: zk.NodeDataChanged, Path: "/dir"}, {Type: zk.NodeDeleted, Path: "/dir/a"}, {Type: zk.NodeDeleted, Path: "/dir"}}
			}
			reads := func(st *client.PersistentWatch, gap bool) {
				t.Helper()
				if gap {
					if ev, err := st.Next(short(t, time.Second)); !ev.Gap || err != nil {
						t.Errorf("%+v, %v, want a gap", ev, err)
					}
				}
				for _, w := range want {
					ev, err := st.Next(short(t, time.Second))
					if ev.Gap || ev.Type != w.Type || ev.Path != w.Path || err != nil {
						t.Errorf("recursive %v: %+v, %v, want %v of %s", recursive, ev, err, w.Type, w.Path)
					}
				}
				_, err := st.Next(short(t, time.Second))
				wantErr(t, "next", err, context.DeadlineExceeded)
			}
			work()
			reads(st, false)
			reads(twin, false)
			cut(t, n, s)
			must(t, s.Sync(t.Context(), "/")) // behind the registration
			must(t, other.Sync(t.Context(), "/"))
			work()
			reads(st, true)
			st.Close()
			st.Close()
			_, err = st.Next(t.Context())
			wantErr(t, "next of a closed watch", err, zk.ErrClosed)
			work()
			twin.Close()
			must(t, s.Sync(t.Context(), "/"))
			if got := serverWatches(t, n); got != 0 {
				t.Errorf("%d watches on the server after Close", got)
			}
			if l := client.LeftoversOf(s); l.Persistent != 0 {
				t.Errorf("left: %+v", l)
			}
		})
	}
}

// What a closed watch asks the server to forget has a type that the server knows: any watch of the path if no other one is
// there, the persistent one once an event has shown that the server is of 3.9 or later, and otherwise nothing.
func TestRemovalOfAPersistentWatch(t *testing.T) {
	for _, tt := range []struct {
		name          string
		beside, event bool
		want          int // watches on the server after Close
	}{
		{"alone", false, false, 0},
		{"alone after an event", false, true, 0},
		{"beside another", true, false, 2},
		{"beside another after an event", true, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *memnet.Network) {
				withWords(t, n)
				s := open(t, n, fakeAddr, client.Options{})
				st, err := s.AddWatch(t.Context(), "/n", true)
				must(t, err)
				if tt.event {
					_, err := s.Create(t.Context(), "/n", nil, zk.Persistent, nil)
					must(t, err)
				}
				var w *client.Watch
				if tt.beside {
					_, _, w, err = s.WatchExists(t.Context(), "/n")
					must(t, err)
				}
				st.Close()
				must(t, s.Sync(t.Context(), "/"))
				if got := serverWatches(t, n); got != tt.want {
					t.Errorf("%d watches on the server after Close, want %d", got, tt.want)
				}
				if w != nil {
					_, err := s.Put(t.Context(), "/n", nil, nil)
					must(t, err)
					<-w.Done()
				}
			})
		})
	}
}

// A persistent watch whose reader is too slow gets a gap in place of what did not fit, and no more memory.
func TestPersistentWatchOverflow(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		serveFake(t, n, fakeAddr, func(p *peer) {
			if p.open() {
				p.serve(func(h heard) bool {
					if h.Op == wire.OpGetData {
						for i := range 3*client.WatchEventsMax + 10 {
							p.event(zk.NodeDataChanged, fmt.Sprintf("/n/%d", i))
						}
					}
					return false
				})
			}
		})
		s := open(t, n, fakeAddr, client.Options{})
		st, err := s.AddWatch(t.Context(), "/n", true)
		must(t, err)
		_, _, err = s.Get(t.Context(), "/n")
		must(t, err)
		gaps, events, last := 0, 0, ""
		for {
			ev, err := st.Next(short(t, time.Second))
			if err != nil {
				break
			}
			if ev.Gap {
				gaps++
				if events > 0 {
					t.Errorf("a gap behind %d events: they should have been replaced", events)
				}
				continue
			}
			events, last = events+1, ev.Path
		}
		if gaps != 1 || events > client.WatchEventsMax || last != fmt.Sprintf("/n/%d", 3*client.WatchEventsMax+9) {
			t.Errorf("%d gaps, %d events, last %s", gaps, events, last)
		}
	})
}

// A server of before 3.6 answers the request for a persistent watch with "not implemented" and hangs up. If that answer
// is lost, the request for the watch goes out again with the reconnect: it must not be refused for ever.
func TestPersistentWatchAtAServerThatHasNone(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		lost := false
		serveFake(t, n, fakeAddr, func(p *peer) {
			if !p.open() {
				return
			}
			p.serve(func(h heard) bool {
				if h.Op != wire.OpAddWatch && h.Op != wire.OpSetWatches2 {
					return false
				}
				if lost {
					p.answer(h.Xid, zk.ErrUnimplemented, nil)
				}
				lost = true
				p.nc.Close()
				return true
			})
		})
		s := open(t, n, fakeAddr, client.Options{})
		_, err := s.AddWatch(short(t, time.Minute), "/n", true)
		wantErr(t, "Watch", err, zk.ErrUnimplemented)
		_, _, err = s.Get(short(t, time.Minute), "/n")
		must(t, err)
	})
}

// A server with WatchManagerOptimized cannot decode, it says, what asks for persistent watches or registers them again. A session that
// comes to one from another server goes on without them.
func TestPersistentWatchesAtAServerWithWatchManagerOptimized(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if !p.open() {
				return
			}
			p.serve(func(h heard) bool {
				persistent := h.Op == wire.OpAddWatch || h.Op == wire.OpSetWatches2
				if persistent && p.number > 1 {
					p.answer(h.Xid, zk.ErrMarshalling, nil)
				}
				return persistent && p.number > 1
			})
		})
		s := open(t, n, fakeAddr, client.Options{})
		w, err := s.AddWatch(t.Context(), "/n", true)
		must(t, err)
		n.Link("client", "").Cut()
		_, _, err = s.Get(short(t, time.Minute), "/n")
		must(t, err)
		for err == nil { // a gap comes first
			_, err = w.Next(short(t, time.Minute))
		}
		wantErr(t, "Next", err, zk.ErrUnimplemented)
		_, err = s.AddWatch(short(t, time.Minute), "/n", true)
		wantErr(t, "AddWatch", err, zk.ErrUnimplemented)
		if c := f.connections(); c != 3 {
			t.Errorf("%d connections, want 3", c)
		}
	})
}
