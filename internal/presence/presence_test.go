package presence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/presence"
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

func keeper(t *testing.T, srv *zktest.Server, label string) (*client.Keeper, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(srv.Link(label).Dial)
	t.Cleanup(p.Close)
	k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: p.Dial})
	must(t, err)
	t.Cleanup(func() { k.Close(context.Background()) })
	return k, p
}

var errTaken = errors.New("taken")

func options() presence.Options {
	return presence.Options{Op: "keep", Taken: func(path string, owner int64) error { return fmt.Errorf("%s: %w", path, errTaken) }}
}

// The znode's parent vanishes just before the znode is created: it is made again as the options say.
func TestTheParentVanishes(t *testing.T) {
	for _, container := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, proxy := keeper(t, srv, "a")
			other := srv.Session(t, "other")
			opt := options()
			opt.Container = container
			opt.ACL = zk.ReadOnlyACL()
			opt.ParentACL = []zk.ACL{{Perms: zk.PermRead | zk.PermCreate | zk.PermDelete, Scheme: "world", ID: "anyone"}}
			proxy.Before(faultproxy.Match{Ops: faultproxy.Creates(), Path: "/x/y/a", Times: 2}, func(faultproxy.Request) {
				if err := other.Delete(context.Background(), "/x/y", zk.AnyVersion); err != nil && !errors.Is(err, zk.ErrNoNode) {
					t.Error(err)
				}
			})
			p, err := presence.Keep(t.Context(), k, "/x/y/a", nil, opt)
			must(t, err)
			defer p.Close(context.Background())
			parent := srv.Tree("/x/y")[0]
			if isContainer := parent.Mode == zk.Container; isContainer != container || !slices.Equal(parent.ACL, opt.ParentACL) {
				t.Errorf("container %v: the parent is %v with %v", container, parent.Mode, parent.ACL)
			}
			if own := srv.Tree("/x/y/a")[0]; !slices.Equal(own.ACL, opt.ACL) {
				t.Errorf("the znode has %v", own.ACL)
			}
		})
	}
}

// Of two with the same path and the same Keeper, the second waits until the first is closed, and the first does not come back.
func TestTwoOfOneKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, proxy := keeper(t, srv, "a")
		first, err := presence.Keep(t.Context(), k, "/x/a", []byte("first"), options())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := presence.Keep(ctx, k, "/x/a", []byte("second"), options()); !errors.Is(err, errTaken) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second one: %v", err)
		}
		if got := srv.Tree("/x/a").String(); !strings.Contains(got, "first") {
			t.Errorf("after the second one has given up: %s", got)
		}
		kept := make(chan *presence.Presence)
		next := func(data string) {
			go func() {
				p, err := presence.Keep(context.Background(), k, "/x/a", []byte(data), options())
				if err != nil {
					t.Error(err)
				}
				kept <- p
			}()
			time.Sleep(time.Minute)
		}
		next("third")
		must(t, first.Close(t.Context()))
		third := <-kept
		must(t, first.Close(t.Context())) // it takes nothing of the third one's
		time.Sleep(time.Minute)
		if got := srv.Tree("/x/a").String(); !strings.Contains(got, "third") {
			t.Errorf("with the third one: %s", got)
		}
		// A Close without a connection ends in the background, and only then is it the next one's turn.
		proxy.Refuse(true)
		proxy.CutAll()
		if third.Close(t.Context()) == nil {
			t.Error("Close without a connection says that the znode is gone")
		}
		go func() {
			time.Sleep(time.Second)
			proxy.Refuse(false)
		}()
		next("fourth")
		fourth := <-kept
		time.Sleep(time.Minute)
		if got := srv.Tree("/x/a").String(); !strings.Contains(got, "fourth") {
			t.Errorf("with the fourth one: %s", got)
		}
		must(t, fourth.Close(t.Context()))
		if got := srv.Tree("/x/a").String(); got != "" {
			t.Errorf("in the end: %s", got)
		}
	})
}

