package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// openFresh opens a store in an empty directory and writes its first snapshot.
func openFresh(t testing.TB, fs vfs.FS, o Options) *Store {
	t.Helper()
	s, w := mustOpen(t, fs, o)
	if !s.Recovery().Fresh {
		t.Fatalf("Recovery() = %+v, want fresh", s.Recovery())
	}
	if err := s.Append([]Record{{Txn: createTxn(1, 1)}}); !errors.Is(err, ErrNoSnapshot) {
		t.Fatalf("Append before the first snapshot: %v", err)
	}
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	return s
}

// creates makes records of transactions first to last.
func creates(first, last int64, size int) (batch []Record) {
	for zxid := first; zxid <= last; zxid++ {
		batch = append(batch, Record{Txn: createTxn(zxid, size)})
	}
	return batch
}

func mustAppend(t testing.TB, s *Store, batch []Record) {
	t.Helper()
	if err := s.Append(batch); err != nil {
		t.Fatalf("Append: %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Fatalf("Sync: %v", err)
	}
}

func wantFiles(t *testing.T, fs vfs.FS, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got, _ := fs.ReadDir(testDir); !slices.Equal(got, want) {
		t.Errorf("files: %v, want %v", got, want)
	}
}

// TestF44_FailureIsFinal breaks one write or sync of the log, and wants nothing acknowledged after it.
func TestF44_FailureIsFinal(t *testing.T) {
	errBroken := errors.New("broken")
	for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite, vfs.OpPreallocate, vfs.OpSyncDir, vfs.OpDatasync} {
		t.Run(string(op), func(t *testing.T) {
			fs := vfs.NewMem()
			s := openFresh(t, fs, testOptions())
			done := false
			fs.SetFault(func(o vfs.Op, path string, _ int64) error {
				if o != op || done {
					return nil
				}
				done = true
				return errBroken
			})
			err := s.Append(creates(1, 3, 10))
			if err == nil {
				err = s.Sync()
			}
			failed := (*FailedError)(nil)
			if !errors.As(err, &failed) || !errors.Is(err, errBroken) || !strings.Contains(err.Error(), testDir) {
				t.Errorf("first error: %v", err)
			}
			for what, err := range map[string]error{
				"Append": s.Append(creates(1, 1, 1)), "Sync": s.Sync(), "Err": s.Err(),
				"WriteSnapshot": s.WriteSnapshot(t.Context(), model(nil, 3).snapshot()), "Close": s.Close(),
			} {
				if !errors.Is(err, errBroken) {
					t.Errorf("%s after it: %v", what, err)
				}
			}
			if _, w := mustOpen(t, fs, testOptions()); w.zxid != 0 && w.zxid != 3 {
				t.Errorf("after a restart: 0x%x", w.zxid)
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	for capacity := int64(500); capacity < 30000; capacity += 333 {
		fs := vfs.NewMem()
		s := openFresh(t, fs, testOptions())
		fs.SetCapacity(capacity)
		var acked int64
		var err error
		for err == nil {
			if err = s.Append(creates(acked+1, acked+2, 900)); err == nil {
				err = s.Sync()
			}
			if err == nil {
				acked += 2
			}
		}
		if failed := (*FailedError)(nil); !errors.As(err, &failed) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room for %d bytes: %v", capacity, err)
		}
		s.Close()
		if _, w := mustOpen(t, fs.CrashClone(nil), testOptions()); w.zxid < acked {
			t.Fatalf("room for %d bytes: found 0x%x of 0x%x", capacity, w.zxid, acked)
		}
		// A snapshot that does not fit leaves nothing behind.
		s, _ = mustOpen(t, fs, testOptions())
		if err := s.WriteSnapshot(t.Context(), model(nil, acked).snapshot()); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("room for %d bytes: snapshot: %v", capacity, err)
		}
		names, _ := fs.ReadDir(testDir)
		if slices.ContainsFunc(names, isTempName) {
			t.Fatalf("room for %d bytes: left: %v", capacity, names)
		}
		mustClose(t, s)
	}
}

// A disk on which there is no room for a step ahead is not full.
func TestDiskWithLessRoomThanAStep(t *testing.T) {
	fs, o := vfs.NewMem(), testOptions()
	o.PreAllocBytes = 64 << 20
	s := openFresh(t, fs, o)
	fs.SetCapacity(1 << 20)
	mustAppend(t, s, creates(1, 100, 1000))
	mustClose(t, s)
	if _, w := mustOpen(t, fs.CrashClone(nil), o); w.zxid != 100 {
		t.Errorf("found 0x%x of 0x64", w.zxid)
	}
}

func TestAppendRefuses(t *testing.T) {
	s := openFresh(t, vfs.NewMem(), testOptions())
	defer mustClose(t, s)
	mustAppend(t, s, creates(1, 3, 10))
	large := createTxn(4, TxnBytesMax)
	largest := createTxn(4, 0)
	largest.Data = make([]byte, TxnBytesMax-len(largest.AppendTo(nil)))
	tests := []struct {
		name  string
		batch []Record
		want  error
	}{
		{"too large", []Record{{Txn: large}}, ErrTooLarge},
		{"gap", creates(5, 5, 1), ErrOrder},
		{"twice", creates(3, 3, 1), ErrOrder},
		{"gap within", append(creates(4, 4, 1), creates(6, 6, 1)...), ErrOrder},
		{"nothing", nil, nil},
		{"largest", []Record{{Txn: largest}}, nil},
		{"next epoch", creates(1<<32, 1<<32, 1), nil},
	}
	for _, test := range tests {
		if err := s.Append(test.batch); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
		if err := s.Sync(); err != nil {
			t.Errorf("%s: Sync: %v", test.name, err)
		}
	}
}

// TestLargeBatch appends more at once than may be unsynced, so that it is written in parts.
func TestLargeBatch(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	var unsynced, most int
	fs.SetFault(func(op vfs.Op, path string, _ int64) error {
		switch op {
		case vfs.OpWrite:
			unsynced++
		case vfs.OpDatasync:
			most = max(most, unsynced)
			unsynced = 0
		}
		return nil
	})
	mustAppend(t, s, creates(1, 30, 500_000))
	if most > 2 { // the header of the log, or one part
		t.Errorf("%d writes without a sync between them", most)
	}
	mustClose(t, s)
	if s, _ := mustOpen(t, fs, testOptions()); s.Recovery().Txns != 30 {
		t.Errorf("found %+v", s.Recovery())
	}
}

// TestRoll follows the names of the files through snapshots and restarts.
func TestRoll(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	wantFiles(t, fs, "snapshot.0")
	mustAppend(t, s, creates(1, 3, 10))
	wantFiles(t, fs, "snapshot.0", "log.1")
	if s.LogBytes() == 0 {
		t.Error("no bytes in the log")
	}
	if err := s.WriteSnapshot(t.Context(), model(nil, 3).snapshot()); err != nil {
		t.Fatal(err)
	}
	if s.LogBytes() != 0 {
		t.Error("bytes in the log after a snapshot")
	}
	wantFiles(t, fs, "snapshot.0", "log.1", "snapshot.3")
	mustAppend(t, s, creates(4, 26, 10))
	wantFiles(t, fs, "snapshot.0", "log.1", "snapshot.3", "log.4")
	appended := s.LogBytes()
	mustClose(t, s)
	s, w := mustOpen(t, fs, testOptions())
	if got := s.LogBytes(); got != appended || got == 0 {
		t.Errorf("%d bytes in the log after a restart, %d before", got, appended)
	}
	wantFiles(t, fs, "snapshot.0", "log.1", "snapshot.3", "log.4")
	mustAppend(t, s, creates(27, 27, 10))
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, creates(28, 28, 10))
	wantFiles(t, fs, "snapshot.0", "log.1", "snapshot.3", "log.4", "log.1b", "log.1c", "snapshot.1a")

	removed, err := s.Purge(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{testDir + "/snapshot.0"}; !slices.Equal(removed, want) { // log.1 reaches up to snapshot.3
		t.Errorf("Purge(2) removed %v, want %v", removed, want)
	}
	if _, err := s.Purge(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, fs, "log.4", "log.1b", "log.1c", "snapshot.1a")
	mustClose(t, s)
	if _, w := mustOpen(t, fs, testOptions()); !w.equal(model(nil, 28)) {
		t.Errorf("found %s", w.dump())
	}
}

// A log that is long enough is followed by another without a snapshot, and both are read.
func TestLogBytesMax(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions()
	o.LogBytesMax = 400
	s := openFresh(t, fs, o)
	mustAppend(t, s, creates(1, 1, 10))
	mustAppend(t, s, creates(2, 9, 10)) // passes the limit, and is not split
	wantFiles(t, fs, "snapshot.0", "log.1")
	mustAppend(t, s, creates(10, 10, 10))
	mustAppend(t, s, creates(11, 11, 10))
	wantFiles(t, fs, "snapshot.0", "log.1", "log.a")
	mustClose(t, s)
	if _, w := mustOpen(t, fs, o); !w.equal(model(nil, 11)) {
		t.Errorf("found %s", w.dump())
	}
}

// TestPurgeCountsWholeSnapshots has two newest snapshots that cannot be read.
func TestPurgeCountsWholeSnapshots(t *testing.T) {
	s3, s6 := snapshotBytes(t, 3), snapshotBytes(t, 6)
	log, _ := logBytes(1, 9, 10)
	fs := memWith(t, map[string][]byte{
		"snapshot.0": snapshotBytes(t, 0), "snapshot.3": s3,
		"snapshot.6": with(s6, len(s6)/2, s6[len(s6)/2]^1), "snapshot.7": s6[:50], "log.1": log,
	})
	s, _ := mustOpen(t, fs, testOptions())
	defer mustClose(t, s)
	if removed, err := s.Purge(t.Context(), 3); err != nil || removed != nil {
		t.Errorf("Purge(3) = %v, %v; there are only two whole ones", removed, err)
	}
	if removed, err := s.Purge(t.Context(), 1); err != nil || !slices.Equal(removed, []string{testDir + "/snapshot.0"}) {
		t.Errorf("Purge(1) = %v, %v", removed, err)
	}
}

// TestPurgeReadsOnce reads a snapshot of an earlier run, once, and neither the one that was loaded nor its own. It stops reading when
// its context ends.
func TestPurgeReadsOnce(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	w := model(nil, 0)
	for zxid := int64(1); zxid <= 9; zxid++ {
		w.Apply(createTxn(zxid, 700_000), nil)
		if zxid == 5 || zxid == 7 {
			if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
				t.Fatal(err)
			}
		}
	}
	mustClose(t, s)
	s, _ = mustOpen(t, fs, testOptions())
	defer mustClose(t, s)
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	errOver := errors.New("over")
	reads := map[string]int{}
	fs.SetFault(func(op vfs.Op, path string, _ int64) error {
		if op == vfs.OpRead {
			reads[filepath.Base(path)]++
			cancel(errOver)
		}
		return nil
	})
	purge := func(ctx context.Context) (removed []string, err error) {
		clear(reads)
		return s.Purge(ctx, 3)
	}
	if removed, err := purge(ctx); !errors.Is(err, errOver) || removed != nil {
		t.Errorf("a purge whose context ends: %v, %v", removed, err)
	}
	cut := reads["snapshot.5"]
	if removed, err := purge(t.Context()); err != nil || !slices.Equal(removed, []string{testDir + "/snapshot.0"}) {
		t.Errorf("a purge: %v, %v", removed, err)
	}
	if whole := reads["snapshot.5"]; len(reads) != 1 || cut == 0 || cut > whole/2 {
		t.Errorf("a purge reads %v, and where its context ends %d", reads, cut)
	}
	if removed, err := purge(t.Context()); err != nil || removed != nil || len(reads) > 0 {
		t.Errorf("another purge: %v, %v, and it reads %v", removed, err, reads)
	}
}

func TestSnapshotGivenUp(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	defer mustClose(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	errOver := errors.New("over")
	cancel(errOver)
	if err := s.WriteSnapshot(ctx, model(nil, 0).snapshot()); !errors.Is(err, errOver) {
		t.Errorf("cancelled: %v", err)
	}
	src := model(nil, 0).snapshot().(*twinSource)
	src.err = errors.New("source broke")
	if err := s.WriteSnapshot(t.Context(), src); !errors.Is(err, src.err) {
		t.Errorf("source broke: %v", err)
	}
	wantFiles(t, fs, "snapshot.0")
	mustAppend(t, s, creates(1, 1, 1))
}

// TestLargeSnapshot has fields that are larger than any buffer, and more than is left unsynced.
func TestLargeSnapshot(t *testing.T) {
	w := model(nil, 0)
	for zxid := int64(1); zxid <= 30; zxid++ {
		tx := createTxn(zxid, 700_000)
		if zxid == 30 {
			tx.Path = "/" + strings.Repeat("long", 80_000)
		}
		w.Apply(tx, nil)
	}
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, got := mustOpen(t, fs, testOptions())
	defer mustClose(t, s)
	if !got.equal(w) || len(got.wrong) > 0 {
		t.Errorf("read back differs; %v", got.wrong)
	}
}

// TestCheckReport looks at a directory of Apache ZooKeeper's with one bad bit.
func TestCheckReport(t *testing.T) {
	fs := loadGolden(t, "plain")
	log := readFile(t, fs, "log.1c")
	writeFile(t, fs, "log.1c", with(log, 16+12+31, log[16+12+31]^1))
	report, err := Check(fs, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, s := range report.Snapshots {
		said = append(said, fmt.Sprint(filepath.Base(s.Path), s.Nodes, s.Sessions, s.ACLs, s.Digest != nil, s.Err))
	}
	for _, l := range report.Logs {
		said = append(said, fmt.Sprint(filepath.Base(l.Path), l.First, l.Last, l.Txns, l.Gaps, l.Torn, l.Damage != nil))
	}
	want := []string{"snapshot.04 0 1 true <nil>", "snapshot.1b18 1 4 true <nil>", "log.11 27 27 0 false false", "log.1c0 0 0 0 false true"}
	if !slices.Equal(said, want) {
		t.Errorf("report: %q, want %q", said, want)
	}
	if damage := (*DamageError)(nil); !errors.As(report.Err, &damage) || damage.Offset != 16 {
		t.Errorf("Err: %v", report.Err)
	}
	if _, err := Check(vfs.NewMem(), testOptions()); err == nil {
		t.Error("a directory that is not there was checked")
	}
}

func TestAppendAllocates(t *testing.T) {
	s := openFresh(t, vfs.OS{}, Options{DataDir: t.TempDir(), SyncDisabled: true})
	defer mustClose(t, s)
	batch := creates(1, 16, 200)
	mustAppend(t, s, batch)
	allocs := testing.AllocsPerRun(100, func() {
		for i := range batch {
			batch[i].Txn.Zxid += int64(len(batch))
			batch[i].Digest = txn.Digest{Version: 2, Tree: 1}
		}
		if err := s.Append(batch); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 { // the name of the log, to see whether it is still there
		t.Errorf("a batch of %d allocates %v times", len(batch), allocs)
	}
}

// TestUpkeepBesideAppends writes snapshots and purges while transactions are appended.
func TestUpkeepBesideAppends(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	synced := make(chan int64, 1) // the newest zxid that may be in a snapshot
	done := make(chan error, 1)
	go func() {
		for zxid := range synced {
			err := s.WriteSnapshot(context.Background(), model(nil, zxid).snapshot())
			if err == nil {
				_, err = s.Purge(t.Context(), 2)
			}
			if err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for zxid := int64(1); zxid <= 300; zxid++ {
		mustAppend(t, s, creates(zxid, zxid, 10))
		select {
		case synced <- zxid:
		default:
		}
	}
	close(synced)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	s, w := mustOpen(t, fs, testOptions())
	defer mustClose(t, s)
	if !w.equal(model(nil, 300)) {
		t.Errorf("found %s", w.dump())
	}
}
