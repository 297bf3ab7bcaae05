package store

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

const testDir = "/data/version-2"

// loadGolden puts files that ZooKeeper wrote into a file system in memory.
func loadGolden(t testing.TB, name string) *vfs.Mem {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join("testdata", name, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return memWith(t, files)
}

func memWith(t testing.TB, files map[string][]byte) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	if err := fs.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		writeFile(t, fs, name, content)
	}
	if err := fs.SyncDir(testDir); err != nil {
		t.Fatal(err)
	}
	return fs
}

func writeFile(t testing.TB, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.Create(filepath.Join(testDir, name))
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		err = f.Datasync()
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(filepath.Join(testDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatal(err)
	}
	return b
}

func remove(t testing.TB, fs vfs.FS, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := fs.Remove(filepath.Join(testDir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.SyncDir(testDir); err != nil {
		t.Fatal(err)
	}
}

// testOptions are those of a small store.
func testOptions() Options { return Options{DataDir: "/data", PreAllocBytes: 4096} }

func mustOpen(t testing.TB, fs vfs.FS, o Options) (*Store, *twin) {
	t.Helper()
	w := &twin{}
	s, err := Open(fs, o, w)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s, w
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// TestApacheState reads what Apache ZooKeeper wrote and compares its two accounts of the same
// state: the snapshot that it wrote when it was started again, and the log from before.
func TestApacheState(t *testing.T) {
	for _, golden := range []struct {
		name, newest string
		digests      int // of the transactions in both logs; failed ones have none
	}{
		{"plain", "snapshot.1b", 31},
		{"nodigest", "snapshot.1b.gz", 0},
	} {
		t.Run(golden.name, func(t *testing.T) {
			fs := loadGolden(t, golden.name)
			s, byNewest := mustOpen(t, fs, testOptions())
			if got, want := s.Recovery(), (Recovery{Snapshot: testDir + "/" + golden.newest, SnapshotZxid: 0x1b, Zxid: 0x22, Txns: 7}); got != want {
				t.Errorf("Recovery() = %+v, want %+v", got, want)
			}
			mustClose(t, s)

			remove(t, fs, golden.newest)
			s, byOldest := mustOpen(t, fs, testOptions())
			if got := s.Recovery(); got.SnapshotZxid != 0 || got.Zxid != 0x22 || got.Txns != 0x22 {
				t.Errorf("without %s, Recovery() = %+v", golden.newest, got)
			}
			mustClose(t, s)

			if byNewest.dump() != byOldest.dump() {
				t.Errorf("snapshot 0x1b and log:\n%s\nsnapshot 0 and logs:\n%s", byNewest.dump(), byOldest.dump())
			}
			if len(byOldest.wrong) > 0 || byOldest.digests != golden.digests {
				t.Errorf("%d digests checked, want %d; wrong: %s", byOldest.digests, golden.digests, strings.Join(byOldest.wrong, "\n"))
			}
			for _, path := range []string{"/a/eph", "/a/container", "/a/ttl", "/m/two", "/last", "/end"} {
				if _, ok := byNewest.nodes[path]; !ok {
					t.Errorf("%s is missing", path)
				}
			}
			for _, path := range []string{"/a/null", "/a/gone", "/never", "/later", "/a/container/kid"} {
				if _, ok := byNewest.nodes[path]; ok {
					t.Errorf("%s is there", path)
				}
			}
		})
	}
}

// TestApacheGaps reads a log in which Apache ZooKeeper has left out what it had numbered.
func TestApacheGaps(t *testing.T) {
	fs := loadGolden(t, "gaps")
	var said strings.Builder
	o, w := testOptions(), &twin{}
	o.Logger = slog.New(slog.NewTextHandler(&said, nil))
	s, err := Open(fs, o, w)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if got, want := s.Recovery(), (Recovery{Snapshot: testDir + "/snapshot.0", Zxid: 7, Txns: 4}); got != want {
		t.Errorf("Recovery() = %+v, want %+v", got, want)
	}
	for _, path := range []string{"/before", "/between", "/after"} {
		if _, ok := w.nodes[path]; !ok {
			t.Errorf("%s is missing", path)
		}
	}
	if w.digests != 4 || len(w.wrong) > 0 {
		t.Errorf("%d digests checked, want 4; wrong: %q", w.digests, w.wrong)
	}
	if want := "path=" + testDir + "/log.1 offset=181 after=0x2 next=0x4 places=2"; !strings.Contains(said.String(), want) {
		t.Errorf("the log says %q, want %q", said.String(), want)
	}
	report, err := Check(fs, testOptions())
	if err != nil || report.Err != nil || report.Logs[0].Gaps != 2 {
		t.Errorf("Check: %+v, %v; want no error, and two gaps", report, err)
	}
}

// A recorder is a Loader that keeps everything as it came.
type recorder struct {
	twinSource
	records []Record
}

func (r *recorder) Reset()                           { *r = recorder{} }
func (r *recorder) Session(e txn.SessionEntry) error { r.sessions = append(r.sessions, e); return nil }
func (r *recorder) ACL(e txn.ACLEntry) error         { r.acls = append(r.acls, e); return nil }
func (r *recorder) Node(n txn.Node) error            { r.nodes = append(r.nodes, n); return nil }
func (r *recorder) EndSnapshot(zxid int64, d *SnapshotDigest) error {
	r.zxid, r.digest = zxid, d
	return nil
}
func (r *recorder) Apply(t *txn.Txn, d *txn.Digest) error {
	rec := Record{Txn: t}
	if d != nil {
		rec.Digest = *d
	}
	r.records = append(r.records, rec)
	return nil
}

// TestApacheBytes writes again what was read from Apache ZooKeeper's files, and wants the same bytes.
func TestApacheBytes(t *testing.T) {
	fs := loadGolden(t, "plain")
	remove(t, fs, "log.1c")
	snapshot, snapshot0, log := readFile(t, fs, "snapshot.1b"), readFile(t, fs, "snapshot.0"), readFile(t, fs, "log.1")
	var in recorder
	s, err := Open(fs, testOptions(), &in)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WriteSnapshot(t.Context(), &in); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	ours := readFile(t, fs, "snapshot.1b")
	if !bytes.HasPrefix(ours, snapshot) {
		t.Errorf("snapshot written again:\n%x\nwant, and a section with the last zxid:\n%x", ours, snapshot)
	}
	if got := len(ours) - len(snapshot); got != lastZxidBytes {
		t.Errorf("%d bytes behind what ZooKeeper 3.8 writes, want %d", got, lastZxidBytes)
	}

	fs = memWith(t, map[string][]byte{"snapshot.0": snapshot0, "log.1": log})
	s, err = Open(fs, testOptions(), &in)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	fs = memWith(t, map[string][]byte{"snapshot.0": snapshot0})
	s, _ = mustOpen(t, fs, testOptions())
	if err := s.Append(in.records); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, fs, "log.1"); !bytes.Equal(bytes.TrimRight(got, "\x00"), bytes.TrimRight(log, "\x00")) {
		t.Errorf("log written again:\n%x\nwant:\n%x", got, log)
	}
	mustClose(t, s)
}
