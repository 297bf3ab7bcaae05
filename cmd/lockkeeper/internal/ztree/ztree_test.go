package ztree_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/ztree"
	"github.com/lockkeeper/lockkeeper/zk"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// fill creates znodes, parents first, many at once.
func fill(t testing.TB, s *client.Session, paths []string) {
	t.Helper()
	for len(paths) > 0 {
		n := min(len(paths), 500)
		ops := make([]client.Op, n)
		for i, p := range paths[:n] {
			ops[i] = client.OpCreate(p, []byte(p), zk.Persistent, nil)
		}
		if _, err := s.Multi(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		paths = paths[n:]
	}
}

// bushes returns the paths of a tree that is wide at some places, deep at others, parents first and children by name.
func bushes() []string {
	var all []string
	for i := range 17 {
		dir := fmt.Sprintf("/t/%02d", i)
		all = append(all, dir)
		for j := range i * i {
			child := fmt.Sprintf("%s/%04d", dir, j)
			all = append(all, child)
			if j%7 == 0 {
				all = append(all, child+"/x", child+"/x/y")
			}
		}
	}
	return append([]string{"/t"}, all...)
}

func paths(t testing.TB, s *client.Session, root string, opt ztree.WalkOptions) (all []string) {
	t.Helper()
	err := ztree.Walk(t.Context(), s, root, opt, func(n *ztree.Node) error {
		if opt.Data && string(n.Data) != n.Path {
			t.Errorf("%s has the data %q", n.Path, n.Data)
		}
		all = append(all, n.Path)
		return n.Err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestWalkVisitsAllInOrder(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "walker")
	want := bushes()
	fill(t, s, want)
	if got := paths(t, s, "/t", ztree.WalkOptions{Data: true}); !slices.Equal(got, want) {
		t.Errorf("%d znodes visited, want %d, in order", len(got), len(want))
	}
	shallow := slices.DeleteFunc(slices.Clone(want), func(p string) bool { return strings.Count(p, "/") > 3 })
	if got := paths(t, s, "/t", ztree.WalkOptions{Depth: 2}); !slices.Equal(got, shallow) {
		t.Errorf("%d znodes visited to depth 2, want %d", len(got), len(shallow))
	}
	skip := func(p string) bool { return p == "/t/12" }
	rest := slices.DeleteFunc(slices.Clone(want), func(p string) bool { return strings.HasPrefix(p, "/t/12") })
	if got := paths(t, s, "/t", ztree.WalkOptions{Skip: skip}); !slices.Equal(got, rest) {
		t.Errorf("%d znodes visited without one tree, want %d", len(got), len(rest))
	}
	err := ztree.Walk(t.Context(), s, "/missing", ztree.WalkOptions{}, func(*ztree.Node) error { return nil })
	if !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("a walk of a znode that is not there: %v", err)
	}
}

// A walk and a removal go on where a connection that broke has left them.
func TestBrokenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.New(t, zktest.Options{})
		s := srv.Session(t, "walker")
		want := bushes()
		fill(t, s, want)
		var got []string
		err := ztree.Walk(t.Context(), s, "/t", ztree.WalkOptions{}, func(n *ztree.Node) error {
			got = append(got, n.Path)
			if len(got)%200 == 0 {
				srv.Link("walker").Cut()
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d znodes visited, want %d: %v", len(got), len(want), err)
		}
		cuts := 0
		deleted, err := ztree.Remove(t.Context(), s, "/t", func(int) {
			cuts++
			if cuts == 3 {
				srv.Link("walker").Cut()
			}
		})
		if err != nil || deleted > len(want) || cuts < 3 {
			t.Errorf("%d of %d znodes deleted: %v", deleted, len(want), err)
		}
		if _, there, err := s.Exists(t.Context(), "/t"); there || err != nil {
			t.Errorf("after the removal: there %v, %v", there, err)
		}
	})
}

// A removal whose first answers are lost is not done yet, and not refused either, whether it was carried out or not.
func TestRemovalWhoseAnswersAreLost(t *testing.T) {
	for root, all := range map[string][]string{"/": bushes(), "/one": {"/one"}} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.New(t, zktest.Options{})
			s := srv.Session(t, "s")
			fill(t, s, all)
			srv.Link("s").LoseAnswer()
			_, err := ztree.Remove(t.Context(), s, root, nil)
			if err != nil {
				t.Errorf("the removal of %s: %v", root, err)
			}
			if _, there, err := s.Exists(t.Context(), all[0]); there || err != nil {
				t.Errorf("after the removal of %s: there %v, %v", root, there, err)
			}
		})
	}
}