// A Close that is refused goes on in the background for as long as it is refused, and ends with the session at the latest.
func TestACloseThatIsRefused(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, _ := keeper(t, srv, "a")
			other := srv.Session(t, "other")
			first, err := presence.Keep(t.Context(), k, "/x/a", []byte("first"), options())
			must(t, err)
			protect := func(perms zk.Perm) {
				t.Helper()
				_, err := other.SetACL(t.Context(), "/x", []zk.ACL{{Perms: perms, Scheme: "world", ID: "anyone"}}, zk.AnyVersion)
				must(t, err)
			}
			protect(zk.PermAll &^ zk.PermDelete)
			if err := first.Close(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("Close: %v", err)
			}
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = presence.Keep(ctx, k, "/x/a", []byte("second"), options())
			if !errors.Is(err, errTaken) || !strings.Contains(err.Error(), "of the same Keeper") {
				t.Errorf("while the first one is not removed: %v", err)
			}
			if allowed {
				protect(zk.PermAll)
				time.Sleep(2 * time.Second)
				if got := srv.Tree("/x/a").String(); got != "" {
					t.Errorf("when it may be removed: %s", got)
				}
			} else {
				srv.Link("a").Expire()
			}
			ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			third, err := presence.Keep(ctx, k, "/x/a", []byte("third"), options())
			must(t, err)
			time.Sleep(time.Minute)
			if got := srv.Tree("/x/a").String(); !strings.Contains(got, "third") {
				t.Errorf("with the third one: %s", got)
			}
			protect(zk.PermAll)
			must(t, third.Close(t.Context()))
		})
	}
}

// A Set that ends before the znode has the data says so.
func TestASetThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, proxy := keeper(t, srv, "a")
		p, err := presence.Keep(t.Context(), k, "/x/a", nil, options())
		must(t, err)
		defer p.Close(context.Background())
		proxy.SetFlow(faultproxy.ToClient, faultproxy.Stall)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = p.Set(ctx, []byte("x"))
		if err == nil || strings.Contains(err.Error(), "%!") || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Set: %v", err)
		}
		proxy.SetFlow(faultproxy.ToClient, faultproxy.Pass)
	})
}

// Data that the server refuses is the error of Set alone: the znode stays, and comes back with the data before.
func TestASetThatIsRefused(t *testing.T) {
	big := make([]byte, 2<<20)
	for _, c := range []struct {
		name    string
		expires bool // the session, before the Set
		data    []byte
		acl     []zk.ACL
	}{
		{name: "too large", data: big},
		{name: "too large, in a new session", data: big, expires: true},
		{name: "no right to write", data: []byte("x"), acl: zk.ReadOnlyACL()},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, _ := keeper(t, srv, "a")
				opt := options()
				opt.ACL = c.acl
				p, err := presence.Keep(t.Context(), k, "/x/a", []byte("good"), opt)
				must(t, err)
				same := func(when string) {
					t.Helper()
					if st, _ := p.State(); !st.Present {
						t.Errorf("%s: %v", when, st.Err)
					}
					if got := srv.Tree("/x/a").String(); !strings.Contains(got, "good") {
						t.Errorf("%s: %s", when, got)
					}
				}
				if c.expires {
					srv.Link("a").Expire()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var size *client.SizeError
				if err := p.Set(ctx, c.data); err == nil || errors.As(err, &size) == errors.Is(err, zk.ErrNoAuth) {
					t.Errorf("Set: %v", err)
				}
				time.Sleep(time.Minute)
				same("after the Set")
				srv.Link("a").Expire()
				time.Sleep(time.Minute)
				same("after an expiry")
				if c.acl == nil {
					must(t, p.Set(t.Context(), []byte("next")))
					must(t, p.Set(t.Context(), []byte("good again")))
					same("set again")
				}
				must(t, p.Close(t.Context()))
			})
		})
	}
}

// What can never be created is refused at once.
func TestWhatCannotBeCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keeper(t, srv, "a")
		var size *client.SizeError
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := presence.Keep(ctx, k, "/x/a", make([]byte, 2<<20), options()); !errors.As(err, &size) {
			t.Errorf("Keep: %v", err)
		}
	})
}

