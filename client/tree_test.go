package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// proxied opens a session through a proxy that breaks what the test says.
func proxied(t *testing.T, srv *zktest.Server, chroot string) (*client.Session, *faultproxy.Proxy) {
	t.Helper()
	p := faultproxy.New(srv.Link("proxied").Dial)
	t.Cleanup(p.Close)
	s, err := client.Open(t.Context(), zktest.Servers+chroot, client.Options{Dial: p.Dial})
	must(t, err)
	t.Cleanup(func() { s.Close(context.Background()) })
	return s, p
}

// writes are the requests that change the tree.
func writes() []wire.Op { return append(faultproxy.Creates(), wire.OpSetData, wire.OpDelete) }

// eachFault runs f without faults, and with each of the first writes lost before and after it reached the server.
func eachFault(t *testing.T, first int, chroot string, f func(t *testing.T, srv *zktest.Server, s *client.Session, lost bool)) {
	for i := -1; i < 2*first; i++ {
		name := "no fault"
		if i >= 0 {
			name = fmt.Sprintf("write %d lost %s", i/2, []string{"before", "after"}[i%2])
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				if chroot != "" {
					_, err := srv.Session(t, "setup").Create(t.Context(), chroot, nil, zk.Persistent, nil)
					must(t, err)
				}
				s, p := proxied(t, srv, chroot)
				m := faultproxy.Match{Ops: writes(), Skip: max(i, 0) / 2}
				switch {
				case i < 0:
				case i%2 == 0:
					p.CutBefore(m)
				default:
					p.CutAfter(m)
				}
				f(t, srv, s, i >= 0)
			})
		})
	}
}

func TestEnsurePath(t *testing.T) {
	eachFault(t, 6, "/root", func(t *testing.T, srv *zktest.Server, s *client.Session, _ bool) {
		must(t, s.EnsurePath(t.Context(), "/a/b/c", nil))
		must(t, s.EnsurePath(t.Context(), "/a/b/c", nil))
		if got := srv.Tree("/root").String(); got != "/root\n/root/a\n/root/a/b\n/root/a/b/c\n" {
			t.Errorf("the tree is\n%s", got)
		}
	})
}

func TestEnsurePathBelowAMissingChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, _ := proxied(t, srv, "/none")
		wantErr(t, "EnsurePath", s.EnsurePath(t.Context(), "/a/b", nil), zk.ErrNoNode)
		wantErr(t, "EnsurePath of the root", s.EnsurePath(t.Context(), "/", nil), zk.ErrNoNode)
		_, err := s.Put(t.Context(), "/a/b", nil, nil)
		wantErr(t, "Put", err, zk.ErrNoNode)
		_, err = s.CreateOnce(t.Context(), "/a/b", nil, zk.Ephemeral, nil)
		wantErr(t, "CreateOnce", err, zk.ErrNoNode)
	})
}

// A znode that others own is there, whether we may create below its parent or not.
func TestEnsurePathWhereNothingMayBeCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, _ := proxied(t, srv, "")
		must(t, s.EnsurePath(t.Context(), "/closed/in", nil))
		_, err := s.SetACL(t.Context(), "/closed", zk.ReadOnlyACL(), zk.AnyVersion)
		must(t, err)
		must(t, s.EnsurePath(t.Context(), "/closed/in", nil))
		wantErr(t, "EnsurePath", s.EnsurePath(t.Context(), "/closed/out", nil), zk.ErrNoAuth)
	})
}

func TestPut(t *testing.T) {
	eachFault(t, 5, "/root", func(t *testing.T, srv *zktest.Server, s *client.Session, _ bool) {
		for _, v := range []string{"one", "two"} {
			_, err := s.Put(t.Context(), "/a/b", []byte(v), nil)
			must(t, err)
			if got, _, err := s.Get(t.Context(), "/a/b"); err != nil || string(got) != v {
				t.Errorf("after Put of %q: %q, %v", v, got, err)
			}
		}
	})
}

// plant creates n children, in directories of 100.
func plant(t testing.TB, s *client.Session, dir string, n int) {
	t.Helper()
	must(t, s.EnsurePath(t.Context(), dir, nil))
	for i := range n {
		if i%100 == 0 {
			must(t, s.EnsurePath(t.Context(), dir+"/"+strconv.Itoa(i/100), nil))
		}
		_, err := s.Create(t.Context(), fmt.Sprintf("%s/%d/%d", dir, i/100, i), nil, zk.Persistent, nil)
		must(t, err)
	}
}

func TestWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, p := proxied(t, srv, "")
		plant(t, s, "/w", 600)
		for _, fault := range []bool{false, true} {
			if fault {
				p.CutAfter(faultproxy.Match{Ops: faultproxy.Lists(), Skip: 300})
			}
			var seen []string
			must(t, s.Walk(t.Context(), "/w", func(path string, stat zk.Stat) error {
				if path != "/w" && !slices.Contains(seen, zk.Parent(path)) {
					t.Errorf("%s comes before its parent", path)
				}
				if path == "/w/0" && stat.NumChildren != 100 {
					t.Errorf("stat of %s: %+v", path, stat)
				}
				seen = append(seen, path)
				return nil
			}))
			slices.Sort(seen)
			if len(seen) != 607 || len(slices.Compact(seen)) != 607 {
				t.Errorf("fault %v: %d znodes, want 607 different ones", fault, len(seen))
			}
		}
		stop := errors.New("stop")
		err := s.Walk(t.Context(), "/w", func(string, zk.Stat) error { return stop })
		wantErr(t, "Walk that is stopped", err, stop)
		err = s.Walk(t.Context(), "/none", func(string, zk.Stat) error { return nil })
		wantErr(t, "Walk of nothing", err, zk.ErrNoNode)
		// What is deleted meanwhile is left out.
		n := 0
		must(t, s.Walk(t.Context(), "/w", func(path string, _ zk.Stat) error {
			n++
			if path == "/w" {
				return s.DeleteAll(t.Context(), "/w/3")
			}
			return nil
		}))
		if n != 607-101 {
			t.Errorf("%d znodes seen, want %d", n, 607-101)
		}
	})
}

func TestDeleteAll(t *testing.T) {
	eachFault(t, 4, "/root", func(t *testing.T, srv *zktest.Server, _ *client.Session, _ bool) {
		plant(t, srv.Session(t, "gardener"), "/root/w", 600)
		s, p := proxied(t, srv, "/root")
		p.CutAfter(faultproxy.Match{Ops: []wire.Op{wire.OpDelete}, Skip: 70})
		must(t, s.DeleteAll(t.Context(), "/w"))
		if got := srv.Tree("/root").String(); got != "/root\n" {
			t.Errorf("left:\n%s", got)
		}
		must(t, s.DeleteAll(t.Context(), "/w"))
		wantErr(t, "DeleteAll of the root", s.DeleteAll(t.Context(), "/"), zk.ErrBadArguments)
	})
}

// A DeleteAll that has given up while there was no server deletes nothing once there is one.
func TestDeleteAllThatGaveUpDeletesNothingLater(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		queued := make(chan struct{}) // closed when a read waits for room, ahead of the deletes
		f := serveFake(t, n, fakeAddr, func(p *peer) {
			if !p.open() {
				return
			}
			p.serve(func(h heard) bool {
				switch path := wire.NewDecoder(h.Body).String(); {
				case h.Op == wire.OpGetChildren2 && path == "/w":
					p.answer(h.Xid, zk.OK, &wire.ChildrenResponse{Children: []string{"a", "b", "c"}})
					return true
				case h.Op == wire.OpGetChildren2 && path == "/w/a":
					<-queued
				}
				return h.Op == wire.OpGetData && p.number == 1 // is not answered
			})
		})
		s := open(t, n, fakeAddr, client.Options{InFlightMax: 1})
		deleted, read := make(chan error, 1), make(chan error, 1)
		go func() { deleted <- s.DeleteAll(short(t, 5*time.Second), "/w") }()
		synctest.Wait()
		go func() {
			_, _, err := s.Get(short(t, 10*time.Second), "/n")
			read <- err
		}()
		synctest.Wait()
		close(queued)
		synctest.Wait()
		n.Link("", "").Refuse()
		n.Link("", "").Cut()
		wantErr(t, "DeleteAll", <-deleted, context.DeadlineExceeded)
		n.Link("", "").Heal()
		must(t, <-read)
		must(t, s.Sync(t.Context(), "/"))
		if late := f.asked(wire.OpDelete); len(late) > 0 {
			t.Errorf("%d deletes were sent after DeleteAll had given up", len(late))
		}
	})
}

