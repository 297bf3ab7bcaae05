package client_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/memnet"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Every operation and every event, below a chroot: paths go out with it and come back without it.
func TestChroot(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		startWith(t, n, fakeAddr, server.Options{ExtendedTypes: true})
		whole := open(t, n, fakeAddr, client.Options{})
		ctx := t.Context()
		for _, path := range []string{"/team", "/team/app"} {
			_, err := whole.Create(ctx, path, nil, zk.Persistent, nil)
			must(t, err)
		}
		s := open(t, n, fakeAddr+"/team/app", client.Options{})

		wantThere := func(path string, want bool) {
			t.Helper()
			if _, ok, err := whole.Exists(ctx, path); ok != want || err != nil {
				t.Errorf("%s is there: %v, %v, want %v", path, ok, err, want)
			}
		}
		watch, err := s.AddWatch(ctx, "/", true)
		must(t, err)
		for _, tt := range []struct {
			mode zk.Mode
			path string
			want string
		}{
			{zk.Persistent, "/a", "/a"},
			{zk.Ephemeral, "/e", "/e"},
			{zk.PersistentSequential, "/a/s-", "/a/s-0000000000"},
			{zk.EphemeralSequential, "/a/", "/a/0000000001"},
			{zk.Container, "/c", "/c"},
			{zk.PersistentTTL, "/t", "/t"},
			{zk.PersistentSequentialTTL, "/t-", "/t-0000000004"},
		} {
			var got client.Created
			if tt.mode.TTL() {
				got, err = s.CreateTTL(ctx, tt.path, []byte("x"), tt.mode, nil, time.Hour)
			} else {
				got, err = s.Create(ctx, tt.path, []byte("x"), tt.mode, nil)
			}
			if err != nil || got.Path != tt.want || got.Stat.DataLength != 1 || got.Stat.Czxid == 0 {
				t.Errorf("create %s, %v: %+v, %v, want %s", tt.path, tt.mode, got, err, tt.want)
			}
			if owned := got.Stat.EphemeralOwner == s.ID(); owned != tt.mode.Ephemeral() {
				t.Errorf("create %s, %v: owner 0x%x", tt.path, tt.mode, got.Stat.EphemeralOwner)
			}
			wantThere("/team/app"+tt.want, true)
			if ev, err := watch.Next(short(t, time.Second)); err != nil || ev.Type != zk.NodeCreated || ev.Path != tt.want {
				t.Errorf("event %+v, %v, want the creation of %s", ev, err, tt.want)
			}
		}
		names, _, err := s.Children(ctx, "/")
		must(t, err)
		slices.Sort(names)
		if want := []string{"a", "c", "e", "t", "t-0000000004"}; !slices.Equal(names, want) {
			t.Errorf("children %q, want %q", names, want)
		}

		_, _, w, err := s.WatchGet(ctx, "/a")
		must(t, err)
		_, _, kids, err := s.WatchChildren(ctx, "/")
		must(t, err)
		stat, err := s.Set(ctx, "/a", []byte("y"), 0)
		must(t, err)
		if data, _, err := whole.Get(ctx, "/team/app/a"); string(data) != "y" || err != nil || stat.Version != 1 {
			t.Errorf("set: %q, %v, %+v", data, err, stat)
		}
		fired(t, w)
		if ev, _, _ := w.Event(); ev.Path != "/a" || ev.Type != zk.NodeDataChanged {
			t.Errorf("event %+v", ev)
		}
		must(t, s.Delete(ctx, "/e", -1))
		fired(t, kids)
		if ev, _, _ := kids.Event(); ev.Path != "/" || ev.Type != zk.NodeChildrenChanged {
			t.Errorf("event %+v", ev)
		}
		wantThere("/team/app/e", false)

		if _, err := s.SetACL(ctx, "/c", zk.ReadOnlyACL(), 0); err != nil {
			t.Errorf("setACL: %v", err)
		}
		if acl, _, err := s.ACL(ctx, "/c"); err != nil || !slices.Equal(acl, zk.ReadOnlyACL()) {
			t.Errorf("ACL: %v, %v", acl, err)
		}
		results, err := s.Multi(ctx, client.OpCheck("/a", 1), client.OpCreate("/a/m-", nil, zk.PersistentSequential, nil),
			client.OpSet("/a", []byte("z"), 1), client.OpDelete("/t", -1))
		must(t, err)
		if len(results) != 4 || results[1].Path != "/a/m-0000000002" || results[2].Stat.Version != 2 {
			t.Errorf("multi: %+v", results)
		}
		wantThere("/team/app/a/m-0000000002", true)
		wantThere("/team/app/t", false)
		var failed *client.MultiError
		_, err = s.Multi(ctx, client.OpCheck("/a", -1), client.OpDelete("/none", -1))
		if !errors.As(err, &failed) || failed.Index != 1 || failed.Path != "/none" || !errors.Is(err, zk.ErrNoNode) || client.MaybeApplied(err) {
			t.Errorf("multi that fails: %v", err)
		}
		must(t, s.Sync(ctx, "/"))
		defer s.Vouch(client.VouchWrite).Stop()
		<-time.After(5 * time.Second)
		if age := s.Age(client.VouchWrite); age > 4*time.Second {
			t.Errorf("age %v while vouching", age)
		}
	})
}

