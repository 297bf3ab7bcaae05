package group_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/cache"
	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// keep opens a keeper through a link of its own and a proxy.
func keep(t *testing.T, srv *zktest.Server, label string) (*client.Keeper, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(srv.Link(label).Dial)
	t.Cleanup(p.Close)
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k, p
}

func join(t *testing.T, k *client.Keeper, id, data string) *group.Member {
	t.Helper()
	m, err := group.Join(t.Context(), k, "/g", id, []byte(data), group.JoinOptions{})
	must(t, err)
	return m
}

func ids(members []group.Info) string {
	var s []string
	for _, m := range members {
		s = append(s, m.ID+"="+string(m.Data))
	}
	return strings.Join(s, " ")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestMembersComeChangeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, _ := keep(t, srv, "a")
		kb, _ := keep(t, srv, "b")
		g, err := group.Open(t.Context(), kb, "/g", group.Options{})
		must(t, err)
		defer g.Close(context.Background())
		want(t, "empty", ids(g.Members()), "")
		a := join(t, ka, "a", "1")
		b := join(t, kb, "b", "2")
		members, err := g.WaitFor(t.Context(), func(m []group.Info) bool { return len(m) == 2 })
		must(t, err)
		want(t, "two", ids(members), "a=1 b=2")
		must(t, a.Set(t.Context(), []byte("3")))
		synctest.Wait()
		want(t, "changed", ids(g.Members()), "a=3 b=2")
		if string(srv.Tree("/g/a")[0].Data) != "3" || srv.Tree("/g/a")[0].Owner != "a" {
			t.Errorf("tree:\n%s", srv.Tree("/g"))
		}
		must(t, a.Close(t.Context()))
		want(t, "left", srv.Tree("/g/a").String(), "")
		<-a.Done()
		if !errors.Is(a.Err(), zk.ErrClosed) {
			t.Errorf("Err: %v", a.Err())
		}
		must(t, a.Close(t.Context()))
		time.Sleep(time.Hour)
		want(t, "after an hour", ids(g.Members()), "b=2")
		must(t, b.Close(t.Context()))
	})
}

// The znode comes back after an expiry and after a deletion, with the newest data, and there is never a second one.
func TestAMemberComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		other := srv.Session(t, "other")
		m := join(t, k, "a", "1")
		defer m.Close(context.Background())
		for i, end := range []func(){
			func() { srv.Link("a").Expire() },
			func() { must(t, other.Delete(t.Context(), "/g/a", zk.AnyVersion)) },
			func() { must(t, other.DeleteAll(t.Context(), "/g")) },
			func() { p.CutAll() },
			srv.Restart,
		} {
			data := fmt.Sprint("data", i)
			must(t, m.Set(t.Context(), []byte(data)))
			before := srv.Tree("/g/a")[0].Stat
			end()
			time.Sleep(time.Minute)
			tree := srv.Tree("/g")
			if len(tree) != 2 || string(tree[1].Data) != data {
				t.Errorf("end %d: the tree is\n%s", i, tree)
			}
			if i < 3 && len(tree) == 2 && tree[1].Stat.Czxid == before.Czxid {
				t.Errorf("end %d: it is the same znode", i)
			}
			if st, _ := m.State(); !st.Present || st.Err != nil {
				t.Errorf("end %d: state %+v", i, st)
			}
		}
	})
}

// A rejoin after an expiry takes two round trips: it looks, and it creates.
func TestRejoinTakesTwoRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		m := join(t, k, "a", "1")
		defer m.Close(context.Background())
		mark := p.Mark()
		srv.Link("a").Expire()
		time.Sleep(time.Minute)
		ops := p.Since(mark).Asked().But(wire.OpPing).Ops()
		ops = ops[strings.LastIndex(ops, "createSession"):]
		if want := "createSession, exists, create, exists"; ops != want { // the last one sets the watch
			t.Errorf("requests of the rejoin: %s, want %s", ops, want)
		}
	})
}

// Every request of a join, a change and a leave is lost in turn, before or after the server has carried it out.
func TestLostAnswers(t *testing.T) {
	for i := range 24 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpSetData, wire.OpDelete, wire.OpExists, wire.OpSync, wire.OpGetData}, Skip: i / 2}
				if i%2 == 0 {
					p.CutBefore(m)
				} else {
					p.CutAfter(m)
				}
				member := join(t, k, "a", "1")
				want(t, "joined", srv.Tree("/g").String(), "/g\n/g/a = \"1\" (ephemeral of a)\n")
				must(t, member.Set(t.Context(), []byte("2")))
				want(t, "changed", srv.Tree("/g").String(), "/g\n/g/a = \"2\" (ephemeral of a)\n")
				must(t, member.Close(t.Context()))
				time.Sleep(time.Minute)
				want(t, "left", srv.Tree("/g").String(), "/g\n")
			})
		})
	}
}

