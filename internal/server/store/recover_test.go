package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/server/txn"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
	"github.com/lockkeeper/lockkeeper/internal/wire"
	"github.com/lockkeeper/lockkeeper/zk"
)

// createTxn makes a transaction that creates a znode named after its zxid, with so many bytes that are not zero.
func createTxn(zxid int64, size int) *txn.Txn {
	return &txn.Txn{Session: 1, Cxid: int32(zxid), Zxid: zxid, Time: 1000 + zxid, Change: txn.Change{
		Type: wire.OpCreate, Path: fmt.Sprintf("/n%x", zxid), Data: bytes.Repeat([]byte{0xd5}, size),
		ACL: zk.OpenACL(), ParentCversion: -1,
	}}
}

// logBytes builds a log of transactions first to last, and returns where each record begins and the last ends.
func logBytes(first, last int64, size int) (b []byte, at []int) {
	b = bytes.Clone(logHeader)
	for zxid := first; zxid <= last; zxid++ {
		at = append(at, len(b))
		b = appendRecord(b, &Record{Txn: createTxn(zxid, size)})
	}
	return b, append(at, len(b))
}

// snapshotBytes builds the snapshot of a fresh tree to which transactions 1 to zxid were applied.
func snapshotBytes(t testing.TB, zxid int64) []byte {
	t.Helper()
	w := &twin{}
	w.Reset()
	w.EndSnapshot(0, nil)
	for z := int64(1); z <= zxid; z++ {
		w.Apply(createTxn(z, 10), nil)
	}
	fs := memWith(t, nil)
	s, _ := mustOpen(t, fs, testOptions())
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	return readFile(t, fs, snapshotName(zxid))
}

func pad(b []byte) []byte { return append(bytes.Clone(b), make([]byte, 4096)...) }

// with returns a copy of b in which the bytes at an offset are replaced.
func with(b []byte, at int, replacement ...byte) []byte {
	b = bytes.Clone(b)
	copy(b[at:], replacement)
	return b
}

