package client

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/zk"
)

// chrooted returns the server's name for a path of ours.
func (s *Session) chrooted(path string) string {
	switch {
	case s.chroot == "":
		return path
	case path == "/":
		return s.chroot
	}
	return s.chroot + path
}

// chrootedNew is chrooted for a znode to be made: the path of a sequential one is only how its name begins.
func (s *Session) chrootedNew(path string, mode zk.Mode) string {
	if path == "/" && mode.Sequential() {
		return s.chroot + "/"
	}
	return s.chrooted(path)
}

// unchrooted returns our name for a path of the server's.
func (s *Session) unchrooted(path string) string {
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