// A znode that may not be written is there all the same after the answer to its creation was lost: at first, and after an expiry.
func TestALostAnswerWithoutPermissionToWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, proxy := keeper(t, srv, "a")
		must(t, srv.Session(t, "s").EnsurePath(t.Context(), "/x", nil))
		opt := options()
		opt.ACL = zk.ReadOnlyACL()
		created := faultproxy.Match{Ops: faultproxy.Creates(), Path: "/x/n"}
		proxy.CutAfter(created)
		p, err := presence.Keep(t.Context(), k, "/x/n", []byte("data"), opt)
		must(t, err)
		defer p.Close(context.Background())
		proxy.CutAfter(created)
		srv.Link("a").Expire()
		time.Sleep(time.Minute)
		if st, _ := p.State(); !st.Present || p.Err() != nil {
			t.Errorf("after an expiry: %+v, %v", st, p.Err())
		}
		if err := p.Set(t.Context(), []byte("new")); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("Set: %v", err)
		}
		if got := srv.Tree("/x/n").String(); got != "/x/n = \"data\" (ephemeral of a)\n" {
			t.Errorf("the znode: %s", got)
		}
	})
}

// The last of those that take over has the znode, and keeps it: the one before waits until it is gone.
func TestTakeOver(t *testing.T) {
	for _, takesOver := range []bool{true, false} { // the one before
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			ka, _ := keeper(t, srv, "a")
			kb, _ := keeper(t, srv, "b")
			opt := options()
			opt.TakeOver = takesOver
			a, err := presence.Keep(t.Context(), ka, "/x/n", []byte("a"), opt)
			must(t, err)
			opt.TakeOver = true
			b, err := presence.Keep(t.Context(), kb, "/x/n", []byte("b"), opt)
			must(t, err)
			changes := func() int32 { return srv.Tree("/x")[0].Stat.Cversion }
			before := changes()
			time.Sleep(time.Hour)
			if st, _ := a.State(); st.Present || !errors.Is(st.Err, errTaken) {
				t.Errorf("%v: the one before: %+v", takesOver, st)
			}
			if got, n := srv.Tree("/x/n").String(), changes()-before; !strings.Contains(got, "of b") || n > 0 {
				t.Errorf("%v: after an hour and %d changes: %s", takesOver, n, got)
			}
			// When its session ends, the one that waited has it again, and keeps it too.
			before = changes()
			srv.Link("b").Freeze() // or b's next session could be the first to see that the znode is gone
			srv.Link("b").Expire()
			time.Sleep(time.Second)
			srv.Link("b").Heal()
			time.Sleep(time.Hour)
			if got, n := srv.Tree("/x/n").String(), changes()-before; !strings.Contains(got, "of a") || n > 2 {
				t.Errorf("%v: after an expiry and %d changes: %s", takesOver, n, got)
			}
			must(t, b.Close(t.Context()))
			must(t, a.Close(t.Context()))
		})
	}
}

// One that came later than the first look keeps the znode, also if that look found none, or one of the same Keeper.
func TestTakeOverLeavesLaterOnes(t *testing.T) {
	for _, ours := range []bool{false, true} { // the znode that the first look finds
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, proxy := keeper(t, srv, "a")
			later := srv.Session(t, "later")
			must(t, later.EnsurePath(t.Context(), "/x", nil))
			opt := options()
			opt.TakeOver = true
			if ours {
				before, err := presence.Keep(t.Context(), k, "/x/n", nil, options())
				must(t, err)
				go func() {
					time.Sleep(time.Second)
					_, err := later.Multi(context.Background(), client.OpDelete("/x/n", zk.AnyVersion), client.OpCreate("/x/n", nil, zk.Ephemeral, nil))
					if err != nil {
						t.Error(err)
					}
					before.Close(context.Background())
				}()
			} else {
				proxy.Before(faultproxy.Match{Ops: faultproxy.Creates(), Path: "/x/n", Times: 1}, func(faultproxy.Request) {
					_, err := later.Create(context.Background(), "/x/n", nil, zk.Ephemeral, nil)
					if err != nil {
						t.Error(err)
					}
				})
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := presence.Keep(ctx, k, "/x/n", []byte("new"), opt)
			if !errors.Is(err, errTaken) {
				t.Errorf("%v: Keep: %v", ours, err)
			}
			if got := srv.Tree("/x/n").String(); !strings.Contains(got, "of later") {
				t.Errorf("%v: the znode: %s", ours, got)
			}
		})
	}
}

