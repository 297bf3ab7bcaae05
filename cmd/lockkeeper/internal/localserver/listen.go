package localserver

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// socketBytesMax is the longest path of a socket on the systems we know, less its final zero byte.
const socketBytesMax = 103

// listen makes the socket, in the first runtime directory that can be made ours alone and takes it.
func (p Places) listen() (*net.UnixListener, error) {
	// Keepers with different state directories may share a runtime directory.
	name := fmt.Sprintf("keeper-%08x.sock", crc32.ChecksumIEEE([]byte(p.State)))
	var errs []error
	for _, dir := range p.Runtime {
		l, err := listenIn(dir, name)
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no directory for its socket: %w (set XDG_RUNTIME_DIR or TMPDIR to a directory of your own)", errors.Join(errs...))
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
