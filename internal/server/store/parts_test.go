package store

import (
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// copyParts makes a directory of parts in a file system of its own, and returns what a server would find there.
func copyParts(t *testing.T, fs vfs.FS, parts []Part) *Report {
	t.Helper()
	to := vfs.NewMem()
	if err := to.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		from, err := fs.Open(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, p.Bytes)
		if _, err := from.ReadAt(b, 0); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		from.Close()
		f, err := to.Create(filepath.Join(testDir, filepath.Base(p.Path)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	report, err := Check(to, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Parts of a directory in which a server writes, and writes snapshots, hold what was written before they were asked for.
func TestPartsOfALiveDirectory(t *testing.T) {
	fs, o := vfs.NewMem(), testOptions()
	o.PreAllocBytes = 4 << 20 // reading that takes its time
	s := openFresh(t, fs, o)
	mustAppend(t, s, creates(1, 10, 100))
	w := &twin{}
	w.Reset()
	w.EndSnapshot(0, nil)
	for _, r := range creates(1, 10, 100) {
		w.Apply(r.Txn, nil)
	}
	var last atomic.Int64
	last.Store(10)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for zxid := int64(11); ; zxid += 3 {
			select {
			case <-stop:
				return
			default:
			}
			batch := creates(zxid, zxid+2, 200)
			err := errors.Join(s.Append(batch), s.Sync())
			last.Store(zxid + 2)
			for _, r := range batch {
				w.Apply(r.Txn, nil)
			}
			if zxid%100 == 11 {
				err = errors.Join(err, s.WriteSnapshot(t.Context(), w.snapshot()))
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for range 12 {
		for goal := last.Load() + 60; last.Load() < goal; {
			select {
			case <-ended:
				t.Fatal("the writer has ended")
			default:
				runtime.Gosched()
			}
		}
		before := last.Load()
		parts, err := Parts(fs, o)
		if err != nil {
			t.Errorf("Parts: %v", err)
			break
		}
		after := last.Load() + 3
		if r := copyParts(t, fs, parts); r.Err != nil || r.Found.Zxid < before || r.Found.Zxid > after || len(r.Snapshots) != 1 {
			t.Errorf("the copy goes to %d, want %d to %d: %v", r.Found.Zxid, before, after, r.Err)
			break
		}
	}
	close(stop)
	<-ended
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A log that is damaged is not copied: a hole in it is not the end of what a server has written.
func TestPartsOfADamagedDirectory(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	mustAppend(t, s, creates(1, 100, 100))
	parts, err := Parts(fs, testOptions())
	if err != nil || len(parts) != 2 || parts[0].Log || !parts[1].Log {
		t.Fatalf("Parts = %+v, %v; want a snapshot and a log", parts, err)
	}
	f, err := fs.OpenWrite(parts[1].Path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{1}, parts[1].Bytes/2); err != nil {
		t.Fatal(err)
	}
	f.Close()
	_, err = Parts(fs, testOptions())
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || damage.Path != parts[1].Path {
		t.Errorf("Parts of a damaged log: %v", err)
	}
	empty := vfs.NewMem()
	if err := empty.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	if _, err := Parts(empty, testOptions()); err == nil || !strings.Contains(err.Error(), "no snapshot") {
		t.Errorf("Parts of an empty directory: %v", err)
	}
}

// Apache ZooKeeper writes a snapshot under its name. Until it is whole, an older one and the logs hold the same; unless it
// is of a transaction that they do not have.
func TestPartsBesideASnapshotThatIsWritten(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	mustAppend(t, s, creates(1, 20, 100))
	half := func(name string) {
		f, err := fs.Create(filepath.Join(testDir, name))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("ZKSN\x00\x00\x00\x02"), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	half("snapshot.14")
	parts, err := Parts(fs, testOptions())
	if err != nil || len(parts) != 2 || filepath.Base(parts[0].Path) != "snapshot.0" {
		t.Fatalf("Parts = %+v, %v; want the older snapshot and the log", parts, err)
	}
	if r := copyParts(t, fs, parts); r.Err != nil || r.Found.Zxid != 20 {
		t.Errorf("the copy goes to %d, want 20: %v", r.Found.Zxid, r.Err)
	}
	half("snapshot.15")
	_, err = Parts(fs, testOptions())
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || filepath.Base(damage.Path) != "snapshot.15" {
		t.Errorf("Parts beside a snapshot of more than the logs have: %v", err)
	}
}
