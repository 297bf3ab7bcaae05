package vfs

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// TestFS runs one suite over the real file system and the one in memory.
func TestFS(t *testing.T) {
	t.Run("OS", func(t *testing.T) { testFS(t, OS{}, t.TempDir()) })
	t.Run("Mem", func(t *testing.T) { testFS(t, NewMem(), "/") })
}

func testFS(t *testing.T, fsys FS, root string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(root, "a", "b")
	if _, err := fsys.ReadDir(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of nothing: %v", err)
	}
	must(fsys.MkdirAll(dir))
	must(fsys.MkdirAll(dir))
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	for what, err := range map[string]error{
		"Open": second(fsys.Open(one)), "OpenWrite": second(fsys.OpenWrite(one)),
		"Remove": fsys.Remove(one), "Rename": fsys.Rename(one, two),
		"Create": second(fsys.Create(filepath.Join(dir, "no", "one"))),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of nothing: %v", what, err)
		}
	}

	f, err := fsys.Create(one)
	must(err)
	_, err = f.WriteAt([]byte("there"), 3)
	must(err)
	wantContent(t, f, "\x00\x00\x00there")
	must(f.Preallocate(10))
	must(f.Preallocate(4)) // never shortens
	wantContent(t, f, "\x00\x00\x00there\x00\x00")
	must(f.Truncate(5))
	must(f.Truncate(7))
	wantContent(t, f, "\x00\x00\x00th\x00\x00")
	must(f.Datasync())
	if n, err := f.ReadAt(make([]byte, 4), 5); n != 2 || err == nil {
		t.Errorf("ReadAt across the end: %d, %v", n, err)
	}
	must(f.Close())
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("WriteAt after Close: %v", err)
	}

	f, err = fsys.Open(one)
	must(err)
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("a file that was opened for reading was written to")
	}
	must(f.Datasync())
	must(f.Close())

	must(fsys.Rename(one, two))
	f, err = fsys.OpenWrite(two)
	must(err)
	wantContent(t, f, "\x00\x00\x00th\x00\x00")
	must(f.Close())
	must(second(fsys.Create(one)))
	must(fsys.MkdirAll(filepath.Join(dir, "folder")))
	must(fsys.SyncDir(dir))
	wantNames(t, fsys, dir, "one", "two")
	must(fsys.Rename(two, one)) // in place of the other
	wantNames(t, fsys, dir, "one")
	must(fsys.Remove(one))
	wantNames(t, fsys, dir)

	lock, err := fsys.LockDir(dir)
	must(err)
	if _, err := fsys.LockDir(dir); !errors.Is(err, ErrLocked) {
		t.Errorf("second LockDir: %v", err)
	}
	must(lock.Close())
	lock, err = fsys.LockDir(dir)
	must(err)
	must(lock.Close())
}

// What is no file is not opened: a pipe would keep us waiting.
func TestOnlyFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	for what, open := range map[string]func(string) (File, error){"Open": OS{}.Open, "OpenWrite": OS{}.OpenWrite, "Create": OS{}.Create} {
		if _, err := open(dir); !errors.Is(err, errNotRegular) {
			t.Errorf("%s of a directory: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func wantContent(t *testing.T, f File, want string) {
	t.Helper()
	size, err := f.Size()
	got := make([]byte, len(want))
	if n, _ := f.ReadAt(got, 0); n != len(want) || err != nil || size != int64(len(want)) || !bytes.Equal(got, []byte(want)) {
		t.Errorf("content %q, size %d, %v; want %q", got, size, err, want)
	}
}

func wantNames(t *testing.T, fsys FS, dir string, want ...string) {
	t.Helper()
	if got, err := fsys.ReadDir(dir); err != nil || !slices.Equal(got, want) {
		t.Errorf("ReadDir(%s) = %v, %v; want %v", dir, got, err, want)
	}
}

// A file that another program removes or replaces is noticed through the open file.
func TestCheckName(t *testing.T) {
	for name, fsys := range map[string]FS{"OS": OS{}, "Mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			root := "/"
			if name == "OS" {
				root = t.TempDir()
			}
			path := filepath.Join(root, "log")
			create := func(path string) File {
				t.Helper()
				f, err := fsys.Create(path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			wants := func(what string, f File, want error) {
				t.Helper()
				if err := f.CheckName(); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
			}
			f := create(path)
			wants("a file that is there", f, nil)
			if err := fsys.Remove(path); err != nil {
				t.Fatal(err)
			}
			wants("removed", f, ErrRemoved)
			g := create(path)
			wants("replaced", f, ErrReplaced)
			wants("the other file", g, nil)
			create(path + ".tmp")
			if err := fsys.Rename(path+".tmp", path); err != nil {
				t.Fatal(err)
			}
			wants("renamed over", g, ErrReplaced)
			if err := fsys.Rename(path, path+".old"); err != nil {
				t.Fatal(err)
			}
			wants("renamed away", g, ErrRemoved)
		})
	}
}
