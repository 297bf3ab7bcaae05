package ensemble

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/internal/ending"
	"github.com/lockkeeper/lockkeeper/internal/server/store"
)

// sumsName is the file with the checksums of a member's data, as sha256sum reads it.
const sumsName = "SHA256SUMS"

// copyData copies files of the source into the data directories of all members, reading each once. It returns the checksums as
// sha256sum prints them, with paths as seen from a member's directory.
func copyData(ctx context.Context, parts []store.Part, members []string) (sums []byte, err error) {
	for _, dir := range members {
		if err := os.MkdirAll(filepath.Join(dir, "data", versionName), folderMode); err != nil {
			return nil, err
		}
	}
	for _, p := range parts {
		name := filepath.Join("data", versionName, filepath.Base(p.Path))
		sum, err := copyToAll(ctx, p, name, members)
		if err != nil {
			return nil, fmt.Errorf("copy %s: %w", p.Path, err)
		}
		sums = fmt.Appendf(sums, "%s  %s\n", sum, name)
	}
	for _, dir := range members {
		for _, folder := range []string{filepath.Join(dir, "data", versionName), filepath.Join(dir, "data"), dir} {
			if err := syncDir(folder); err != nil {
				return nil, err
			}
		}
	}
	return sums, nil
}

// copyToAll copies as much of a file as is whole, under the same name for each member, and syncs the copies.
func copyToAll(ctx context.Context, p store.Part, name string, members []string) (sum string, err error) {
	in, err := os.Open(p.Path)
	if err != nil {
		return "", err
	}
	defer in.Close()
	hash := sha256.New()
	to := []io.Writer{hash}
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, dir := range members {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err != nil {
			return "", err
		}
		files, to = append(files, f), append(to, f)
	}
	n, err := io.CopyN(io.MultiWriter(to...), ending.Reader(ctx, in), p.Bytes)
	if err == io.EOF {
		err = fmt.Errorf("ends after %d bytes of %d: a server has changed it", n, p.Bytes)
	}
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if err := f.Sync(); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