func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestF44_DamagedLogs goes through the states of a log that a crash or a bad disk can leave. Each log
// holds transactions 1 to 3, of 600 bytes, unless the case says otherwise.
func TestF44_DamagedLogs(t *testing.T) {
	log, at := logBytes(1, 3, 600)
	next, _ := logBytes(4, 5, 600)
	restarted, _ := logBytes(3, 4, 600)
	other, _ := logBytes(3, 4, 500)
	epoch, _ := logBytes(1<<32+1, 1<<32+2, 10)
	gap, _ := logBytes(5, 6, 600)
	refused := appendRecord(nil, &Record{Txn: &txn.Txn{Session: 1, Cxid: 9, Zxid: 3, Change: txn.Change{Type: wire.OpError, Err: zk.ErrMarshalling}}})
	bigLog, bigAt := logBytes(1, 20, 600)
	last, end := at[2], at[3]
	hole := func(b []byte, sector int) []byte { return with(b, sector*sectorBytes, make([]byte, sectorBytes)...) }
	type files map[string][]byte
	tests := []struct {
		name  string
		files files
		zxid  int64 // found
		cut   int64 // bytes
		where int64 // −1: no damage; else the offset at which the log named bad is damaged
		bad   string
	}{
		{"whole, without padding", files{"log.1": log}, 3, 0, -1, ""},
		{"whole, with padding", files{"log.1": pad(log)}, 3, 0, -1, ""},
		{"header only", files{"log.1": log[:16]}, 0, 0, -1, ""},
		{"header and padding", files{"log.1": pad(log[:16])}, 0, 0, -1, ""},

		{"newest cut in the checksum", files{"log.1": log[:last+7]}, 2, 7, -1, ""},
		{"newest cut in the payload", files{"log.1": log[:last+100]}, 2, 100, -1, ""},
		{"newest cut before the end mark", files{"log.1": log[:end-1]}, 2, int64(end - 1 - last), -1, ""},
		{"newest cut in the payload, padded", files{"log.1": pad(log[:last+100])}, 2, 100, -1, ""},
		{"newest cut before the end mark, padded", files{"log.1": pad(log[:end-1])}, 2, int64(end - 1 - last), -1, ""},
		{"newest cut in the length", files{"log.1": pad(log[:last+10])}, 2, 8, -1, ""}, // the first bytes of the length are zeros
		{"first record torn", files{"log.1": pad(log[:16+100])}, 0, 100, -1, ""},
		{"sector left out of the last record", files{"log.1": pad(hole(log, 3))}, 2, int64(end - last), -1, ""},
		{"sector left out of a batch, whole records behind", files{"log.1": pad(hole(log, 1))}, 0, int64(end - at[0]), -1, ""},

		{"empty file", files{"log.1": log, "log.4": {}}, 3, 0, -1, ""},
		{"short header", files{"log.1": log, "log.4": log[:9]}, 3, 8, -1, ""},
		{"nothing but zeros", files{"log.1": log, "log.4": make([]byte, 4096)}, 3, 0, -1, ""},
		{"wrong magic", files{"log.1": log, "log.4": with(next, 0, 'X')}, 0, 0, 0, "log.4"},
		{"wrong version", files{"log.1": log, "log.4": with(next, 7, 3)}, 0, 0, 0, "log.4"},

		{"bit flipped in the last record", files{"log.1": pad(with(log, last+100, 0))}, 0, 0, int64(last), "log.1"},
		{"bit flipped in the middle", files{"log.1": pad(with(log, at[1]+100, 0))}, 0, 0, int64(at[1]), "log.1"},
		{"end mark wrong in the middle", files{"log.1": pad(with(log, last-1, 'X'))}, 0, 0, int64(at[1]), "log.1"},
		{"end mark zero in the middle", files{"log.1": pad(with(log, last-1, 0))}, 0, 0, int64(at[1]), "log.1"},
		{"end mark wrong at the end", files{"log.1": pad(with(log, end-1, 'X'))}, 0, 0, int64(last), "log.1"},
		{"length zero in the middle", files{"log.1": pad(with(log, at[1]+8, 0, 0, 0, 0))}, 0, 0, int64(at[1]), "log.1"},
		{"length absurd", files{"log.1": pad(with(log, last+8, 0x70, 0, 0, 0))}, 0, 0, int64(last), "log.1"},
		{"length negative", files{"log.1": pad(with(log, last+8, 0xff, 0xff, 0xff, 0xff))}, 0, 0, int64(last), "log.1"},
		{"length too long at the end", files{"log.1": pad(with(log, last+10, 0x42))}, 0, 0, int64(last), "log.1"},
		{"length beyond the file at the end", files{"log.1": with(log, last+9, 0x10)}, 0, 0, int64(last), "log.1"},
		{"length beyond the file, records behind", files{"log.1": with(log, at[1]+8, 0, 0x10)}, 0, 0, int64(at[1]), "log.1"},
		{"transactions once more", files{"log.1": joined(log, log[at[1]:], next[16:])}, 5, 0, -1, ""},
		{"transactions once more, at the end", files{"log.1": joined(log, log[at[1]:])}, 3, 0, -1, ""},
		{"transactions once more, the last one torn", files{"log.1": joined(log, log[at[1]:last+100])}, 3, 100, -1, ""},
		{"a refusal with the zxid before", files{"log.1": joined(log, refused, next[16:])}, 5, 0, -1, ""}, // ZooKeeper 3.9, of a request cut short
		{"another transaction of the same zxid", files{"log.1": joined(log, other[16:])}, 0, 0, int64(end), "log.1"},

		{"torn, next takes up", files{"log.1": log[:last+100], "log.3": restarted}, 4, 0, -1, ""},
		{"torn, next is empty and takes up", files{"log.1": log[:last+100], "log.3": {}}, 2, 0, -1, ""},
		{"torn, next opens an epoch", files{"log.1": log[:last+100], "log.100000001": epoch}, 1<<32 + 2, 0, -1, ""},
		{"torn, next does not take up", files{"log.1": log[:last+100], "log.4": next}, 0, 0, int64(last), "log.1"},
		{"bit flipped, next takes up", files{"log.1": pad(with(log, last+100, 0)), "log.4": next}, 0, 0, int64(last), "log.1"},
		{"next continues", files{"log.1": log, "log.4": next}, 5, 0, -1, ""},
		{"empty in the middle", files{"log.1": log, "log.4": {}, "log.5": gap}, 0, 0, 0, "log.4"},
		{"a log is missing", files{"log.1": log, "log.5": gap}, 0, 0, 16, "log.5"},
		{"the first log is missing", files{"log.4": next}, 0, 0, 16, "log.4"},
		{"epoch changes", files{"log.1": log, "log.100000001": epoch}, 1<<32 + 2, 0, -1, ""},
		{"zxids missing within a log", files{"log.1": joined(bigLog[:bigAt[3]], bigLog[bigAt[5]:])}, 20, 0, -1, ""},
		{"zxids missing at the beginning", files{"log.1": joined(bigLog[:16], bigLog[bigAt[2]:])}, 0, 0, 16, "log.1"},
		{"the same transactions twice", files{"log.1": log, "log.3": restarted}, 4, 0, -1, ""},
		{"two histories", files{"log.1": log, "log.3": other}, 0, 0, 16, "log.3"},
		{"foreign files", files{"log.1": log, "log.9.bak": gap, "log.xyz": gap, "snapshot.3.tmp": gap, "log": gap}, 3, 0, -1, ""},
	}
	snapshot := snapshotBytes(t, 0)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fs := memWith(t, test.files)
			writeFile(t, fs, "snapshot.0", snapshot)
			fs.SyncDir(testDir)
			report, err := Check(fs, testOptions())
			if err != nil {
				t.Fatalf("Check: %v", err)
			}
			var said strings.Builder
			o := testOptions()
			o.Logger = slog.New(slog.NewTextHandler(&said, nil))
			s, err := Open(fs, o, &twin{})
			if (err == nil) != (report.Err == nil) || err != nil && err.Error() != report.Err.Error() {
				t.Errorf("Check says %v, Open %v", report.Err, err)
			}
			if test.where >= 0 {
				damage := (*DamageError)(nil)
				if !errors.As(err, &damage) {
					t.Fatalf("Open: %v, want damage", err)
				}
				if damage.Path != testDir+"/"+test.bad || damage.Offset != test.where || damage.Advice == "" {
					t.Errorf("Open: %v, want damage of %s at %d", err, test.bad, test.where)
				}
				for name, want := range test.files {
					if !bytes.Equal(readFile(t, fs, name), want) {
						t.Errorf("%s was changed", name)
					}
				}
				return
			}
			if err != nil {
				t.Fatalf("Open: %v", err)
			}
			got := s.Recovery()
			if got.Zxid != test.zxid || got.CutBytes != test.cut {
				t.Errorf("found zxid 0x%x and cut %d bytes, want 0x%x and %d", got.Zxid, got.CutBytes, test.zxid, test.cut)
			}
			if want := fmt.Sprintf("bytes=%d", test.cut); test.cut > 0 && !strings.Contains(said.String(), want) {
				t.Errorf("log says %q, want it to say %s", said.String(), want)
			}
			if got != report.Found {
				t.Errorf("Check found %+v, Open %+v", report.Found, got)
			}
			if report, err := Check(fs, o); err != nil || report.Err != nil || test.cut > 0 && report.Found.CutBytes != 0 {
				t.Errorf("Check after Open: %v, %+v", err, report)
			} else if n := len(report.Logs); n > 0 && report.Logs[n-1].Bytes < fileHeaderBytes {
				t.Errorf("%s has no header: ZooKeeper would not start", report.Logs[n-1].Path)
			}
			// Life goes on, and the next start finds nothing amiss.
			if err := s.Append([]Record{{Txn: createTxn(test.zxid+1, 5)}}); err != nil {
				t.Fatal(err)
			}
			mustClose(t, s)
			s, _ = mustOpen(t, fs, testOptions())
			if got := s.Recovery(); got.Zxid != test.zxid+1 || got.CutBytes != 0 {
				t.Errorf("after an append and a restart, found zxid 0x%x and cut %d bytes", got.Zxid, got.CutBytes)
			}
			mustClose(t, s)
		})
	}
}

