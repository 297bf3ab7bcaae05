package ensemble

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	publicMode fs.FileMode = 0o644
	secretMode fs.FileMode = 0o600
	folderMode fs.FileMode = 0o755
)

// A file is to be written.
type file struct {
	path string
	mode fs.FileMode
	data []byte
	once string // if this path exists, the file has been used up, and is not written again
}

// writeAll writes files below a directory, each of them whole or not at all. It writes nothing if one of them exists with other
// content, or if the directory has something else in it.
func writeAll(out string, files []file) (written []string, err error) {
	var missing []file
	begun := false // an earlier run has written here
	for _, f := range files {
		old, err := os.ReadFile(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if f.once != "" {
				if _, err := os.Lstat(f.once); err == nil {
					continue
				}
			}
			missing = append(missing, f)
		case err != nil:
			return nil, err
		case !bytes.Equal(old, f.data):
			return nil, fmt.Errorf("%s exists and has other content (nothing was written; remove it, or name another directory)", f.path)
		default:
			begun = true
		}
	}
	if err := onlyOurs(out, files, begun); err != nil {
		return nil, err
	}
	for _, f := range missing {
		if err := writeFile(f); err != nil {
			return written, err
		}
		written = append(written, f.path)
	}
	return written, nil
}

// onlyOurs refuses a directory with other files than those that are to be written. What servers have made in data directories of
// an earlier run is left alone.
func onlyOurs(out string, files []file, begun bool) error {
	ours := map[string]bool{out: true}
	for _, f := range files {
		for path := f.path; path != out && strings.HasPrefix(path, out); path = filepath.Dir(path) {
			ours[path] = true
		}
	}
	return filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == out:
			return filepath.SkipDir
		case err != nil:
			return err
		case ours[path], strings.HasSuffix(path, tempSuffix):
			return nil
		case begun:
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return fmt.Errorf("%s is not empty: it has %s (nothing was written; name a new directory)", out, strings.TrimPrefix(path, out+string(filepath.Separator)))
	})
}

// tempSuffix ends the name of a file that is being written.
const tempSuffix = ".lk-new"

// writeFile writes a file under another name, syncs it and renames it.
func writeFile(f file) (err error) {
	if err := os.MkdirAll(filepath.Dir(f.path), folderMode); err != nil {
		return err
	}
	temp := f.path + tempSuffix
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	w, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	_, err = w.Write(f.data)
	if err = errors.Join(err, w.Chmod(f.mode), w.Sync(), w.Close()); err != nil { // whatever the umask: another user runs ZooKeeper
		return err
	}
	if err := os.Rename(temp, f.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(f.path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// names returns the sorted base names in a directory; none if it does not exist.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	slices.Sort(all)
	return all, err
}
