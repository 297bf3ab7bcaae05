package clients

import (
	"bytes"
	"errors"
	"net"
	"testing"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/internal/testkit/faultproxy"
	"github.com/lockkeeper/lockkeeper/test/interop/apache"
	"github.com/lockkeeper/lockkeeper/zk"
)

// The client's verbs, one after the other, against the real thing.
func TestClientAgainstApache(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(t *testing.T) string
	}{
		{"one server", func(t *testing.T) string { return apache.Start(t, apache.Options{Tick: tick}).Addr() }},
		{"ensemble", func(t *testing.T) string {
			return apache.StartEnsemble(t, 3, apache.Options{Tick: tick}).Connect()
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers := tt.start(t)
			s := open(t, servers, client.Options{})
			if s.Timeout() != timeout {
				t.Errorf("granted %v, asked for %v", s.Timeout(), timeout)
			}
			exerciseClient(t, s, servers)
		})
	}
}

func exerciseClient(t *testing.T, s *client.Session, servers string) {
	ctx := within(t, patience)
	acl := zk.OpenACL()

	created, err := s.Create(ctx, "/dir", []byte("a"), zk.Persistent, acl)
	must(t, err)
	if created.Path != "/dir" || created.Stat.DataLength != 1 {
		t.Errorf("created: %+v", created)
	}
	if _, err := s.Create(ctx, "/dir", nil, zk.Persistent, acl); !errors.Is(err, zk.ErrNodeExists) {
		t.Errorf("create again: %v, want %v", err, zk.ErrNodeExists)
	}
	data, stat, w, err := s.WatchGet(ctx, "/dir")
	must(t, err)
	if !bytes.Equal(data, []byte("a")) || stat.Czxid != created.Stat.Czxid {
		t.Errorf("get: %q, %+v", data, stat)
	}
	_, err = s.Set(ctx, "/dir", []byte("b"), 7)
	if !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("set with a wrong version: %v, want %v", err, zk.ErrBadVersion)
	}
	stat, err = s.Set(ctx, "/dir", []byte("b"), 0)
	must(t, err)
	if stat.Version != 1 {
		t.Errorf("version after set: %d, want 1", stat.Version)
	}
	select {
	case <-w.Done():
		if ev, _, err := w.Event(); err != nil || ev.Type != zk.NodeDataChanged || ev.Path != "/dir" {
			t.Errorf("event: %+v, %v", ev, err)
		}
	case <-ctx.Done():
		t.Fatal("the watch did not fire")
	}

	results, err := s.Multi(ctx,
		client.OpCheck("/dir", 1),
		client.OpCreate("/dir/e", nil, zk.EphemeralSequential, acl),
		client.OpSet("/dir", []byte("c"), -1))
	must(t, err)
	if len(results) != 3 || results[1].Path != "/dir/e0000000000" || results[2].Stat.Version != 2 {
		t.Errorf("multi: %+v", results)
	}
	if _, err := s.Multi(ctx, client.OpDelete("/dir/e0000000000", -1), client.OpCheck("/dir", 1)); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("multi with a wrong version: %v, want %v", err, zk.ErrBadVersion)
	}
	names, _, err := s.Children(ctx, "/dir")
	must(t, err)
	if len(names) != 1 || names[0] != "e0000000000" {
		t.Errorf("children: %q", names)
	}
	must(t, s.Sync(ctx, "/dir"))
	if err := s.Delete(ctx, "/dir", -1); !errors.Is(err, zk.ErrNotEmpty) {
		t.Errorf("delete: %v, want %v", err, zk.ErrNotEmpty)
	}

	// What belongs to a session is gone when its Close returns.
	other := open(t, servers, client.Options{})
	must(t, s.Close(ctx))
	must(t, other.Sync(ctx, "/"))
	if names, _, err := other.Children(ctx, "/dir"); err != nil || len(names) != 0 {
		t.Errorf("children after the owner's Close: %q, %v; want none", names, err)
	}
	must(t, other.Delete(ctx, "/dir", 2))
	if _, ok, err := other.Exists(ctx, "/dir"); ok || err != nil {
		t.Errorf("exists after delete: %v, %v", ok, err)
	}
}

// A session's requests have different xids whatever connections they travel on, for the reason that
// TestAnswersAreRightIfASessionNeverRepeatsAnXid of package interop shows.
func TestXidsAreNotRepeatedAcrossConnections(t *testing.T) {
	srv := apache.Start(t, apache.Options{Tick: tick})
	var d net.Dialer
	proxy := faultproxy.New(d.DialContext)
	t.Cleanup(proxy.Close)
	s := open(t, srv.Addr(), client.Options{Dial: proxy.Dial})
	for range 3 {
		for range 5 {
			_, _, err := s.Exists(within(t, patience), "/")
			must(t, err)
		}
		proxy.CutAll()
	}
	seen := map[int32]int{} // connection by xid
	for _, e := range proxy.Since(0).Asked() {
		if first, ok := seen[e.Xid]; ok && e.Xid > 0 && first != e.Conn {
			t.Fatalf("xid %d on connections %d and %d", e.Xid, first, e.Conn)
		}
		seen[e.Xid] = e.Conn
	}
}
