package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// restoringName is the folder in which files are gathered before they get their names.
const restoringName = "lockkeeper.restoring"

// A target is one of the directories that a restore writes to.
type target struct {
	dir     string
	prefix  string // of the files that belong there; empty: all
	existed bool
	lock    io.Closer
}

// Restore copies a backup into a data directory, and the logs into logDir unless that is empty. The directories may
// exist, without data. An error leaves them as they were, unless it says otherwise.
func Restore(ctx context.Context, from, dir, logDir string) (*Manifest, error) {
	m, err := readManifest(from)
	if err != nil {
		return nil, err
	}
	targets := []target{{dir: dir}}
	if logDir != "" && filepath.Clean(logDir) != filepath.Clean(dir) {
		targets = []target{{dir: logDir, prefix: "log."}, {dir: dir, prefix: "snapshot."}}
	}
	for i := range targets {
		other := targets[len(targets)-1-i].dir
		if err = targets[i].take(other); err != nil {
			targets = targets[:i]
			break
		}
		defer targets[i].lock.Close()
	}
	if err == nil {
		err = m.gather(ctx, from, targets)
	}
	if err != nil {
		for _, t := range targets {
			err = errors.Join(err, t.clear())
		}
		return nil, err
	}
	// Logs come first: a server refuses them without a snapshot, and would take a snapshot without its logs.
	for _, t := range targets {
		if err := t.putInPlace(m.has(secretName)); err != nil {
			return nil, fmt.Errorf("%w (the restore is not finished: delete %s and %s in %s, and restore again)", err, versionDir, restoringName, t.dir)
		}
	}
	return m, nil
}

func (m *Manifest) has(path string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == path })
}

// take makes a directory if it is missing, keeps servers and other restores out of it, and refuses one with data, besides other.
func (t *target) take(other string) error {
	_, err := os.Stat(t.dir)
	t.existed = err == nil
	if err := os.MkdirAll(t.dir, dirPerm); err != nil {
		return err
	}
	t.lock, err = vfs.OS{}.LockDir(t.dir)
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("%s: a server or another restore is at work there", t.dir)
	}
	if err != nil {
		return err
	}
	if err := unused(t.dir, other); err != nil {
		t.lock.Close()
		return err
	}
	return nil
}

// unused refuses a directory with data. What other is, or is below, is none: other is looked at by itself.
func unused(dir, other string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var data []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch e.Name() {
		case "myid", "initialize", "lost+found": // what belongs to the machine
		case versionDir:
			away, err := elsewhere(path)
			if err != nil {
				return err
			}
			if away {
				return fmt.Errorf("%s is a symbolic link or a mount point, and is to be replaced: restore into another directory, and move the files", path)
			}
			inside, err := os.ReadDir(path)
			if err != nil {
				return err
			}
			if len(inside) > 0 {
				data = append(data, path)
			}
		case restoringName:
			return fmt.Errorf("%s: a restore was cut off there: delete %s first", dir, path)
		default:
			if !leadsTo(path, other) {
				data = append(data, path)
			}
		}
	}
	if len(data) > 0 {
		return fmt.Errorf("%s holds data: move %s away first", dir, strings.Join(data, ", "))
	}
	return nil
}

// elsewhere reports whether a directory is a symbolic link or the mount of another disk. What replaces the one is on another disk, and the
// other cannot be replaced.
func elsewhere(path string) (bool, error) {
	here, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	above, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	return here.Mode()&fs.ModeSymlink != 0 || here.Sys().(*syscall.Stat_t).Dev != above.Sys().(*syscall.Stat_t).Dev, nil
}

// leadsTo reports whether path, maybe through links, is other or a directory above it.
func leadsTo(path, other string) bool {
	here, err := os.Stat(path)
	if err != nil {
		return false
	}
	for {
		at, err := os.Stat(other)
		if err == nil && os.SameFile(here, at) {
			return true
		}
		above := filepath.Dir(other)
		if above == other {
			return false
		}
		other = above
	}
}

