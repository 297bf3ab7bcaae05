package conformance

import (
	"math"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/server"
	"github.com/lockkeeper/lockkeeper/test/interop/conformance/ours"
	"github.com/lockkeeper/lockkeeper/zk"
)

// edges returns a data directory in which counters stand shortly before their ends, where it would
// take a server years to bring them: the log says so. testdata/edges has the numbers.
func edges(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	srv := ours.Start(t, server.Options{DataDir: dir}) // which writes the first snapshot
	srv.Stop()
	st, err := store.Open(vfs.OS{}, store.Options{DataDir: dir, PreAllocBytes: 64 << 10}, discard{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var records []store.Record
	for i, c := range []txn.Change{
		{Type: wire.OpCreate, Path: "/q", ACL: zk.OpenACL(), ParentCversion: 2},
		{Type: wire.OpCreate, Path: "/q/last", ACL: zk.OpenACL(), ParentCversion: math.MaxInt32 - 2},
		{Type: wire.OpCreate, Path: "/v", ACL: zk.OpenACL(), ParentCversion: 3},
		{Type: wire.OpSetData, Path: "/v", Version: math.MaxInt32 - 1},
		{Type: wire.OpSetACL, Path: "/v", ACL: zk.OpenACL(), Version: math.MaxInt32 - 1},
	} {
		records = append(records, store.Record{Txn: &txn.Txn{Zxid: st.Recovery().Zxid + int64(i) + 1, Change: c}})
	}
	if err := st.Append(records); err != nil {
		t.Fatal(err)
	}
	if err := st.Sync(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// discard is a loader that keeps nothing.
type discard struct{}

func (discard) Reset()                                         {}
func (discard) Session(txn.SessionEntry) error                 { return nil }
func (discard) ACL(txn.ACLEntry) error                         { return nil }
func (discard) Node(txn.Node) error                            { return nil }
func (discard) EndSnapshot(int64, *store.SnapshotDigest) error { return nil }
func (discard) Apply(*txn.Txn, *txn.Digest) error              { return nil }
