package backup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

// A Source is what is backed up.
type Source interface {
	// String names it, as the manifest does.
	String() string
	// host returns the name of the machine on which String means this source; empty if it does on all machines.
	host() (string, error)
	// copyTo copies it into an empty directory and returns the files.
	copyTo(ctx context.Context, dir string) ([]File, error)
}

// partSuffix ends the name of a directory that is no backup yet, or no longer.
const partSuffix = ".part"

// nameLayout makes names that sort by age.
const nameLayout = "20060102T150405.000Z"

// Make makes a backup in a new directory below dir and returns its path. An error leaves none behind. What was left of
// one that was killed goes.
func Make(ctx context.Context, src Source, dir string) (path string, m *Manifest, err error) {
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return "", nil, err
	}
	turn, err := vfs.OS{}.LockDir(dir)
	if errors.Is(err, vfs.ErrLocked) {
		return "", nil, fmt.Errorf("%s: another backup is being made there", dir)
	}
	if err != nil {
		return "", nil, err
	}
	defer turn.Close()
	if err := removeParts(dir); err != nil {
		return "", nil, err
	}
	m = &Manifest{Format: formatVersion, Source: src.String()}
	if m.Host, err = src.host(); err != nil {
		return "", nil, err
	}
	for {
		m.Made = time.Now().UTC().Truncate(time.Millisecond)
		path = filepath.Join(dir, m.Made.Format(nameLayout))
		if _, err := os.Lstat(path); err != nil {
			break
		}
		time.Sleep(time.Millisecond) // a backup of the same one has the name
	}
	part := path + partSuffix
	if err := m.fill(ctx, src, part); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(part))
	}
	if err := os.Rename(part, path); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(part))
	}
	return path, m, syncDir(dir)
}

// fill makes the content of a backup, and its manifest last.
func (m *Manifest) fill(ctx context.Context, src Source, dir string) error {
	if err := os.Mkdir(dir, dirPerm); err != nil {
		return err
	}
	files, err := src.copyTo(ctx, dir)
	if err != nil {
		return err
	}
	m.Files = files
	if m.Content, err = read(ctx, store.Options{DataDir: dir}); err != nil {
		return fmt.Errorf("the copy cannot be read: %w", err)
	}
	if err := syncDir(filepath.Join(dir, versionDir)); err != nil {
		return err
	}
	if err := m.write(dir); err != nil {
		return err
	}
	return syncDir(dir)
}

// A DataDir is a data directory, in which a server may be at work.
type DataDir struct {
	Dir    string // its version-2 holds the snapshots
	LogDir string // its version-2 holds the logs; empty: Dir
	// NoLogs says that a directory without logs has lost none.
	NoLogs bool
}

func (d DataDir) String() string { return d.Dir }

func (d DataDir) host() (string, error) { return os.Hostname() }

// How often a directory is read again in which a server writes while it is read, and how long after.
const (
	readAttempts  = 8
	readAgainWait = 250 * time.Millisecond
)

// copyTo copies what is whole of the newest snapshot and the logs.
func (d DataDir) copyTo(ctx context.Context, dir string) (files []File, err error) {
	if _, err := os.Stat(filepath.Join(d.Dir, versionDir)); err != nil {
		return nil, fmt.Errorf("%s: no data directory that can be read: %w", d.Dir, err)
	}
	for attempt := 1; ; attempt++ {
		files, err = d.copyOnce(ctx, filepath.Join(dir, versionDir))
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		passing := errors.As(err, new(*store.DamageError)) || errors.Is(err, fs.ErrNotExist) // a server writes, or purges
		if attempt == readAttempts || !passing {
			return nil, err
		}
		select {
		case <-time.After(readAgainWait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	f, err := copyFile(ctx, filepath.Join(d.Dir, secretName), filepath.Join(dir, secretName), -1)
	switch {
	case errors.Is(err, fs.ErrNotExist): // Apache ZooKeeper has none
		return files, nil
	case err != nil:
		return nil, err
	}
	f.Path = secretName
	return append(files, f), nil
}

func (d DataDir) copyOnce(ctx context.Context, to string) ([]File, error) {
	parts, err := store.Parts(endingFS{ctx: ctx}, store.Options{DataDir: d.Dir, LogDir: d.LogDir})
	if err != nil {
		return nil, err
	}
	if len(parts) == 1 && !d.NoLogs { // also behind the snapshot.0 that Apache ZooKeeper begins with may be many
		return nil, fmt.Errorf("%s: there is a snapshot and no log: where are the logs (dataLogDir)? --log-dir names them, or %s itself if there are none", d.Dir, d.Dir)
	}
	if err := os.RemoveAll(to); err != nil { // of the attempt before
		return nil, err
	}
	if err := os.Mkdir(to, dirPerm); err != nil {
		return nil, err
	}
	var files []File
	for _, p := range parts {
		name := filepath.Base(p.Path)
		f, err := copyFile(ctx, p.Path, filepath.Join(to, name), p.Bytes)
		if err != nil {
			return nil, err
		}
		f.Path = versionDir + "/" + name
		files = append(files, f)
	}
	return files, nil
}