// The session expires at every request in turn: in the end there is one znode, or none after Close.
func TestExpiryAtEveryPhase(t *testing.T) {
	for i := range 16 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, p := keep(t, srv, "a")
				m := faultproxy.Match{Ops: []wire.Op{wire.OpCreate2, wire.OpSetData, wire.OpDelete, wire.OpExists, wire.OpSync}, Skip: i / 2}
				expire := func() {
					if s, err := k.Session(context.Background()); err == nil {
						srv.Expire(s.ID())
					}
				}
				if i%2 == 0 {
					p.Before(m, func(faultproxy.Request) { expire() })
				} else {
					p.After(m, func(faultproxy.Request, faultproxy.Reply) { expire() })
				}
				member := join(t, k, "a", "1")
				must(t, member.Set(t.Context(), []byte("2")))
				time.Sleep(time.Minute)
				want(t, "joined", srv.Tree("/g").String(), "/g\n/g/a = \"2\" (ephemeral of a)\n")
				must(t, member.Close(t.Context()))
				time.Sleep(time.Minute)
				want(t, "left", srv.Tree("/g").String(), "/g\n")
			})
		})
	}
}

func TestAnIDInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, _ := keep(t, srv, "a")
		kb, _ := keep(t, srv, "b")
		a := join(t, ka, "x", "first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := group.Join(ctx, kb, "/g", "x", nil, group.JoinOptions{})
		var taken *group.TakenError
		if !errors.As(err, &taken) || !errors.Is(err, group.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) || taken.Owner != srv.Tree("/g/x")[0].Stat.EphemeralOwner {
			t.Errorf("Join with an id in use: %v", err)
		}
		want(t, "untouched", srv.Tree("/g").String(), "/g\n/g/x = \"first\" (ephemeral of a)\n")
		// It waits until the other one is gone.
		joined := make(chan *group.Member)
		go func() { joined <- join(t, kb, "x", "second") }()
		time.Sleep(time.Minute)
		must(t, a.Close(t.Context()))
		b := <-joined
		want(t, "second", srv.Tree("/g").String(), "/g\n/g/x = \"second\" (ephemeral of b)\n")
		// Or it takes over.
		c, err := group.Join(t.Context(), ka, "/g", "x", []byte("third"), group.JoinOptions{TakeOver: true})
		must(t, err)
		want(t, "third", srv.Tree("/g").String(), "/g\n/g/x = \"third\" (ephemeral of a)\n")
		synctest.Wait()
		if st, _ := b.State(); st.Present || !errors.As(st.Err, &taken) {
			t.Errorf("the second one's state: %+v", st)
		}
		must(t, b.Close(t.Context()))
		want(t, "third", srv.Tree("/g").String(), "/g\n/g/x = \"third\" (ephemeral of a)\n")
		must(t, c.Close(t.Context()))
	})
}

// A leave without a connection says so, and the znode goes when there is one again, although the session lives on.
func TestALeaveWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, p := keep(t, srv, "a")
		m := join(t, k, "a", "1")
		p.Refuse(true)
		p.CutAll()
		began := time.Now()
		if err := m.Close(t.Context()); err == nil || time.Since(began) > 6*time.Second {
			t.Errorf("Close after %v: %v", time.Since(began), err)
		}
		want(t, "still there", srv.Tree("/g/a").String(), "/g/a = \"1\" (ephemeral of a)\n")
		s, err := k.Session(t.Context())
		must(t, err)
		p.Refuse(false)
		time.Sleep(3 * time.Second)
		want(t, "gone", srv.Tree("/g/a").String(), "")
		if s.Err() != nil {
			t.Error("the session has not lived on: this test proves nothing")
		}
	})
}

// A member that is closed while a request has no answer has ended with zk.ErrClosed.
func TestTheErrOfAMemberThatIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		m := join(t, k, "a", "1")
		srv.Link("a").Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := m.Set(ctx, []byte("2")); !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "set /") {
			t.Errorf("Set: %v", err)
		}
		m.Close(t.Context())
		if err := m.Err(); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("Err: %v", err)
		}
		if st, _ := m.State(); st.Present || !errors.Is(st.Err, zk.ErrClosed) {
			t.Errorf("State: %+v", st)
		}
		srv.Link("a").Heal()
	})
}

func TestWhatIsNoID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		for _, id := range []string{"", "a/b", ".", "..", "a\x00"} {
			if _, err := group.Join(t.Context(), k, "/g", id, nil, group.JoinOptions{}); !errors.Is(err, zk.ErrBadArguments) || !strings.HasPrefix(err.Error(), "join ") || !strings.Contains(err.Error(), "/g/") {
				t.Errorf("id %q: %v", id, err)
			}
		}
		if _, err := group.Join(t.Context(), k, "/g", "a", nil, group.JoinOptions{CloseTimeout: -1}); err == nil || !strings.Contains(err.Error(), "CloseTimeout: -1ns is negative") {
			t.Errorf("CloseTimeout below 0: %v", err)
		}
		s := srv.Session(t, "s")
		_, err := s.Create(t.Context(), "/shut", nil, zk.Persistent, zk.ReadOnlyACL())
		must(t, err)
		if _, err := group.Join(t.Context(), k, "/shut", "a", nil, group.JoinOptions{}); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("where nothing may be created: %v", err)
		}
		_, err = s.Put(t.Context(), "/g/p", []byte("x"), nil)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := group.Join(ctx, k, "/g", "p", nil, group.JoinOptions{}); err == nil || !strings.Contains(err.Error(), "not ephemeral") {
			t.Errorf("a persistent znode: %v", err)
		}
	})
}

