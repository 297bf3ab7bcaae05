package client

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// serverPath returns the server's name for a path of ours.
func (s *Session) serverPath(path string) string {
	if path == "/" && s.chroot != "" {
		return s.chroot
	}
	return s.chroot + path
}

// serverPathOfNew is serverPath for a znode to be made: the path of a sequential one is only how its name begins.
func (s *Session) serverPathOfNew(path string, mode zk.Mode) string {
	if path == "/" && mode.Sequential() {
		return s.chroot + "/"
	}
	return s.serverPath(path)
}

// clientPath returns our name for a path of the server's.
func (s *Session) clientPath(path string) string {
	if s.chroot == "" {
		return path
	}
	rest, ok := strings.CutPrefix(path, s.chroot)
	switch {
	case ok && rest == "":
		return "/"
	case ok && rest[0] == '/':
		return rest
	}
	return path
}