// gather copies all files into the folders for it, compares them with the manifest, and reads them as a server would.
func (m *Manifest) gather(ctx context.Context, from string, targets []target) error {
	if err := m.complete(from); err != nil {
		return err
	}
	for _, t := range targets {
		if err := os.MkdirAll(filepath.Join(t.dir, restoringName, versionDir), dirPerm); err != nil {
			return err
		}
	}
	for _, f := range m.Files {
		i := max(0, slices.IndexFunc(targets, func(t target) bool {
			return t.prefix != "" && strings.HasPrefix(filepath.Base(f.Path), t.prefix)
		}))
		if f.Path == secretName {
			i = len(targets) - 1
		}
		got, err := copyFile(ctx, f.in(from), filepath.Join(targets[i].dir, restoringName, filepath.FromSlash(f.Path)), -1)
		if err := f.compare(from, got, err); err != nil {
			return err
		}
	}
	o := store.Options{DataDir: filepath.Join(targets[len(targets)-1].dir, restoringName)}
	if len(targets) > 1 {
		o.LogDir = filepath.Join(targets[0].dir, restoringName)
	}
	return m.compare(ctx, from, o)
}

// complete refuses a backup with files that its manifest does not have.
func (m *Manifest) complete(dir string) error {
	strays, err := m.strays(dir)
	if err != nil {
		return err
	}
	if len(strays) > 0 {
		return fmt.Errorf("%s: %s is not in %s: the backup was changed", dir, strings.Join(strays, ", "), manifestName)
	}
	return nil
}

// compare reads files of a backup as a server would, and compares what is found with the manifest.
func (m *Manifest) compare(ctx context.Context, from string, o store.Options) error {
	found, err := read(ctx, o)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s: its files are those of %s, but a server would not start from them: %w", from, manifestName, err)
	case found != m.Content:
		return fmt.Errorf("%s: a server finds zxid %v with %d znodes and %d sessions, and %s says zxid %v with %d znodes and %d sessions",
			from, found.Zxid, found.Znodes, found.Sessions, manifestName, m.Zxid, m.Znodes, m.Sessions)
	}
	return nil
}

// in returns the path of a file of the backup dir.
func (f File) in(dir string) string { return filepath.Join(dir, filepath.FromSlash(f.Path)) }

// compare compares what was read of a file of the backup dir, with that error, to the manifest.
func (f File) compare(dir string, got File, err error) error {
	path := f.in(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: it is in %s and is missing: half a backup", path, manifestName)
	case err != nil:
		return err
	case got.Bytes != f.Bytes:
		return fmt.Errorf("%s: it has %d bytes, and %s says %d: the file was changed", path, got.Bytes, manifestName, f.Bytes)
	case got.SHA256 != f.SHA256:
		return fmt.Errorf("%s: its SHA-256 is %s, and %s says %s: the file was changed", path, got.SHA256, manifestName, f.SHA256)
	}
	return nil
}

// putInPlace gives the gathered files their names.
func (t target) putInPlace(secret bool) error {
	gathered := filepath.Join(t.dir, restoringName)
	if err := giveTo(t.dir, gathered); err != nil {
		return err
	}
	if err := syncDir(filepath.Join(gathered, versionDir)); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(gathered, secretName)); secret && err == nil {
		if err := os.Rename(filepath.Join(gathered, secretName), filepath.Join(t.dir, secretName)); err != nil {
			return err
		}
	}
	err := os.Remove(filepath.Join(t.dir, versionDir)) // an empty one
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(filepath.Join(gathered, versionDir), filepath.Join(t.dir, versionDir)); err != nil {
		return err
	}
	if err := os.Remove(gathered); err != nil {
		return err
	}
	return syncDir(t.dir)
}

// giveTo gives files to the owner of dir, if this process may: root restores for a server that is not root.
func giveTo(dir, files string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	return filepath.WalkDir(files, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}

// clear takes back what gather has made.
func (t target) clear() error {
	if t.existed {
		return os.RemoveAll(filepath.Join(t.dir, restoringName))
	}
	err := os.RemoveAll(filepath.Join(t.dir, restoringName))
	if gone := os.Remove(t.dir); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		err = errors.Join(err, gone)
	}
	return err
}

// Check compares a backup with its manifest and reads it as a server would. It changes nothing.
func Check(ctx context.Context, dir string) (*Manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	if err := m.complete(dir); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		got, err := sumFile(ctx, f.in(dir))
		if err := f.compare(dir, got, err); err != nil {
			return nil, err
		}
	}
	return m, m.compare(ctx, dir, store.Options{DataDir: dir})
}
