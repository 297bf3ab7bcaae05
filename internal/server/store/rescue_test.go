package store

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// Another program removes or replaces the log while it is written. Nothing is acknowledged any more, and what was
// acknowledged before is still found.
func TestALogThatIsRemovedOrReplaced(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(fs *vfs.Mem, log string) error
		want error
		says string
	}{
		{"removed", func(fs *vfs.Mem, log string) error { return fs.Remove(log) }, vfs.ErrRemoved, "was written again"},
		{"renamed", func(fs *vfs.Mem, log string) error { return fs.Rename(log, log+".old") }, vfs.ErrRemoved, "was written again"},
		{"replaced", func(fs *vfs.Mem, log string) error {
			f, err := fs.Create(log + ".new")
			if err == nil {
				err = errors.Join(f.Close(), fs.Rename(log+".new", log))
			}
			return err
		}, vfs.ErrReplaced, "rescued.log.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := openFresh(t, fs, testOptions())
			mustAppend(t, s, creates(1, 100, 5000))
			log := filepath.Join(testDir, logName(1))
			if err := c.harm(fs, log); err != nil {
				t.Fatal(err)
			}
			if err := s.Append(creates(101, 102, 10)); err != nil {
				t.Fatal(err)
			}
			s.log.checked = time.Time{} // some time has passed
			err := s.Sync()
			if failed := (*FailedError)(nil); !errors.As(err, &failed) || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("Sync: %v, want %v and %q", err, c.want, c.says)
			}
			if err := s.Append(creates(103, 104, 10)); err == nil {
				t.Error("an append after it was accepted")
			}
			s.Close()
			if c.want == vfs.ErrReplaced {
				rescued := filepath.Join(testDir, rescuedPrefix+logName(1))
				wantRescued(t, fs, rescued)
				if err := fs.Rename(rescued, log); err != nil { // as the error says
					t.Fatal(err)
				}
				if err := fs.SyncDir(testDir); err != nil {
					t.Fatal(err)
				}
			}
			if _, w := mustOpen(t, fs.CrashClone(nil), testOptions()); w.zxid != 102 {
				t.Errorf("found 0x%x after a restart, want 0x66", w.zxid)
			}
		})
	}
}

// wantRescued wants a directory refused because of a rescued log.
func wantRescued(t *testing.T, fs *vfs.Mem, path string) {
	t.Helper()
	_, err := Open(fs.KillClone(), testOptions(), &twin{})
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || damage.Path != path {
		t.Errorf("a start before the rescued log was moved: %v, want damage of %s", err, path)
	}
}

// Another program removes the log while nothing is written. It is noticed when the log ends, at the latest.
func TestALogThatIsRemovedAtRest(t *testing.T) {
	for name, end := range map[string]func(s *Store) error{
		"close": (*Store).Close,
		"roll": func(s *Store) error {
			s.roll.Store(true)
			return s.Append(creates(101, 101, 10))
		},
	} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			s := openFresh(t, fs, testOptions())
			mustAppend(t, s, creates(1, 100, 5000))
			if err := fs.Remove(filepath.Join(testDir, logName(1))); err != nil {
				t.Fatal(err)
			}
			if err := end(s); !errors.Is(err, vfs.ErrRemoved) || !strings.Contains(err.Error(), "was written again") {
				t.Errorf("%s: %v", name, err)
			}
			s.Close()
			if _, w := mustOpen(t, fs.CrashClone(nil), testOptions()); w.zxid != 100 {
				t.Errorf("found 0x%x after a restart, want 0x64", w.zxid)
			}
		})
	}
}

// Where the copy cannot be written either, the error says that something is lost, and so does the next start.
func TestALogThatIsRemovedFromAFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	s := openFresh(t, fs, testOptions())
	mustAppend(t, s, creates(1, 10, 5000))
	if err := s.Append(creates(11, 12, 10)); err != nil {
		t.Fatal(err)
	}
	if err := fs.Remove(filepath.Join(testDir, logName(1))); err != nil {
		t.Fatal(err)
	}
	fs.SetCapacity(1000)
	s.log.checked = time.Time{}
	if err := s.Sync(); !errors.Is(err, vfs.ErrRemoved) || !strings.Contains(err.Error(), "could not be saved") {
		t.Errorf("Sync: %v", err)
	}
	s.Close()
	wantRescued(t, fs, filepath.Join(testDir, rescuedPrefix+logName(1)+partSuffix))
}