// TestTornBatch tears the last batch of a log in every way that a crash can, sector by sector, and
// wants it cut; and flips single bits in a log that is whole, and wants that refused.
func TestTornBatch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(44, 1))
	for round := range 2000 {
		size := 1 + rnd.IntN(1500)
		log, at := logBytes(1, 12, size)
		start := at[6] // of the batch
		torn := with(pad(log), start, make([]byte, len(log)-start)...)
		for sector := start / sectorBytes; sector*sectorBytes < len(log); sector++ {
			if rnd.IntN(2) == 0 {
				from, to := max(sector*sectorBytes, start), min((sector+1)*sectorBytes, len(log))
				copy(torn[from:to], log[from:to])
			}
		}
		files := map[string][]byte{"snapshot.0": snapshotBytes(t, 0), "log.1": torn}
		s, err := Open(memWith(t, files), testOptions(), &twin{})
		if err != nil {
			t.Fatalf("round %d, records of %d bytes: torn batch: %v", round, size, err)
		}
		if got := s.Recovery().Zxid; got < 6 {
			t.Fatalf("round %d, records of %d bytes: found only 0x%x", round, size, got)
		}
		mustClose(t, s)

		flip := at[0] + rnd.IntN(len(log)-at[0])
		if round%2 == 0 { // where it is the easiest to take for a crash
			flip = at[11] + rnd.IntN(recordHeaderBytes)
		}
		rotten := pad(log)
		rotten[flip] ^= 1 << rnd.IntN(8)
		files["log.1"] = rotten
		damage := (*DamageError)(nil)
		if _, err := Open(memWith(t, files), testOptions(), &twin{}); !errors.As(err, &damage) {
			t.Fatalf("round %d, records of %d bytes: bit flipped at %d: %v, want damage", round, size, flip, err)
		}
	}
}

