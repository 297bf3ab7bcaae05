package server

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lockkeeper/lockkeeper/internal/server/load"
	"github.com/lockkeeper/lockkeeper/internal/server/session"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// Ephemerals of sessions that are not known go at the start, as in ZooKeeper, without a
// transaction. They must not come back under what is created in their place.
func TestF44_OrphansGoForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		l := load.New(false)
		st, err := store.Open(fs, store.Options{DataDir: "/data", PreAllocBytes: 64 << 10}, l)
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{tree: l.Tree}
		s.sessions.table = session.NewTable(testTick)
		if err := st.WriteSnapshot(t.Context(), s.newSource()); err != nil {
			t.Fatal(err)
		}
		orphan := &txn.Txn{Session: 99, Zxid: 1, Time: 1, Change: txn.Change{
			Type: wire.OpCreate, Path: "/n", Data: []byte("orphan"), ACL: zk.OpenACL(), Ephemeral: true, ParentCversion: 1,
		}}
		if err := st.Append([]store.Record{{Txn: orphan}}); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}

		r := start(t)
		r.reopen(fs)
		p := r.connect("c")
		if p.exists("/n") {
			t.Fatal("an ephemeral without a session is there after the start")
		}
		p.create("/n", zk.Persistent)
		r.reopen(r.fs.CrashClone(nil))
		var got wire.DataResponse
		if code := r.connect("c").call(wire.OpGetData, &wire.WatchRequest{Path: "/n"}, &got); code != zk.OK || string(got.Data) != "x" || got.Stat.EphemeralOwner != 0 {
			t.Errorf("after another restart: %v, %q of %x; want the persistent znode", code, got.Data, got.Stat.EphemeralOwner)
		}
	})
}

// A server with myid 255 gives out sessions whose ids look like stored times to live. Their ephemeral znodes would outlive them, so the
// data are refused.
func TestSessionsOfAServer255AreRefused(t *testing.T) {
	for _, top := range []int64{254, 255} {
		synctest.Test(t, func(t *testing.T) {
			r := start(t)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			st, err := store.Open(r.fs, store.Options{DataDir: "/data"}, load.New(false))
			if err != nil {
				t.Fatal(err)
			}
			opens := &txn.Txn{Session: top<<56 | 0x1234, Zxid: 1 << 32, Time: 1, Change: txn.Change{Type: wire.OpCreateSession, Timeout: 4000}}
			if err := st.Append([]store.Record{{Txn: opens}}); err != nil {
				t.Fatal(err)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := Open(r.opts)
			if refused := err != nil && strings.Contains(err.Error(), "of a server with myid 255"); refused != (top == 255) {
				t.Errorf("server %d: %v", top, err)
			}
			if s != nil {
				s.Close()
			}
		})
	}
}

// Logs without a snapshot, if they are to be trusted, get one before anything is appended.
func TestLogsWithoutASnapshotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t)
		r.connect("c").create("/before", zk.Persistent)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if err := r.fs.Remove("/data/version-2/snapshot.0"); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(r.opts); err == nil {
			t.Fatal("logs without a snapshot were trusted")
		}
		r.opts.TrustEmpty = true
		r.open()
		r.connect("c").create("/behind", zk.Persistent)
		r.opts.TrustEmpty = false
		r.reopen(r.fs.CrashClone(nil))
		c := r.connect("c")
		if !c.exists("/before") || !c.exists("/behind") {
			t.Error("something is lost")
		}
	})
}
