package store

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// fuzzMemoryMax is how much reading a file of some kilobytes may allocate in total.
const fuzzMemoryMax = 256 << 20

func addGoldens(f *testing.F, pattern string) {
	paths, err := filepath.Glob(filepath.Join("testdata", "*", pattern))
	if err != nil || len(paths) == 0 {
		f.Fatalf("no goldens %s: %v", pattern, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// checkMemory runs read and fails if it allocates out of proportion.
func checkMemory(t *testing.T, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > fuzzMemoryMax {
		t.Errorf("allocated %d bytes", n)
	}
}

// FuzzReadLog opens a directory whose only log is anything at all: it is either refused as damaged,
// or opened, and then opens again.
func FuzzReadLog(f *testing.F) {
	addGoldens(f, "log.*")
	log, _ := logBytes(1, 3, 600)
	f.Add(log)
	snapshot := snapshotBytes(f, 0)
	f.Fuzz(func(t *testing.T, log []byte) {
		fs := memWith(t, map[string][]byte{"snapshot.0": snapshot, "log.1": log})
		checkMemory(t, func() {
			s, err := Open(fs, testOptions(), discard{})
			if damage := (*DamageError)(nil); err != nil && !errors.As(err, &damage) {
				t.Fatalf("Open: %v, want damage", err)
			} else if err != nil {
				return
			}
			found := s.Recovery()
			mustClose(t, s)
			s, err = Open(fs, testOptions(), discard{})
			if err != nil {
				t.Fatalf("second Open: %v", err)
			}
			if again := s.Recovery(); again.Zxid != found.Zxid || again.CutBytes != 0 {
				t.Errorf("found %+v, then %+v", found, again)
			}
			mustClose(t, s)
		})
	})
}

// FuzzReadSnapshot reads anything at all as a snapshot, plain and compressed. What can be read comes
// back the same after it was written again.
func FuzzReadSnapshot(f *testing.F) {
	addGoldens(f, "snapshot.*")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, name := range []string{"snapshot.0", "snapshot.0.gz"} {
			fs := memWith(t, map[string][]byte{name: b})
			checkMemory(t, func() {
				var in recorder
				s, err := Open(fs, testOptions(), &in)
				if damage := (*DamageError)(nil); err != nil && !errors.As(err, &damage) {
					t.Fatalf("Open: %v, want damage", err)
				} else if err != nil {
					return
				}
				nodes := len(in.nodes)
				if err := s.WriteSnapshot(t.Context(), &in); err != nil {
					t.Fatal(err)
				}
				mustClose(t, s)
				var again recorder
				if s, err = Open(fs, testOptions(), &again); err != nil || len(again.nodes) != nodes {
					t.Fatalf("read again: %d nodes of %d, %v", len(again.nodes), nodes, err)
				}
				mustClose(t, s)
			})
		}
	})
}
