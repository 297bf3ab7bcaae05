package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// socketBytesMax is the longest path of a socket on the systems we know, less its final zero byte.
const socketBytesMax = 103

// listenHolder makes the socket of a holder.
func listenHolder(path string) (l net.Listener, err error) {
	err = withShortPath(path, func(short string) error {
		l, err = net.Listen("unix", short)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the short path is valid here alone, and the file is renamed
	return l, nil
}

// dialHolder connects to a holder, which has the limit to answer.
func dialHolder(path string, limit time.Duration) (nc net.Conn, err error) {
	err = withShortPath(path, func(short string) error {
		nc, err = net.DialTimeout("unix", short, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(time.Now().Add(limit))
	return nc, nil
}

// withShortPath calls use with a path of a socket that the kernel takes. The path of a home directory can be longer: then it is
// one that begins at the open directory, and is valid until use returns. Elsewhere than on Linux there is no such path.
func withShortPath(path string, use func(short string) error) error {
	if len(path) <= socketBytesMax || runtime.GOOS != "linux" {
		return use(path)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
