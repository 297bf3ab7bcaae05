package store

import (
	"fmt"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/zk"
)

// BenchmarkAppendSync appends batches of transactions of 200 bytes on the real disk and syncs each.
func BenchmarkAppendSync(b *testing.B) {
	for _, txns := range []int{1, 100} {
		for _, syncDisabled := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx200B/sync=%t", txns, !syncDisabled), func(b *testing.B) {
				s := openFresh(b, vfs.OS{}, Options{DataDir: b.TempDir(), SyncDisabled: syncDisabled})
				defer mustClose(b, s)
				batch := creates(1, int64(txns), 110)
				if n := len(appendRecord(nil, &batch[0])); n < 195 || n > 205 {
					b.Fatalf("a record takes %d bytes", n)
				}
				b.ReportAllocs()
				for b.Loop() {
					mustAppend(b, s, batch)
					for i := range batch {
						batch[i].Txn.Zxid += int64(txns)
					}
				}
			})
		}
	}
}

// BenchmarkOpen starts on an empty directory, up to the first snapshot; and on a log of 100,000
// transactions of 200 bytes.
func BenchmarkOpen(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for b.Loop() {
			mustClose(b, openFresh(b, vfs.OS{}, Options{DataDir: b.TempDir()}))
		}
	})
	b.Run("log of 100,000", func(b *testing.B) {
		o := Options{DataDir: b.TempDir()}
		s := openFresh(b, vfs.OS{}, o)
		mustAppend(b, s, creates(1, 100_000, 110))
		mustClose(b, s)
		for b.Loop() {
			s, err := Open(vfs.OS{}, o, discard{})
			if err != nil {
				b.Fatal(err)
			}
			mustClose(b, s)
		}
	})
}

// BenchmarkSnapshot writes and reads a snapshot of 100,000 znodes of 100 bytes on the real disk.
func BenchmarkSnapshot(b *testing.B) {
	const nodes = 100_000
	src := &twinSource{acls: []txn.ACLEntry{{ID: 1, ACL: zk.OpenACL()}}, nodes: []txn.Node{{ACLID: txn.OpenACLID}}}
	for i := range nodes {
		src.nodes = append(src.nodes, txn.Node{Path: fmt.Sprintf("/node-%010d", i), Data: make([]byte, 100), ACLID: 1})
	}
	o := Options{DataDir: b.TempDir()}
	s, _ := mustOpen(b, vfs.OS{}, o)
	defer mustClose(b, s)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			again := *src
			if err := s.WriteSnapshot(b.Context(), &again); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		snapshots, _, err := o.list(vfs.OS{})
		if err != nil || len(snapshots) != 1 {
			b.Fatal(snapshots, err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := readSnapshot(vfs.OS{}, snapshots[0], discard{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
