package vfs

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, m *Mem, path, content string, sync bool) File {
	t.Helper()
	f, err := m.Create(path)
	if err == nil {
		_, err = f.WriteAt([]byte(content), 0)
	}
	if err == nil && sync {
		err = f.Datasync()
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// content returns what a file holds; "-" if there is none.
func content(m *Mem, path string) string {
	f, err := m.Open(path)
	if err != nil {
		return "-"
	}
	size, _ := f.Size()
	b := make([]byte, size)
	f.ReadAt(b, 0)
	return string(b)
}

// TestCrashDropsWhatWasNotSynced keeps apart what a file holds and what it is called.
func TestCrashDropsWhatWasNotSynced(t *testing.T) {
	m := NewMem()
	put(t, m, "/synced", "new", true)
	f := put(t, m, "/half", "old", true)
	f.WriteAt([]byte("newer"), 0)
	put(t, m, "/content", "new", false)
	put(t, m, "/removed", "old", true)
	put(t, m, "/renamed", "old", true)
	if err := m.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "/name", "new", true)
	m.Remove("/removed")
	m.Rename("/renamed", "/other")

	crashed, killed := m.CrashClone(nil), m.KillClone()
	for path, want := range map[string][3]string{ // lost power, killed, killed and then lost power
		"/synced":  {"new", "new", "new"},
		"/half":    {"old", "newer", "old"},
		"/content": {"", "new", ""},
		"/removed": {"old", "-", "old"},
		"/renamed": {"old", "-", "old"},
		"/other":   {"-", "old", "-"},
		"/name":    {"-", "new", "-"},
	} {
		got := [3]string{content(crashed, path), content(killed, path), content(killed.CrashClone(nil), path)}
		if got != want {
			t.Errorf("%s holds %q, want %q", path, got, want)
		}
	}
}

// TestCrashTears wants every sector of an unsynced write either old or new, and both to occur;
// and a rename done whole or not at all.
func TestCrashTears(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", strings.Repeat("o", 8*sectorBytes), true)
	m.SyncDir("/")
	f.WriteAt([]byte(strings.Repeat("n", 6*sectorBytes)), sectorBytes)
	m.Rename("/f", "/g")
	var mixed, renamed, kept int
	for seed := range uint64(200) {
		crashed := m.CrashClone(rand.New(rand.NewPCG(seed, 0)))
		b := content(crashed, "/f")
		if b == "-" {
			renamed++
			b = content(crashed, "/g")
		} else {
			kept++
		}
		if len(b) != 8*sectorBytes {
			t.Fatalf("seed %d: %d bytes", seed, len(b))
		}
		old := 0
		for i := range 8 {
			switch sector := b[i*sectorBytes : (i+1)*sectorBytes]; sector {
			case strings.Repeat("o", sectorBytes):
				old++
			case strings.Repeat("n", sectorBytes):
			default:
				t.Fatalf("seed %d: sector %d is neither old nor new", seed, i)
			}
		}
		if old > 2 && old < 8 {
			mixed++
		}
	}
	if mixed == 0 || renamed == 0 || kept == 0 {
		t.Errorf("of 200 crashes, %d mixed, %d renamed, %d did not", mixed, renamed, kept)
	}
}

// TestFailedDatasyncForgets is the trap that a sync after a failed sync is.
func TestFailedDatasyncForgets(t *testing.T) {
	m := NewMem()
	f := put(t, m, "/f", "old", true)
	m.SyncDir("/")
	f.WriteAt([]byte("new"), 0)
	broken := errors.New("broken")
	m.SetFault(func(op Op, path string, nth int64) error {
		if op == OpDatasync && path == "/f" && nth == m.mu.ops {
			return broken
		}
		return nil
	})
	if err := f.Datasync(); !errors.Is(err, broken) || !strings.Contains(err.Error(), "datasync /f") {
		t.Fatalf("Datasync: %v", err)
	}
	m.SetFault(nil)
	if err := f.Datasync(); err != nil {
		t.Fatal(err)
	}
	if got := content(m, "/f") + " " + content(m.CrashClone(nil), "/f"); got != "new old" {
		t.Errorf("now and after a crash: %q", got)
	}
	f.WriteAt([]byte("new"), 0)
	f.Datasync()
	if got := content(m.CrashClone(nil), "/f"); got != "new" {
		t.Errorf("written again, after a crash: %q", got)
	}
}

func TestCapacity(t *testing.T) {
	m := NewMem()
	m.SetCapacity(10)
	put(t, m, "/a", "1234", true)
	f := put(t, m, "/b", "12", true)
	if n, err := f.WriteAt([]byte("abcdefgh"), 1); n != 5 || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteAt beyond the room: %d, %v", n, err)
	}
	if got := content(m, "/b"); got != "1abcde" {
		t.Errorf("content %q", got)
	}
	if err := f.Preallocate(7); err != nil || len(content(m, "/b")) != 6 {
		t.Errorf("Preallocate beyond the room: %v, and %d bytes", err, len(content(m, "/b")))
	}
	m.Remove("/a")
	if err := f.Preallocate(10); err != nil || len(content(m, "/b")) != 10 {
		t.Errorf("Preallocate after a file has gone: %v, and %d bytes", err, len(content(m, "/b")))
	}
}