// A write that is on its way while another process takes the znode over leaves what that has written.
func TestASetThatMeetsATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		ka, proxy := keeper(t, srv, "a")
		kb, _ := keeper(t, srv, "b")
		a, err := presence.Keep(t.Context(), ka, "/n", []byte("first"), options())
		must(t, err)
		must(t, a.Set(t.Context(), []byte("again")))
		var b *presence.Presence
		proxy.Before(faultproxy.Match{Ops: []wire.Op{wire.OpSetData}}, func(faultproxy.Request) {
			opt := options()
			opt.TakeOver = true
			b, err = presence.Keep(t.Context(), kb, "/n", []byte("theirs"), opt)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Set(ctx, []byte("late")); !errors.Is(err, errTaken) {
			t.Errorf("Set: %v", err)
		}
		must(t, err)
		if got := srv.Tree("/n").String(); !strings.Contains(got, `"theirs"`) {
			t.Errorf("the znode has %s", got)
		}
		must(t, errors.Join(a.Close(t.Context()), b.Close(t.Context())))
	})
}

// A Set whose data was never offered, because a later one came first and was refused, says that, and not why the other was refused.
func TestASetThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keeper(t, srv, "a")
		p, err := presence.Keep(t.Context(), k, "/n", nil, options())
		must(t, err)
		srv.Link("a").Freeze()
		var errs [2]chan error
		for i, data := range [][]byte{make([]byte, 1), make([]byte, 2<<20)} {
			errs[i] = make(chan error, 1)
			go func() { errs[i] <- p.Set(t.Context(), data) }()
			synctest.Wait()
		}
		srv.Link("a").Heal()
		var size *client.SizeError
		if err := <-errs[0]; err == nil || errors.As(err, &size) || !strings.Contains(err.Error(), "a later call") {
			t.Errorf("the Set that was replaced: %v", err)
		}
		if err := <-errs[1]; !errors.As(err, &size) {
			t.Errorf("the Set that was refused: %v", err)
		}
		must(t, p.Close(t.Context()))
	})
}

// While no server can be reached, the znode counts as present for as long as the ensemble keeps the session, and no longer.
func TestStateWhileCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, err := client.Keep(t.Context(), zktest.Servers, client.Options{Dial: srv.Link("a").Dial})
		must(t, err)
		defer k.Close(t.Context())
		p, err := presence.Keep(t.Context(), k, "/x", nil, options())
		must(t, err)
		defer p.Close(t.Context())
		for range 2 { // the session ends in the first outage
			time.Sleep(time.Minute)
			srv.Link("a").Freeze()
			for range 20 {
				time.Sleep(time.Second)
				there := len(srv.Tree("/x")) > 0
				if st, _ := p.State(); st.Present && !there || !st.Present && st.Err == nil {
					t.Errorf("the znode is there: %v; the state says %+v", there, st)
				}
			}
			srv.Link("a").Heal()
			time.Sleep(5 * time.Second)
			if st, _ := p.State(); !st.Present || len(srv.Tree("/x")) == 0 {
				t.Errorf("after the outage: %+v", st)
			}
		}
		srv.Link("a").Refuse()
		srv.Link("a").Cut()
		time.Sleep(5 * time.Second)
		if st, _ := p.State(); !st.Present {
			t.Errorf("in an outage that the session outlives: %+v", st)
		}
		srv.Link("a").Heal()
		time.Sleep(5 * time.Second)
		if st, _ := p.State(); !st.Present {
			t.Errorf("after it: %+v", st)
		}
	})
}

// That holds also while the Presence waits for an answer: here because the data was set just before or in the outage.
func TestStateWhileCutOffInTheMiddleOfALook(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, _ := keeper(t, srv, "a")
			p, err := presence.Keep(t.Context(), k, "/x", nil, options())
			must(t, err)
			time.Sleep(time.Minute)
			if frozen {
				srv.Link("a").Freeze()
			} else {
				srv.Link("a").Refuse()
				srv.Link("a").Cut()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := p.Set(ctx, []byte("new")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Set: %v", err)
			}
			time.Sleep(time.Minute)
			if st, _ := p.State(); st.Present || st.Err == nil {
				t.Errorf("frozen %v: after a minute: %+v", frozen, st)
			}
			srv.Link("a").Heal()
			time.Sleep(10 * time.Second)
			if st, _ := p.State(); !st.Present || !strings.Contains(srv.Tree("/x").String(), "/x") {
				t.Errorf("frozen %v: after the outage: %+v", frozen, st)
			}
			must(t, p.Close(t.Context()))
		})
	}
}