func TestSnapshotFallback(t *testing.T) {
	log, at := logBytes(1, 9, 10)
	later, _ := logBytes(6, 9, 10)
	short, _ := logBytes(1, 4, 10)
	s0, s5 := snapshotBytes(t, 0), snapshotBytes(t, 5)
	gap := joined(log[:at[3]], log[at[5]:]) // 1 to 3, and 6 to 9
	flipped := with(s5, len(s5)/2, s5[len(s5)/2]^1)
	type files map[string][]byte
	tests := []struct {
		name  string
		files files
		want  Recovery
		bad   string // path of the damage; "" is none
	}{
		{"newest", files{"snapshot.0": s0, "snapshot.5": s5, "log.1": log}, Recovery{SnapshotZxid: 5, Zxid: 9, Txns: 4}, ""},
		{"newest cut short, logs reach back", files{"snapshot.0": s0, "snapshot.5": s5[:90], "log.1": log}, Recovery{Zxid: 9, Txns: 9}, ""},
		{"newest empty, logs reach back", files{"snapshot.0": s0, "snapshot.5": {}, "log.1": log}, Recovery{Zxid: 9, Txns: 9}, ""},
		{"bit flipped, logs reach back", files{"snapshot.0": s0, "snapshot.5": flipped, "log.1": log}, Recovery{Zxid: 9, Txns: 9}, ""},
		{"snappy, logs reach back", files{"snapshot.0": s0, "snapshot.5.snappy": s5, "log.1": log}, Recovery{Zxid: 9, Txns: 9}, ""},
		{"newest is where the log has a gap", files{"snapshot.0": s0, "snapshot.5": s5, "log.1": gap}, Recovery{SnapshotZxid: 5, Zxid: 9, Txns: 4}, ""},
		{"bit flipped, the log has a gap instead", files{"snapshot.0": s0, "snapshot.5": flipped, "log.1": gap}, Recovery{}, "snapshot.5"},
		{"bit flipped, logs end before it", files{"snapshot.0": s0, "snapshot.5": flipped, "log.1": short}, Recovery{}, "snapshot.5"},
		{"bit flipped, logs begin behind it", files{"snapshot.0": s0, "snapshot.5": flipped, "log.6": later}, Recovery{}, "log.6"},
		{"none whole", files{"snapshot.0": s0[:40], "snapshot.5": flipped, "log.1": log}, Recovery{}, "snapshot.5"},
		{"no snapshot", files{"log.1": log}, Recovery{}, "log.1"},
		{"logs older than the snapshot only", files{"snapshot.5": s5, "log.1": short}, Recovery{SnapshotZxid: 5, Zxid: 5}, ""},
		{"name of a snapshot in progress", files{"snapshot.0": s0, "snapshot-5.tmp": s5[:90], "log.1": log}, Recovery{Zxid: 9, Txns: 9}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			fs := memWith(t, test.files)
			w := &twin{}
			s, err := Open(fs, testOptions(), w)
			if test.bad != "" {
				if damage := (*DamageError)(nil); !errors.As(err, &damage) || damage.Path != testDir+"/"+test.bad {
					t.Errorf("Open: %v, want damage of %s", err, test.bad)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := s.Recovery()
			got.Snapshot = ""
			if got != test.want {
				t.Errorf("Recovery() = %+v, want %+v", got, test.want)
			}
			want := model(nil, test.want.Zxid)
			if w.dump() != want.dump() {
				t.Errorf("loaded:\n%swant:\n%s", w.dump(), want.dump())
			}
			mustClose(t, s)
			names, _ := fs.ReadDir(testDir)
			for _, name := range names {
				if isTempName(name) {
					t.Errorf("%s was left", name)
				}
			}
		})
	}
}

// A snapshot that need not be damaged is not to be deleted.
func TestSnapshotInSnappy(t *testing.T) {
	s5 := snapshotBytes(t, 5)
	short, _ := logBytes(1, 4, 10)
	for _, files := range []map[string][]byte{
		{"snapshot.5.snappy": s5}, {"snapshot.0": snapshotBytes(t, 0), "snapshot.5.snappy": s5, "log.1": short},
	} {
		_, err := Open(memWith(t, files), testOptions(), &twin{})
		if err == nil || !strings.Contains(err.Error(), "without snapshot.compression.method") || strings.Contains(err.Error(), "delete") {
			t.Errorf("Open: %v", err)
		}
	}
}

// A directory of logs that is not mounted is spoken of.
func TestSnapshotWithoutLogs(t *testing.T) {
	for zxid, warned := range map[int64]bool{0: false, 5: true} {
		var said strings.Builder
		o := testOptions()
		o.LogDir = "/logs"
		o.Logger = slog.New(slog.NewTextHandler(&said, nil))
		s, _ := mustOpen(t, memWith(t, map[string][]byte{snapshotName(zxid): snapshotBytes(t, zxid)}), o)
		mustClose(t, s)
		if strings.Contains(said.String(), "dataLogDir") != warned {
			t.Errorf("snapshot of 0x%x alone: %q", zxid, said.String())
		}
	}
}

// model returns the state after transactions 1 to zxid: those given, or creates of ten bytes.
func model(txns []*txn.Txn, zxid int64) *twin {
	w := &twin{}
	w.Reset()
	w.EndSnapshot(0, nil)
	for z := int64(1); z <= zxid; z++ {
		t := createTxn(z, 10)
		if txns != nil {
			t = txns[z-1]
		}
		w.Apply(t, nil)
	}
	return w
}

func TestTrustEmpty(t *testing.T) {
	log, _ := logBytes(1, 9, 10)
	fs := memWith(t, map[string][]byte{"log.1": log})
	o := testOptions()
	o.TrustEmpty = true
	s, w := mustOpen(t, fs, o)
	if got, want := s.Recovery(), (Recovery{Zxid: 9, Txns: 9}); got != want {
		t.Errorf("Recovery() = %+v, want %+v", got, want)
	}
	if err := s.Append([]Record{{Txn: createTxn(10, 1)}}); !errors.Is(err, ErrNoSnapshot) {
		t.Errorf("Append before the first snapshot: %v", err)
	}
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]Record{{Txn: createTxn(10, 1)}}); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
}