// A subtree that grows while it is deleted is deleted in the end, unless it never stops growing.
func TestDeleteAllAndThoseWhoGoOnCreating(t *testing.T) {
	for _, c := range []struct {
		name  string
		times int
		want  error
	}{{"three times", 3, nil}, {"always", faultproxy.Always, zk.ErrNotEmpty}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				s, p := proxied(t, srv, "")
				other := srv.Session(t, "other")
				must(t, s.EnsurePath(t.Context(), "/w/x", nil))
				n := 0
				p.Before(faultproxy.Match{Ops: []wire.Op{wire.OpDelete}, Path: "/w", Times: c.times}, func(faultproxy.Request) {
					n++
					_, err := other.Create(t.Context(), "/w/"+strconv.Itoa(n), nil, zk.Persistent, nil)
					must(t, err)
				})
				err := s.DeleteAll(t.Context(), "/w")
				if c.want == nil && err != nil || !errors.Is(err, c.want) {
					t.Errorf("DeleteAll: %v, want %v", err, c.want)
				}
			})
		})
	}
}

// What became of a write whose answer was lost is looked up behind a transaction: the leader answers a sync without what it has
// proposed and not committed (TestSyncOnTheLeaderIsNotBehindWhatItHasProposed, against Apache ZooKeeper).
func TestALostAnswerIsLookedUpBehindATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p := proxied(t, zktest.New(t, zktest.Options{}), "")
		_, err := s.Put(t.Context(), "/n", []byte("5"), nil)
		must(t, err)
		mark := p.Mark()
		for _, op := range []wire.Op{wire.OpSetData, wire.OpCreate2} {
			p.CutBefore(faultproxy.Match{Ops: []wire.Op{op}, Times: 1})
		}
		_, err = s.Update(t.Context(), "/n", func([]byte) ([]byte, error) { return []byte("6"), nil })
		must(t, err)
		_, err = s.CreateOnce(t.Context(), "/e", []byte("x"), zk.Ephemeral, nil)
		must(t, err)
		const want = "get, set, multi, get, get, set, create, multi, get, create"
		if ops := p.Since(mark).Asked().But(wire.OpPing, wire.OpCreateSession, wire.OpSetWatches, wire.OpSetWatches2).Ops(); ops != want {
			t.Errorf("asked %s, want %s", ops, want)
		}
	})
}

func TestUpdateIsNeverDoubled(t *testing.T) {
	for _, meddle := range []string{"", "other value", "same value", "deleted", "created again"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q, lost after %v", meddle, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := zktest.New(t, zktest.Options{})
					s, p := proxied(t, srv, "")
					other := srv.Session(t, "other")
					_, err := s.Put(t.Context(), "/n", []byte("5"), nil)
					must(t, err)
					m := faultproxy.Match{Ops: []wire.Op{wire.OpSetData}}
					between := func(faultproxy.Request) {
						switch meddle {
						case "other value":
							_, err := other.Set(t.Context(), "/n", []byte("7"), zk.AnyVersion)
							must(t, err)
						case "same value":
							_, err := other.Set(t.Context(), "/n", []byte("6"), zk.AnyVersion)
							must(t, err)
						case "deleted", "created again":
							must(t, other.Delete(t.Context(), "/n", zk.AnyVersion))
							if meddle == "created again" {
								_, err := other.Create(t.Context(), "/n", []byte("6"), zk.Persistent, nil)
								must(t, err)
							}
						}
					}
					if after {
						p.CutAfter(m)
						p.After(m, func(r faultproxy.Request, _ faultproxy.Reply) { between(r) })
					} else {
						p.Before(m, between)
						p.CutBefore(m)
					}
					node, err := s.Update(t.Context(), "/n", func(old []byte) ([]byte, error) {
						n, err := strconv.Atoi(string(old))
						return strconv.AppendInt(nil, int64(n+1), 10), err
					})
					now, _, _ := s.Get(t.Context(), "/n")
					applied := err == nil
					switch {
					case err != nil && !client.MaybeApplied(err):
						t.Errorf("the error says that nothing happened: %v", err)
					case meddle == "" && !after && string(now) != "6", applied && meddle == "other value" && string(now) != "8":
						t.Errorf("err %v, and the value is %s", err, now)
					case meddle == "" && !after && !applied, meddle == "other value" && !after && !applied:
						t.Errorf("nothing was in doubt: %v", err)
					case after && applied:
						t.Errorf("%+v was taken for ours without proof", node)
					case string(now) == "8" && meddle != "other value":
						t.Error("doubled")
					}
				})
			})
		}
	}
}

func TestUpdateGoesOnUntilNothingComesBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, _ := proxied(t, srv, "")
		_, err := s.Put(t.Context(), "/n", nil, nil)
		must(t, err)
		calls := 0
		node, err := s.Update(t.Context(), "/n", func(old []byte) ([]byte, error) {
			calls++
			if calls < 4 {
				_, err := s.Set(t.Context(), "/n", append(old, 'x'), zk.AnyVersion)
				must(t, err)
			}
			return append(old, 'y'), nil
		})
		if err != nil || string(node.Data) != "xxxy" || node.Stat.Version != 4 {
			t.Errorf("%q version %d, %v", node.Data, node.Stat.Version, err)
		}
		no := errors.New("no")
		_, err = s.Update(t.Context(), "/n", func([]byte) ([]byte, error) { return nil, no })
		wantErr(t, "Update whose function fails", err, no)
		_, err = s.Update(t.Context(), "/none", func([]byte) ([]byte, error) { return nil, nil })
		wantErr(t, "Update of nothing", err, zk.ErrNoNode)
	})
}

func TestCreateOnceCreatesOneZnode(t *testing.T) {
	for _, mode := range []zk.Mode{zk.Persistent, zk.Ephemeral, zk.Container, zk.PersistentSequential, zk.EphemeralSequential} {
		t.Run(mode.String(), func(t *testing.T) {
			eachFault(t, 6, "/root", func(t *testing.T, srv *zktest.Server, s *client.Session, lost bool) {
				other := srv.Session(t, "other")
				must(t, other.EnsurePath(t.Context(), "/root/d", nil))
				if mode.Sequential() { // a stranger's
					_, err := other.Create(t.Context(), "/root/d/n-", []byte("ours"), mode, nil)
					must(t, err)
				}
				made, err := s.CreateOnce(t.Context(), "/d/n-", []byte("ours"), mode, nil)
				must(t, err)
				data, stat, err := s.Get(t.Context(), made.Path)
				if err != nil || string(data) != "ours" || mode.Ephemeral() != (stat.EphemeralOwner == s.ID()) {
					t.Errorf("%s: %q %+v, %v", made.Path, data, stat, err)
				}
				want := 1
				if mode.Sequential() {
					want = 2
				}
				if names, _, err := s.Children(t.Context(), "/d"); err != nil || len(names) != want {
					t.Errorf("children %v, %v, want %d", names, err, want)
				}
				_, err = s.CreateOnce(t.Context(), "/d/n-", []byte("ours"), mode, nil)
				if !mode.Sequential() {
					wantErr(t, "a second one", err, zk.ErrNodeExists)
				}
			})
		})
	}
}

// A sequential znode may be named by its counter alone. A lost answer is resolved there too.
func TestCreateOnceWithNothingButANumber(t *testing.T) {
	for _, mode := range []zk.Mode{zk.PersistentSequential, zk.EphemeralSequential} {
		eachFault(t, 6, "/root", func(t *testing.T, srv *zktest.Server, s *client.Session, lost bool) {
			must(t, srv.Session(t, "other").EnsurePath(t.Context(), "/root/d", nil))
			for _, dir := range []string{"/d", "/"} {
				made, err := s.CreateOnce(t.Context(), strings.TrimSuffix(dir, "/")+"/", []byte("ours"), mode, nil)
				if err != nil || zk.Parent(made.Path) != dir {
					t.Errorf("in %s: %q, %v", dir, made.Path, err)
				}
			}
			if names, _, err := s.Children(t.Context(), "/d"); err != nil || len(names) != 1 {
				t.Errorf("children %v, %v, want one", names, err)
			}
		})
	}
}

// What another client created while the answer was lost is not ours.
func TestCreateOnceDoesNotTakeAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, p := proxied(t, srv, "")
		other := srv.Session(t, "other")
		for i, mode := range []zk.Mode{zk.Persistent, zk.Ephemeral} {
			path := "/n" + strconv.Itoa(i)
			m := faultproxy.Match{Ops: faultproxy.Creates(), Path: path}
			p.Before(m, func(faultproxy.Request) {
				data := "theirs"
				if mode == zk.Ephemeral {
					data = "ours" // the owner tells them apart
				}
				_, err := other.Create(t.Context(), path, []byte(data), mode, nil)
				must(t, err)
			})
			p.CutBefore(m)
			_, err := s.CreateOnce(t.Context(), path, []byte("ours"), mode, nil)
			wantErr(t, "CreateOnce", err, zk.ErrNodeExists)
			if client.MaybeApplied(err) {
				t.Errorf("nothing is in doubt: %v", err)
			}
		}
		// Two sequential ones that could be ours.
		must(t, s.EnsurePath(t.Context(), "/q", nil))
		m := faultproxy.Match{Ops: faultproxy.Creates(), Prefix: "/q/"}
		p.Before(m, func(faultproxy.Request) {
			_, err := other.Create(t.Context(), "/q/n-", []byte("ours"), zk.PersistentSequential, nil)
			must(t, err)
		})
		p.CutAfter(m)
		_, err := s.CreateOnce(t.Context(), "/q/n-", []byte("ours"), zk.PersistentSequential, nil)
		if !client.MaybeApplied(err) || !strings.Contains(err.Error(), "create /q/n-: ") {
			t.Errorf("two candidates: %v", err)
		}
	})
}

func TestCreateOnceAndAnExpiryInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s, p := proxied(t, srv, "")
		m := faultproxy.Match{Ops: faultproxy.Creates()}
		p.After(m, func(faultproxy.Request, faultproxy.Reply) { srv.Expire(s.ID()) })
		p.CutAfter(m)
		_, err := s.CreateOnce(t.Context(), "/n", nil, zk.Persistent, nil)
		wantErr(t, "CreateOnce", err, zk.ErrSessionExpired)
		if !client.MaybeApplied(err) {
			t.Errorf("the znode may be there: %v", err)
		}
		_, err = s.CreateOnce(t.Context(), "/n", nil, zk.PersistentTTL, nil)
		wantErr(t, "CreateOnce with a time to live", err, zk.ErrBadArguments)
	})
}

// Servers answer getEphemerals with all paths that begin with a string.
func TestEphemeralsAtAndBelowAPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		must(t, s.EnsurePath(t.Context(), "/d", nil))
		for _, path := range []string{"/d/x", "/dx", "/e"} {
			_, err := s.Create(t.Context(), path, nil, zk.Ephemeral, nil)
			must(t, err)
		}
		for prefix, want := range map[string][]string{"/d": {"/d/x"}, "/e": {"/e"}, "/dx": {"/dx"}, "/": {"/d/x", "/dx", "/e"}} {
			got, err := s.Ephemerals(t.Context(), prefix)
			must(t, err)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("at and below %s: %q, want %q", prefix, got, want)
			}
		}
	})
}

// A mode with a time to live is refused where none is given, with the name of the method that takes one.
func TestCreateWithoutItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := zktest.New(t, zktest.Options{}).Session(t, "s")
		_, err := s.Create(t.Context(), "/t", nil, zk.PersistentTTL, nil)
		wantErr(t, "Create", err, zk.ErrBadArguments)
		if !strings.Contains(err.Error(), "CreateTTL") {
			t.Errorf("Create: %v", err)
		}
	})
}

// F01: the answer to a write is lost, and no server can be reached until the context ends: the outcome is unknown.
func TestF01_ADoubtStaysWhenTheRepetitionFails(t *testing.T) {
	for name, write := range map[string]func(context.Context, *client.Session) error{
		"Put of a znode that is there": func(ctx context.Context, s *client.Session) error {
			_, err := s.Put(ctx, "/x", []byte("new"), nil)
			return err
		},
		"Put of a new znode": func(ctx context.Context, s *client.Session) error {
			_, err := s.Put(ctx, "/y", []byte("new"), nil)
			return err
		},
		"DeleteAll": func(ctx context.Context, s *client.Session) error { return s.DeleteAll(ctx, "/x") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.New(t, zktest.Options{})
				blocked := false
				p := faultproxy.New(srv.Link("proxied").Dial)
				defer p.Close()
				s, err := client.Open(t.Context(), zktest.Servers, client.Options{Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if blocked {
						return nil, errors.New("blocked")
					}
					return p.Dial(ctx, network, addr)
				}})
				must(t, err)
				defer s.Close(context.Background())
				_, err = s.Create(t.Context(), "/x", []byte("old"), zk.Persistent, nil)
				must(t, err)
				before := srv.Tree("/")
				p.CutAfter(faultproxy.Match{Ops: writes(), Skip: lostWrite[name]})
				blocked = true
				err = write(short(t, time.Second), s)
				if !errors.Is(err, context.DeadlineExceeded) || !client.MaybeApplied(err) {
					t.Errorf("%v; MaybeApplied says %v", err, client.MaybeApplied(err))
				}
				if fmt.Sprint(srv.Tree("/")) == fmt.Sprint(before) {
					t.Error("nothing was written: the test shows nothing")
				}
			})
		})
	}
}

// lostWrite is which of the writes changes something, where the first does not.
var lostWrite = map[string]int{"Put of a new znode": 1}
