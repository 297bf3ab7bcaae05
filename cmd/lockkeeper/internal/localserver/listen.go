package localserver

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// socketBytesMax is the longest path of a socket on the systems we know, less its final zero byte.
const socketBytesMax = 103

// listen makes the socket, in the first runtime directory that can be made ours alone and takes it.
func (p Places) listen() (*net.UnixListener, error) {
	// Keepers with different state directories may share a runtime directory.
	name := fmt.Sprintf("keeper-%08x.sock", crc32.ChecksumIEEE([]byte(p.State)))
	var errs []error
	for _, dir := range p.Runtime {
		dir, err := p.named(dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l, err := listenIn(dir, name)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no directory for its socket: %w (set XDG_RUNTIME_DIR or TMPDIR to a directory of your own)", errors.Join(errs...))
}

// named returns the name of a runtime directory. Where that has none of its own, it is the one that the last keeper has made,
// or a new one.
func (p Places) named(dir string) (string, error) {
	if !strings.HasSuffix(dir, anyName) {
		return dir, nil
	}
	if a, err := p.read(); err == nil {
		last := filepath.Dir(a.Socket)
		if ok, err := filepath.Match(dir, last); ok && err == nil && isPrivate(last) == nil {
			return last, nil
		}
	}
	return os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir))
}

// listenIn makes the socket in one directory. One that is there already belongs to a keeper that is dead, because we
// have the lock.
func listenIn(dir, name string) (*net.UnixListener, error) {
	path := filepath.Join(dir, name)
	if len(path) > socketBytesMax {
		return nil, fmt.Errorf("%s is longer than a socket's path can be (%d bytes)", path, socketBytesMax)
	}
	if err := privateDir(dir); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