func TestSeparateDirectories(t *testing.T) {
	fs := vfs.NewMem()
	o := Options{DataDir: "/data", LogDir: "/logs", PreAllocBytes: 4096}
	s, w := mustOpen(t, fs, o)
	if !s.Recovery().Fresh {
		t.Errorf("Recovery() = %+v, want fresh", s.Recovery())
	}
	if err := s.WriteSnapshot(t.Context(), w.snapshot()); err != nil {
		t.Fatal(err)
	}
	if err := s.Append([]Record{{Txn: createTxn(1, 1)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(fs, Options{DataDir: "/other", LogDir: "/logs"}, &twin{}); !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second server: %v", err)
	}
	mustClose(t, s)
	for _, dir := range []string{o.DataDir, o.LogDir} {
		restore, err := fs.LockDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(fs, o, &twin{}); !errors.Is(err, vfs.ErrLocked) {
			t.Errorf("during a restore of %s: %v", dir, err)
		}
		restore.Close()
	}
	for path, want := range map[string]string{"/data/version-2": "snapshot.0", "/logs/version-2": "log.1"} {
		if names, _ := fs.ReadDir(path); len(names) != 1 || names[0] != want {
			t.Errorf("%s holds %v, want %s", path, names, want)
		}
	}
	o.DataDir, o.LogDir = "/logs", "/data"
	if _, err := Open(fs, o, &twin{}); err == nil || !strings.Contains(err.Error(), "wrong directory") {
		t.Errorf("directories swapped: %v", err)
	}
	o.DataDir, o.LogDir = "/logs", ""
	if _, err := Open(fs, o, &twin{}); err == nil || !strings.Contains(err.Error(), "no snapshot") {
		t.Errorf("snapshots left out: %v", err)
	}
}

// TestOpenMakesDurable opens what ZooKeeper has left in the system's memory only: it syncs neither
// its snapshots nor the names of its files, and with forceSync=no not even its logs. Behind the first snapshot both logs are replayed.
func TestOpenMakesDurable(t *testing.T) {
	for _, c := range []struct{ snapshot, logs string }{
		{"snapshot.1b", ""}, {"snapshot.1b", "/log"}, {"snapshot.0", ""}, {"snapshot.0", "/log"},
	} {
		golden := loadGolden(t, "plain")
		fs := vfs.NewMem()
		o := Options{DataDir: "/data", LogDir: c.logs, PreAllocBytes: 4096}
		snapshotDir, logDir := o.dirs()
		for name, dir := range map[string]string{
			"snapshot.0": snapshotDir, c.snapshot: snapshotDir, "log.1": logDir, "log.1c": logDir,
		} {
			err := fs.MkdirAll(dir)
			var f vfs.File
			if err == nil {
				f, err = fs.Create(dir + "/" + name)
			}
			if err == nil {
				_, err = f.WriteAt(readFile(t, golden, name), 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		s, before := mustOpen(t, fs, o)
		after, w := mustOpen(t, fs.CrashClone(nil), o)
		if !w.equal(before) || w.zxid != 0x22 {
			t.Errorf("%+v: shown\n%safter a power failure\n%s", c, before.dump(), w.dump())
		}
		mustClose(t, s)
		mustClose(t, after)
	}
}
