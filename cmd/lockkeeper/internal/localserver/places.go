// Package keeper is the server that every user has on a machine without configuring one: it starts
// itself when a command needs it, listens on a Unix socket that only its user can reach, keeps its
// data in the user's state directory, and ends when there has been no connection for a while.
//
// There is one keeper to a state directory, because a lock on a file there makes it so. Where its
// socket is it writes into the state directory too: a shell that was logged in to and a cron job,
// which have different runtime directories or none, must meet at the same keeper.
//
// Everything it has acknowledged is on disk. Killed, it is started again by the next command, or by
// one that is connected, and knows every session and every lock.
package localserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Places are the directories of a keeper.
type Places struct {
	State   string   // data, log, lock, address
	Runtime []string // where the socket may be, best first; one that ends in anyName is made with a name of its own
}

// FindPlaces derives the places from the environment.
func FindPlaces(getenv func(string) string) (Places, error) {
	var p Places
	switch home := getenv("HOME"); {
	case filepath.IsAbs(getenv("XDG_STATE_HOME")):
		p.State = filepath.Join(getenv("XDG_STATE_HOME"), "lockkeeper")
	case filepath.IsAbs(home):
		p.State = filepath.Join(home, ".local", "state", "lockkeeper")
	default:
		return p, errors.New("local keeper: no place for its data: neither HOME nor XDG_STATE_HOME is set to an absolute path " +
			"(set one, or name servers with --servers)")
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		p.Runtime = append(p.Runtime, filepath.Join(dir, "lockkeeper"))
	}
	temp := getenv("TMPDIR")
	if !filepath.IsAbs(temp) { // it would be another place in every directory
		temp = "/tmp"
	}
	inTemp := filepath.Join(temp, "lockkeeper-"+strconv.Itoa(os.Getuid()))
	// Another user may have made that directory to keep this user from it. The others cannot be taken away.
	p.Runtime = append(p.Runtime, inTemp, filepath.Join(p.State, "run"), inTemp+anyName)
	return p, nil
}

// anyName stands at the end of the name of a directory that is made anew.
const anyName = "-*"

func (p Places) data() string    { return filepath.Join(p.State, "data") }
func (p Places) lock() string    { return filepath.Join(p.State, "keeper.lock") }
func (p Places) address() string { return filepath.Join(p.State, "keeper.json") }

// Log returns the file in which keepers that run in the background say what they do.
func (p Places) Log() string { return filepath.Join(p.State, "keeper.log") }

// isNew reports whether there has never been a keeper in these places.
func (p Places) isNew() bool {
	_, err := os.Lstat(p.data())
	return errors.Is(err, fs.ErrNotExist)
}

// makeState makes the state directory. Root could do so in the home of the user that has called sudo, and use what is
// there: the user could not read it afterwards.
func (p Places) makeState() error {
	for dir := p.State; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err == nil && (dir == p.State || os.Getuid() == 0) {
			err = isOwn(dir, info)
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(p.State, 0o700); err != nil {
			return err
		}
		return p.checkState()
	}
}

// Private returns a directory below State that belongs to the user alone, and makes it if it is missing.
func (p Places) Private(name string) (string, error) {
	err := p.makeState()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.State, name)
	err = os.MkdirAll(dir, 0o700)
	return dir, err
}

// checkState returns an error if other users can change the state directory: they could put other data there, or another
// keeper's address.
func (p Places) checkState() error {
	info, err := os.Stat(p.State)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("other users can write to %s (mode %04o): make it yours alone with chmod 700, after a look at what is in it", p.State, info.Mode().Perm())
	}
	return isOwn(p.State, info)
}

// privateDir makes a directory that other users cannot enter, or checks that one is so. In a directory
// like /tmp another user may have made it before.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return isPrivate(dir)
}

// isPrivate returns an error unless dir is a directory of this user that others cannot enter.
func isPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if err := isOwn(dir, info); err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is open to others (mode %04o); it must be 0700", dir, info.Mode().Perm())
	}
	return nil
}

// isOwn returns an error unless what is at path belongs to us.
func isOwn(path string, info fs.FileInfo) error {
	owner := -1
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(stat.Uid)
	}
	if owner != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d, not to us (%d)", path, owner, os.Getuid())
	}
	return nil
}