// Members that kazoo has written.
func TestKazoosParties(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		s := srv.Session(t, "s")
		for path, data := range map[string]string{
			"/g/0123456789abcdef0123456789abcdef__party__":  "party",
			"/g/1123456789abcdef0123456789abcdef-host-1-77": "",
			"/g/plain":                            "x",
			"/g/2123456789abcdef0123456789abcde":  "short",
			"/g/3123456789abcdef0123456789abcdef": "bare",
		} {
			_, err := s.Put(t.Context(), path, []byte(data), nil)
			must(t, err)
		}
		g, err := group.Open(t.Context(), k, "/g", group.Options{})
		must(t, err)
		defer g.Close(context.Background())
		want(t, "members", ids(g.Members()), "2123456789abcdef0123456789abcde=short 3123456789abcdef0123456789abcdef=bare host-1-77= party=party plain=x")
	})
}

func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keep(t, srv, "a")
		g, err := group.Open(t.Context(), k, "/g", group.Options{})
		must(t, err)
		defer g.Close(context.Background())
		a := join(t, k, "a", "1")
		go func() {
			time.Sleep(time.Second)
			a.Set(context.Background(), []byte("2"))
			time.Sleep(time.Second)
			a.Close(context.Background())
		}()
		var got []string
		for ch, err := range g.Changes(t.Context()) {
			must(t, err)
			got = append(got, fmt.Sprintf("%v %s %s%s", ch.Kind, ch.Member.ID, ch.Old.Data, ch.Member.Data))
			if ch.Kind == cache.Deleted {
				break
			}
		}
		want(t, "changes", strings.Join(got, ", "), "created a 1, changed a 12, deleted a 2")
	})
}

// A thousand members that join at once: some events for each, and not one for each pair.
func TestAThousandMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members = 1000
		srv := zktest.New(t, zktest.Options{})
		var keepers []*client.Keeper
		for i := range 10 {
			k, _ := keep(t, srv, fmt.Sprint("k", i))
			keepers = append(keepers, k)
		}
		errs := make(chan error)
		for i := range members {
			go func() {
				_, err := group.Join(t.Context(), keepers[i%10], "/g", fmt.Sprint("m", i), nil, group.JoinOptions{})
				errs <- err
			}()
		}
		for range members {
			must(t, <-errs)
		}
		synctest.Wait()
		var events uint64
		for _, k := range keepers {
			s, err := k.Session(t.Context())
			must(t, err)
			events += s.Stats().Events
		}
		if n := len(srv.Tree("/g")) - 1; n != members || events > 2*members {
			t.Errorf("%d members after %d events, want at most two for each", n, events)
		}
	})
}

// Errors name what was done and the path, also when the Keeper is closed.
func TestOpenOfAClosedKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := keep(t, zktest.New(t, zktest.Options{}), "a")
		g, err := group.Open(t.Context(), k, "/g", group.Options{})
		must(t, err)
		must(t, k.Close(t.Context()))
		<-g.Done()
		if err := g.Err(); !errors.Is(err, zk.ErrClosed) || !strings.HasPrefix(err.Error(), "group /g: ") {
			t.Errorf("Err: %v", err)
		}
		if _, err := group.Open(t.Context(), k, "/g", group.Options{}); !errors.Is(err, zk.ErrClosed) || !strings.HasPrefix(err.Error(), "group /g: ") {
			t.Errorf("Open: %v", err)
		}
		if _, err := g.WaitFor(t.Context(), func([]group.Info) bool { return false }); fmt.Sprint(err) != g.Err().Error() {
			t.Errorf("WaitFor: %v", err)
		}
		for _, err := range g.Changes(t.Context()) {
			if fmt.Sprint(err) != g.Err().Error() {
				t.Errorf("Changes: %v", err)
			}
		}
	})
}

// The id of a session is printed as servers print it, whatever their own ids.
func TestTheSessionOfATakenID(t *testing.T) {
	err := &group.TakenError{Path: "/g/a", Owner: -0x7f00000000000001}
	want(t, "error", err.Error(), "/g/a belongs to session 0x80ffffffffffffff (it goes with that session)")
}

// However often a member's Close runs out of time, it says so.
func TestCloseRunsOutOfTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := zktest.New(t, zktest.Options{}).Link("k")
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: link.Dial, SessionTimeout: 40 * time.Second})
		must(t, err)
		defer k.Close(context.Background())
		m, err := group.Join(t.Context(), k, "/g", "a", nil, group.JoinOptions{})
		must(t, err)
		link.Freeze()
		for range 5 {
			if err := m.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Close: %v, which is not context.DeadlineExceeded", err)
			}
		}
		link.Heal()
	})
}