// What the caller does with its slice afterwards does not matter.
func TestDataIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keeper(t, srv, "a")
		buf := []byte("first")
		p, err := presence.Keep(t.Context(), k, "/x", buf, options())
		must(t, err)
		expire := func(want string) {
			copy(buf, "-----")
			srv.Link("a").Expire()
			time.Sleep(time.Minute)
			if data, _, err := srv.Session(t, "reader").Get(t.Context(), "/x"); string(data) != want {
				t.Errorf("after an expiry: %q, %v; want %q", data, err, want)
			}
		}
		expire("first")
		copy(buf, "other")
		must(t, p.Set(t.Context(), buf))
		expire("other")
		must(t, p.Close(t.Context()))
	})
}

// A znode that goes with no session is not taken over: it stays.
func TestTakeOverLeavesPersistentZnodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		k, _ := keeper(t, srv, "a")
		s := srv.Session(t, "s")
		_, err := s.Put(t.Context(), "/x/n", []byte("kept"), nil)
		must(t, err)
		opt := options()
		opt.TakeOver = true
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := presence.Keep(ctx, k, "/x/n", []byte("new"), opt); !errors.Is(err, errTaken) {
			t.Errorf("Keep: %v", err)
		}
		if got := srv.Tree("/x/n").String(); got != "/x/n = \"kept\"\n" {
			t.Errorf("the znode: %s", got)
		}
	})
}

// A take-over whose answer is lost, and one that comes too late, are looked after.
func TestTakeOverThatFails(t *testing.T) {
	take := faultproxy.Match{Ops: []wire.Op{wire.OpMulti}}
	for _, c := range []struct {
		name string
		plan func(srv *zktest.Server, proxy *faultproxy.Proxy, other *client.Session)
	}{
		{"not carried out", func(_ *zktest.Server, proxy *faultproxy.Proxy, _ *client.Session) { proxy.CutBefore(take) }},
		{"carried out", func(_ *zktest.Server, proxy *faultproxy.Proxy, _ *client.Session) { proxy.CutAfter(take) }},
		{"written meanwhile", func(_ *zktest.Server, proxy *faultproxy.Proxy, other *client.Session) {
			proxy.Before(take, func(faultproxy.Request) { other.Set(context.Background(), "/x/n", nil, zk.AnyVersion) })
		}},
		{"gone meanwhile", func(_ *zktest.Server, proxy *faultproxy.Proxy, other *client.Session) {
			proxy.Before(take, func(faultproxy.Request) { other.Delete(context.Background(), "/x/n", zk.AnyVersion) })
		}},
		{"expired", func(srv *zktest.Server, proxy *faultproxy.Proxy, _ *client.Session) {
			proxy.Before(take, func(faultproxy.Request) { srv.Link("a").Expire() })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				k, proxy := keeper(t, srv, "a")
				other := srv.Session(t, "other")
				must(t, other.EnsurePath(t.Context(), "/x", nil))
				_, err := other.Create(t.Context(), "/x/n", nil, zk.Ephemeral, nil)
				must(t, err)
				c.plan(srv, proxy, other)
				opt := options()
				opt.TakeOver = true
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				p, err := presence.Keep(ctx, k, "/x/n", []byte("new"), opt)
				must(t, err)
				if got := srv.Tree("/x/n").String(); !strings.Contains(got, `"new" (ephemeral of a)`) {
					t.Errorf("taken over: %s", got)
				}
				must(t, p.Close(t.Context()))
			})
		})
	}
}

// The session has ended on this side alone, and its znode is still there: Close removes it, also the second one, after the first
// has found no server.
func TestCloseAfterTheSessionHasEndedOnThisSideAlone(t *testing.T) {
	for _, cut := range []bool{false, true} { // at the first Close
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			k, proxy := keeper(t, srv, "a")
			p, err := presence.Keep(t.Context(), k, "/x/a", nil, options())
			must(t, err)
			s, err := k.Session(t.Context())
			must(t, err)
			proxy.Refuse(true)
			proxy.CutAll()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := s.Close(ctx); err == nil {
				t.Error("a session was closed without a server")
			}
			if cut {
				if err := p.Close(ctx); err == nil {
					t.Error("Close without a server says that the znode is gone")
				}
			}
			proxy.Refuse(false)
			_, err = k.Session(t.Context())
			must(t, err)
			must(t, p.Close(t.Context()))
			if got := srv.Tree("/x/a").String(); got != "" {
				t.Errorf("cut %v: after Close: %s", cut, got)
			}
		})
	}
}
