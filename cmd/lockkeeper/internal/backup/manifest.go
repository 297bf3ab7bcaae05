// Package backup copies what a ZooKeeper server has stored, checks copies by reading them as a server would, and puts
// them back.
//
// A backup is a directory: version-2 with one snapshot and the logs behind it, as they are in a data directory; the
// secret of our server's sessions, if there is one; and manifest.json with the size and the SHA-256 of each file, and
// with what a server finds in them. The manifest is written last, and the directory gets its name after that: a
// directory without a manifest is no backup.
//
// Guarantees:
//
//  1. A backup that Make returns was read from end to end, and is durable.
//  2. It holds all that the server had written before Make was called, and a prefix of what came after.
//  3. Restore writes nothing into a directory that holds data, and gives the files their names only after they were
//     compared with the manifest and read.
package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/server/load"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
	"github.com/lockkeeper/lockkeeper/internal/vfs"
)

const (
	manifestName  = "manifest.json"
	versionDir    = "version-2"
	secretName    = "lockkeeper.secret"
	formatVersion = 1

	// manifestBytesMax limits what is read of a manifest: a backup has a few files.
	manifestBytesMax = 16 << 20

	dirPerm  = 0o700 // znodes may hold secrets
	filePerm = 0o600
)

// A Manifest says what a backup holds.
type Manifest struct {
	Format int       `json:"format"`
	Made   time.Time `json:"made"`
	Source string    `json:"source"` // the data directory, or the URL
	// Host is the machine whose Source that is; empty if Source means the same on all machines, and in older manifests.
	Host string `json:"host,omitempty"`
	Content
	Files []File `json:"files"`
}

// Content is what a server finds in a directory.
type Content struct {
	Zxid       Zxid `json:"zxid"` // of the last transaction
	Znodes     int  `json:"znodes"`
	Ephemerals int  `json:"ephemerals"`
	Sessions   int  `json:"sessions"`
}

// A Zxid is hexadecimal in text, as in the names of files.
type Zxid int64

// MarshalText returns 0x and the digits.
func (z Zxid) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "0x%x", int64(z)), nil }

// UnmarshalText reads what MarshalText returns.
func (z *Zxid) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "0x%x", (*int64)(z))
	return err
}

func (z Zxid) String() string { return fmt.Sprintf("0x%x", int64(z)) }

// A File is one file of a backup.
type File struct {
	Path   string `json:"path"` // below the backup, with slashes
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// Bytes returns the size of all files.
func (m *Manifest) Bytes() (sum int64) {
	for _, f := range m.Files {
		sum += f.Bytes
	}
	return sum
}

// readManifest reads the manifest of a backup.
func readManifest(dir string) (*Manifest, error) {
	f, err := open(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		if all, _ := filepath.Glob(filepath.Join(dir, "*", manifestName)); len(all) > 0 {
			return nil, fmt.Errorf("%s: the backups are in directories of it; the last one by name is %s", dir, filepath.Dir(all[len(all)-1]))
		}
		return nil, fmt.Errorf("%s: no %s: this is no backup, or one that was not finished", dir, manifestName)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, manifestBytesMax))
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	if m.Format != formatVersion {
		return nil, fmt.Errorf("%s: format %d, and this program knows %d (a newer one may have written it)", f.Name(), m.Format, formatVersion)
	}
	seen := map[string]bool{}
	for _, file := range m.Files {
		name, below := strings.CutPrefix(file.Path, versionDir+"/")
		isData := below && !strings.Contains(name, "/") && (strings.HasPrefix(name, "log.") || strings.HasPrefix(name, "snapshot."))
		switch {
		case !filepath.IsLocal(filepath.FromSlash(file.Path)):
			return nil, fmt.Errorf("%s: %q leads out of the backup", f.Name(), file.Path)
		case !isData && file.Path != secretName:
			return nil, fmt.Errorf("%s: %q is no log, no snapshot and not %s", f.Name(), file.Path, secretName)
		case seen[file.Path]:
			return nil, fmt.Errorf("%s: %q is named twice", f.Name(), file.Path)
		}
		seen[file.Path] = true
	}
	return &m, nil
}

// writeManifest writes the manifest, durably.
func (m *Manifest) write(dir string) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, manifestName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}

// strays returns what lies among the files of a backup and is not in the manifest.
func (m *Manifest) strays(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, versionDir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		path := versionDir + "/" + e.Name()
		if !slices.ContainsFunc(m.Files, func(f File) bool { return f.Path == path }) {
			names = append(names, path)
		}
	}
	return names, nil
}

// open opens a file for reading. A pipe would keep its reader waiting, whatever the user did.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// copyFile copies n bytes, or all if n is negative, into a new file, durably, and returns the size and the sum.
func copyFile(ctx context.Context, from, to string, n int64) (f File, err error) {
	file, err := open(from)
	if err != nil {
		return f, err
	}
	defer file.Close()
	src := ending.Reader(ctx, file)
	if n < 0 {
		return writeFile(to, src)
	}
	if f, err = writeFile(to, io.LimitReader(src, n)); err == nil && f.Bytes < n {
		err = fmt.Errorf("%s: %d bytes instead of %d", from, f.Bytes, n)
	}
	return f, err
}

// writeFile writes what src holds into a new file, durably.
func writeFile(to string, src io.Reader) (f File, err error) {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, filePerm)
	if err != nil {
		return f, err
	}
	f, err = sum(io.TeeReader(src, dst))
	if err == nil {
		err = dst.Sync()
	}
	return f, errors.Join(err, dst.Close())
}

// sum returns the size and the sum of what r holds.
func sum(r io.Reader) (f File, err error) {
	hash := sha256.New()
	f.Bytes, err = io.Copy(hash, r)
	f.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return f, err
}

// sumFile returns those of a file.
func sumFile(ctx context.Context, path string) (File, error) {
	f, err := open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	return sum(ending.Reader(ctx, f))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error { return vfs.OS{}.SyncDir(dir) }

// read returns what a server finds in a data directory.
func read(ctx context.Context, o store.Options) (Content, error) {
	l := load.New(false)
	found, err := store.Read(endingFS{ctx: ctx}, o, l)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Content{}, err
	}
	l.Finish()
	return Content{Zxid: Zxid(found.Zxid), Znodes: l.Tree.Count(), Ephemerals: l.Tree.EphemeralCount(), Sessions: len(l.Sessions)}, nil
}
