package backup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Newest returns when the newest backup of a source below dir was made; zero if there is none.
func Newest(dir string, src Source) (time.Time, error) {
	all, err := list(dir, src)
	if err != nil || len(all) == 0 {
		return time.Time{}, err
	}
	return all[len(all)-1].made, nil
}

// Prune deletes all but the newest keep backups of a source below dir, and returns the paths of what it deleted. The one at made stays,
// also if others have later times, as when the clock was ahead.
func Prune(dir string, src Source, keep int, made string) (deleted []string, err error) {
	all, err := list(dir, src)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(b keptBackup) bool { return b.path == made })
	for _, b := range all[:max(0, len(all)-(max(keep, 1)-1))] {
		part := b.path + partSuffix
		// From here on it is no backup any more, also if the deletion is cut off.
		if err := os.Rename(b.path, part); err != nil {
			return deleted, err
		}
		if err := os.RemoveAll(part); err != nil {
			return deleted, err
		}
		deleted = append(deleted, b.path)
	}
	return deleted, nil
}

// A keptBackup is a backup with a manifest.
type keptBackup struct {
	path string
	made time.Time
}

// list returns the whole backups of a source below dir, oldest first. A manifest that does not name the host of the source is
// another machine's, or so old that it may be.
func list(dir string, src Source) (all []keptBackup, err error) {
	host, err := src.host()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if _, err := time.Parse(nameLayout, e.Name()); err != nil {
			continue
		}
		if m, err := readManifest(path); err == nil && m.Source == src.String() && m.Host == host {
			all = append(all, keptBackup{path, m.Made})
		}
	}
	slices.SortFunc(all, func(a, b keptBackup) int { return a.made.Compare(b.made) })
	return all, nil
}

// removeParts deletes what was left of backups that were cut off.
func removeParts(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, isPart := strings.CutSuffix(e.Name(), partSuffix)
		if _, err := time.Parse(nameLayout, name); isPart && err == nil {
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
