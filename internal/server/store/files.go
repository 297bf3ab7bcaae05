package store

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

const (
	versionDir     = "version-2"
	logPrefix      = "log."
	snapshotPrefix = "snapshot."
)

// A file is a log or a snapshot by its name.
type file struct {
	path string
	zxid int64  // a log's first transaction, or a snapshot's last
	ext  string // of a compressed snapshot: ".gz", ".snappy"
}

func logName(zxid int64) string      { return logPrefix + strconv.FormatInt(zxid, 16) }
func snapshotName(zxid int64) string { return snapshotPrefix + strconv.FormatInt(zxid, 16) }

// tempName is the name of a snapshot while it is written, and logTempName that of a log until it has its header. ZooKeeper takes
// everything that begins with "snapshot." or "log." for one of its files, so these do not.
func tempName(zxid int64) string    { return fmt.Sprintf("snapshot-%x.tmp", zxid) }
func logTempName(zxid int64) string { return fmt.Sprintf("log-%x.tmp", zxid) }

func isTempName(name string) bool {
	return (strings.HasPrefix(name, "snapshot-") || strings.HasPrefix(name, "log-")) && strings.HasSuffix(name, ".tmp")
}

// parseName splits a name with this prefix; names of other shapes are none of ours.
func parseName(name, prefix string) (zxid int64, ext string, ok bool) {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, "", false
	}
	hex, ext, dotted := strings.Cut(rest, ".")
	if dotted {
		ext = "." + ext
	}
	if ext != "" && (prefix == logPrefix || ext != ".gz" && ext != ".snappy") {
		return 0, "", false
	}
	u, err := strconv.ParseUint(hex, 16, 63)
	return int64(u), ext, err == nil
}

// listFiles returns the files with a prefix in a directory, in ascending order of zxids.
func listFiles(fs vfs.FS, dir, prefix string) ([]file, error) {
	names, err := fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, name := range names {
		if zxid, ext, ok := parseName(name, prefix); ok {
			files = append(files, file{filepath.Join(dir, name), zxid, ext})
		}
	}
	slices.SortStableFunc(files, func(a, b file) int {
		return cmp.Or(cmp.Compare(a.zxid, b.zxid), cmp.Compare(b.ext, a.ext)) // plain before compressed, seen from the end
	})
	return files, nil
}

// dirs returns the folders that hold the snapshots and the logs.
func (o *Options) dirs() (snapshots, logs string) {
	snapshots = filepath.Join(o.DataDir, versionDir)
	if o.LogDir == "" {
		return snapshots, snapshots
	}
	return snapshots, filepath.Join(o.LogDir, versionDir)
}

// list returns the snapshots and the logs, each in ascending order. It refuses a rescued log that has not been put in its place.
// Two folders that hold each other's files were set up the other way round before, and are refused, as ZooKeeper does.
func (o *Options) list(fs vfs.FS) (snapshots, logs []file, err error) {
	snapshotDir, logDir := o.dirs()
	if snapshots, err = listFiles(fs, snapshotDir, snapshotPrefix); err != nil {
		return nil, nil, err
	}
	if logs, err = listFiles(fs, logDir, logPrefix); err != nil {
		return nil, nil, err
	}
	if err := checkRescued(fs, logDir); err != nil {
		return nil, nil, err
	}
	if snapshotDir == logDir {
		return snapshots, logs, nil
	}
	strayLogs, err := listFiles(fs, snapshotDir, logPrefix)
	if err != nil {
		return nil, nil, err
	}
	straySnapshots, err := listFiles(fs, logDir, snapshotPrefix)
	if err != nil {
		return nil, nil, err
	}
	if stray := append(strayLogs, straySnapshots...); len(stray) > 0 {
		return nil, nil, &DamageError{
			Path: stray[0].path, Offset: -1,
			What:   "in the wrong directory, because logs are kept apart from snapshots",
			Advice: fmt.Sprintf("move all snapshots to %s and all logs to %s", snapshotDir, logDir),
		}
	}
	return snapshots, logs, nil
}