func TestRemovalSaysHowFarItCame(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	fill(t, s, []string{"/a", "/a/x", "/a/y", "/a/y/kept", "/a/z"})
	if _, err := s.SetACL(t.Context(), "/a/y", zk.ReadOnlyACL(), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	_, err := ztree.Remove(t.Context(), s, "/a", nil)
	var part *ztree.PartError
	if !errors.As(err, &part) || !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "deleted before that") {
		t.Errorf("a removal that is refused in the middle: %v", err)
	}
	if _, there, _ := s.Exists(t.Context(), "/a/y/kept"); !there {
		t.Error("the znode that may not be deleted is gone")
	}
	fill(t, s, []string{"/c", "/c/b", "/c/b/hidden"})
	if _, err := s.SetACL(t.Context(), "/c/b", []zk.ACL{{Perms: zk.PermAdmin, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if n, err := ztree.Remove(t.Context(), s, "/c", nil); n != 0 || !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("a tree that cannot be listed: %d deleted, %v", n, err)
	}
	if c, err := ztree.Count(t.Context(), s, "/c"); err != nil || c.Unreadable != 1 {
		t.Errorf("a tree that cannot be listed is counted as %+v, %v", c, err)
	}
}

// What the client asks a server about the session itself.
func TestOwnSession(t *testing.T) {
	srv := zktest.New(t, zktest.Options{})
	s := srv.Session(t, "s")
	for _, p := range []string{"/e1", "/e2"} {
		if _, err := s.Create(t.Context(), p, nil, zk.Ephemeral, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddAuth(t.Context(), client.Auth{Scheme: "digest", Credential: []byte("ann:secret")}); err != nil {
		t.Fatal(err)
	}
	own, err := s.Ephemerals(t.Context(), "/")
	slices.Sort(own)
	if err != nil || !slices.Equal(own, []string{"/e1", "/e2"}) {
		t.Errorf("ephemerals are %q, %v", own, err)
	}
	if n, err := s.CountBelow(t.Context(), "/"); err != nil || n < 2 {
		t.Errorf("%d znodes below the root, %v", n, err)
	}
	ids, err := s.WhoAmI(t.Context())
	if err != nil || !slices.ContainsFunc(ids, func(id client.Identity) bool { return id.Scheme == "digest" && strings.HasPrefix(id.ID, "ann") }) {
		t.Errorf("identities are %v, %v", ids, err)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"plain ä": "plain ä", "a\u202eb": `a\u202eb`, "a\x00\n": `a\x00\n`, "\xff": `\xff`, "a\u200bb": `a\u200bb`} {
		if got := ztree.Escape(in); got != want {
			t.Errorf("%q is shown as %s, want %s", in, got, want)
		}
	}
	for _, text := range []string{"world:anyone:cdrwa", "digest:ann:AAAA/AAAAAAAAAAAAAAAAAAAAAA=:r,ip:10.0.0.0/8:cd", "auth::w",
		`x509:CN=ann,O=Ex\, Inc,C=DE:cr,world:anyone:r`, "x509:CN=a:r,OU=b:r,x509:CN=c:w"} {
		if acl, err := ztree.ParseACL(text); err != nil || ztree.FormatACL(acl) != text {
			t.Errorf("ACL %s is read as %v, %v", text, acl, err)
		}
	}
	for _, text := range []string{"", "world", "world:anyone", "world:me:r", "world:anyone:", "world:anyone:rq", "digest:ann:r", "digest:ann:secret:r", ":a:r", "world:anyone:r,",
		"sasl:bob:rx,world:anyone:r", "x509:CN=ann,O=Ex"} {
		if acl, err := ztree.ParseACL(text); err == nil {
			t.Errorf("ACL %q is read as %v", text, acl)
		}
	}
	for _, text := range []string{"count=5,bytes=-1", "count=-1,bytes=7=;byteHardLimit=8;countHardLimit=9"} {
		if q, err := ztree.ParseQuota(text); err != nil || q.String() != text {
			t.Errorf("quota %s is read as %v, %v", text, q, err)
		}
	}
	for _, text := range []string{"count", "count=x", "size=3"} {
		if q, err := ztree.ParseQuota(text); err == nil {
			t.Errorf("quota %q is read as %v", text, q)
		}
	}
	for line, want := range map[string][]string{`a "b c" 'd"e'f\ g # h`: {"a", "b c", `d"ef g`}, `""`: {""}, "#": nil, " ": nil, `"a\"b"`: {`a"b`},
		`"a\d+\n" "\\d" "\'" '\d' \d "c:\dir\\"`: {`a\d+\n`, `\d`, `\'`, `\d`, `d`, `c:\dir\`}} {
		if got, err := ztree.Words(line); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is split into %q, %v", line, got, err)
		}
	}
	for _, line := range []string{`"a`, `a\`, "'", `"a\`, `"a\"`} {
		if got, err := ztree.Words(line); err == nil {
			t.Errorf("%s is split into %q", line, got)
		}
	}
}

// BenchmarkWalk is a walk of 100,000 znodes without data.
func BenchmarkWalk(b *testing.B) {
	srv := zktest.New(b, zktest.Options{})
	s := srv.Session(b, "s")
	all := []string{"/t"}
	for i := range 100 {
		all = append(all, fmt.Sprintf("/t/%d", i))
		for j := range 1000 {
			all = append(all, fmt.Sprintf("/t/%d/%d", i, j))
		}
	}
	fill(b, s, all)
	for b.Loop() {
		n := 0
		if err := ztree.Walk(context.Background(), s, "/t", ztree.WalkOptions{}, func(*ztree.Node) error { n++; return nil }); err != nil || n != len(all) {
			b.Fatal(n, err)
		}
	}
}