// F49: below a chroot, too, watches come back after a reconnect under the names that they had.
func TestChrootAcrossReconnect(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		start(t, n, fakeAddr)
		whole := open(t, n, fakeAddr, client.Options{Dial: n.Dialer("other")})
		_, err := whole.Create(t.Context(), "/app", nil, zk.Persistent, nil)
		must(t, err)
		s := open(t, n, fakeAddr+"/app", client.Options{})
		_, _, w, err := s.WatchExists(t.Context(), "/n")
		must(t, err)
		cut(t, n, s)
		_, err = whole.Create(t.Context(), "/app/n", nil, zk.Persistent, nil)
		must(t, err)
		fired(t, w)
		if ev, _, _ := w.Event(); ev.Path != "/n" || ev.Type != zk.NodeCreated {
			t.Errorf("event %+v", ev)
		}
	})
}

// What is not a path is refused before it leaves: below a chroot it could name a znode outside of it.
func TestInvalidPathsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		f := serveFake(t, n, fakeAddr, well)
		s := open(t, n, fakeAddr+"/app", client.Options{})
		ctx := t.Context()
		for _, path := range []string{"", "let", "/a/", "/a//b", "/a/../b", "/a\x00"} {
			errs := map[string]error{}
			_, errs["create"] = s.Create(ctx, path, nil, zk.Persistent, nil)
			_, errs["create with TTL"] = s.CreateTTL(ctx, path, nil, zk.PersistentTTL, nil, time.Hour)
			errs["delete"] = s.Delete(ctx, path, -1)
			_, errs["set"] = s.Set(ctx, path, nil, -1)
			_, errs["setACL"] = s.SetACL(ctx, path, nil, -1)
			_, _, errs["exists"] = s.Exists(ctx, path)
			_, _, errs["get"] = s.Get(ctx, path)
			_, _, errs["children"] = s.Children(ctx, path)
			_, _, errs["ACL"] = s.ACL(ctx, path)
			errs["sync"] = s.Sync(ctx, path)
			_, errs["watch"] = s.AddWatch(ctx, path, false)
			_, _, _, errs["watch exists"] = s.WatchExists(ctx, path)
			_, errs["multi"] = s.Multi(ctx, client.OpCheck("/fine", -1), client.OpDelete(path, -1))
			for name, err := range errs {
				var bad *zk.PathError
				if !errors.As(err, &bad) || bad.Path != path || !errors.Is(err, zk.ErrBadArguments) || client.MaybeApplied(err) {
					t.Errorf("%s %q: %v, want a *zk.PathError", name, path, err)
				}
			}
			if want := "operation 1, delete: "; !strings.Contains(errs["multi"].Error(), want) {
				t.Errorf("multi %q: %v, want it to say %q", path, errs["multi"], want)
			}
		}
		_, err := s.Multi(ctx, client.OpCreate("/a", nil, zk.PersistentTTL, nil))
		if !errors.Is(err, zk.ErrBadArguments) || !strings.Contains(err.Error(), "operation 0, create: ") {
			t.Errorf("multi with a time to live: %v", err)
		}
		if _, err := s.Create(ctx, "/a//", nil, zk.PersistentSequential, nil); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("create /a//: %v", err)
		}
		for _, h := range f.asked() {
			t.Errorf("%v was sent", h.Op)
		}
		if l := client.LeftoversOf(s); l != (client.Leftovers{}) {
			t.Errorf("left: %+v", l)
		}
	})
}

// An error that comes of a missing chroot names the chroot, and does not only say that / is missing.
func TestAMissingChrootIsNamed(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		startWith(t, n, fakeAddr, server.Options{})
		s := open(t, n, fakeAddr+"/team/app", client.Options{})
		if _, err := s.Put(t.Context(), "/a", nil, nil); !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "the chroot /team/app is missing") {
			t.Errorf("put = %v", err)
		}
	})
}

// A sequential znode whose name is nothing but the number stays within the chroot.
func TestChrootNumbersAlone(t *testing.T) {
	bubble(t, func(t *testing.T, n *memnet.Network) {
		startWith(t, n, fakeAddr, server.Options{ExtendedTypes: true})
		whole := open(t, n, fakeAddr, client.Options{})
		_, err := whole.Create(t.Context(), "/app", nil, zk.Persistent, nil)
		must(t, err)
		s := open(t, n, fakeAddr+"/app", client.Options{})
		a, err := s.Create(t.Context(), "/", nil, zk.EphemeralSequential, nil)
		must(t, err)
		b, err := s.CreateTTL(t.Context(), "/", nil, zk.PersistentSequentialTTL, nil, time.Hour)
		must(t, err)
		c, err := s.Multi(t.Context(), client.OpCreate("/", nil, zk.PersistentSequential, nil))
		must(t, err)
		want := []string{"/0000000000", "/0000000001", "/0000000002"}
		if got := []string{a.Path, b.Path, c[0].Path}; !slices.Equal(got, want) {
			t.Errorf("made %q, want %q", got, want)
		}
		for _, path := range want {
			if _, ok, err := whole.Exists(t.Context(), "/app"+path); !ok || err != nil {
				t.Errorf("/app%s is there: %v, %v", path, ok, err)
			}
		}
	})
}
