package zktest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A path that is none would make a test that something is not there pass for nothing.
func TestTreeRefusesWhatIsNoPath(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		for _, dir := range []string{"", "app", "/app/"} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("Tree(%q) returns", dir)
					}
				}()
				srv.Tree(dir)
			}()
		}
	})
}

func TestTreeShowsEveryKindOfZnode(t *testing.T) {
	bubble(t, zktest.Options{
		Server: func(o *server.Options) { o.ExtendedTypes = true },
	}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "worker")
		create(t, s, "/app", "", zk.Persistent)
		create(t, s, "/app/b", "\x00\xff", zk.Persistent)
		create(t, s, "/app/b/c", "deep", zk.Persistent)
		create(t, s, "/app/b-d", strings.Repeat("long", 100), zk.Persistent)
		create(t, s, "/app/locks", "", zk.Container)
		create(t, s, "/app/leader", "me", zk.Ephemeral)
		create(t, s, "/app/q-", "", zk.PersistentSequential)
		if _, err := s.CreateTTL(t.Context(), "/app/ttl", nil, zk.PersistentTTL, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
		create(t, s, "/apple", "", zk.Persistent)
		want := `/app
/app/b = "\x00\xff"
/app/b/c = "deep"
/app/b-d = "` + strings.Repeat("long", 16) + `"… (400 bytes)
/app/leader = "me" (ephemeral of worker)
/app/locks (container)
/app/q-0000000004
/app/ttl (persistent with TTL)
`
		if got := srv.Tree("/app").String(); got != want {
			t.Errorf("Tree(/app):\n%s\nwant:\n%s", got, want)
		}
		if got := srv.Tree("/").String(); got != "/\n"+want+"/apple\n" {
			t.Errorf("Tree(/):\n%s", got)
		}
		if got := srv.Tree("/nothing"); len(got) != 0 || got.String() != "" {
			t.Errorf("Tree(/nothing): %v", got)
		}
		if got := srv.Tree("/zookeeper").String(); got != "/zookeeper\n/zookeeper/config\n/zookeeper/quota\n" {
			t.Errorf("Tree(/zookeeper):\n%s", got)
		}
	})
}

// What is read from the disk is what a client reads, ACLs included, and looking leaves no trace.
func TestTreeIsWhatClientsSee(t *testing.T) {
	bubble(t, zktest.Options{
		Server: func(o *server.Options) { o.SnapCount = 20 },
	}, func(t *testing.T, srv *zktest.Server) {
		s := srv.Session(t, "a")
		if err := s.AddAuth(t.Context(), client.Auth{Scheme: "digest", Credential: []byte("u:p")}); err != nil {
			t.Fatal(err)
		}
		lists := [][]zk.ACL{nil, zk.ReadOnlyACL(), zk.DigestACL(zk.PermAll, "u", "p")}
		for i := range 60 { // and some snapshots
			path := fmt.Sprintf("/n%02d", i)
			if _, err := s.Create(t.Context(), path, []byte{byte(i)}, zk.Mode(i%2), lists[i%3]); err != nil {
				t.Fatal(err)
			}
			if i%5 == 0 {
				if err := s.Delete(t.Context(), path, -1); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := srv.Stats()
		tree := srv.Tree("/")
		if after := srv.Stats(); after != before {
			t.Errorf("looking changed %+v to %+v", before, after)
		}
		if len(tree) != 1+48 {
			t.Errorf("%d znodes, want 49", len(tree))
		}
		for _, n := range tree {
			data, stat, err := s.Get(t.Context(), n.Path)
			if err != nil {
				t.Fatal(err)
			}
			acl, _, err := s.ACL(t.Context(), n.Path)
			if err != nil {
				t.Fatal(err)
			}
			if string(data) != string(n.Data) || stat != n.Stat || !slices.Equal(acl, n.ACL) {
				t.Errorf("Tree has\n%+v, a client reads\n%q %+v %+v", n, data, stat, acl)
			}
		}
	})
}

// A dead session's znodes are no longer there, and one that is closed leaves none either.
func TestTreeForgetsSessions(t *testing.T) {
	bubble(t, zktest.Options{}, func(t *testing.T, srv *zktest.Server) {
		s, err := srv.Link("a").Open(t.Context(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		create(t, s, "/e", "", zk.Ephemeral)
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := srv.Tree("/").String(); got != "/\n" {
			t.Errorf("left:\n%s", got)
		}
	})
}
