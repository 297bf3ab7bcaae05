package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
)

// configVariable names a client configuration file to read in place of the usual ones.
const configVariable = "LOCKKEEPER_CONFIG"

// systemConfig is the client configuration of a machine.
const systemConfig = "/etc/lockkeeper/client.conf"

// requireServersKey makes a missing server list an error.
const requireServersKey = "require-servers"

// A clientValue is a value of a client configuration file.
type clientValue struct {
	text  string
	where string // file and line
}

// A clientConfig is what the client configuration files say. Their keys are the names of flags without the dashes, and
// require-servers. A flag and a variable come before a file, and a user's file before that of the machine.
type clientConfig map[string]clientValue

// readClientConfig reads the configuration files of this machine and this user. A file that does not exist says nothing,
// unless the variable names it.
func readClientConfig(getenv func(string) string) (clientConfig, error) {
	c := clientConfig{}
	if file := getenv(configVariable); file != "" {
		return c, c.read(file, true)
	}
	for _, file := range []string{systemConfig, userFile(getenv, "client.conf")} {
		if err := c.read(file, false); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// userFile returns where this user has a configuration file; empty, which is no file, if neither variable is set.
func userFile(getenv func(string) string, name string) string {
	switch dir, home := getenv("XDG_CONFIG_HOME"), getenv("HOME"); {
	case filepath.IsAbs(dir):
		return filepath.Join(dir, "lockkeeper", name)
	case home != "":
		return filepath.Join(home, ".config", "lockkeeper", name)
	}
	return ""
}

// isMissing reports whether there is no such file. A home that is no directory, such as /dev/null for the user of a service, has none.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// read adds what a file says.
func (c clientConfig) read(file string, required bool) error {
	err := checkFile(file, required)
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	switch {
	case isMissing(err) && !required:
		return nil
	case err != nil:
		return exit.Errorf(exit.Config, "client configuration: %w", err)
	}
	seen := map[string]bool{}
	for i, line := range strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n") {
		where := fmt.Sprintf("%s:%d", file, i+1)
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok:
			return exit.Errorf(exit.Config, "%s: not KEY = VALUE", where)
		case !slices.Contains(clientKeys(), key):
			return exit.Errorf(exit.Config, "%s: there is no setting %s (there are %s)", where, key, strings.Join(clientKeys(), ", "))
		case value == "":
			return exit.Errorf(exit.Config, "%s: %s has no value", where, key)
		case strings.Contains(" "+strings.ReplaceAll(value, "\t", " "), " #"):
			return exit.Errorf(exit.Config, "%s: %s = %s: a comment has a line of its own", where, key, value)
		case seen[key]:
			return exit.Errorf(exit.Config, "%s: %s is set twice", where, key)
		}
		seen[key] = true
		if slices.ContainsFunc(makingFlags, func(f accessFlag) bool { return f.name == key && f.isFile }) && !filepath.IsAbs(value) {
			value = filepath.Join(filepath.Dir(file), value)
		}
		c[key] = clientValue{value, where}
	}
	return nil
}

// checkFile refuses a file that other users can write: it says where locks and credentials go. Whose it is does not matter if the user
// has named it. A pipe is empty when a command reads it again, and the command would go to other servers. /dev/null says nothing.
func checkFile(file string, named bool) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeNamedPipe != 0:
		return fmt.Errorf("%s is a pipe, which can be read only once: name a file", file)
	case !info.Mode().IsRegular():
		return nil
	}
	if mode := info.Mode().Perm(); mode&0o002 != 0 {
		return fmt.Errorf("%s can be written by every user (mode %04o): chmod o-w %s", file, mode, file)
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if ok && !named && owner.Uid != 0 && int(owner.Uid) != os.Getuid() {
		return fmt.Errorf("%s belongs to user %d, and not to this one (%d) or root: chown it, or name it in %s", file, owner.Uid, os.Getuid(), configVariable)
	}
	return nil
}

// clientKeys returns the keys that a file may have.
func clientKeys() []string {
	keys := []string{"servers", requireServersKey}
	for _, f := range makingFlags {
		keys = append(keys, f.name)
	}
	return keys
}

// requiresServers reports whether a missing server list is an error, and where that is said.
func (c clientConfig) requiresServers() (where string, required bool, err error) {
	v, ok := c[requireServersKey]
	if !ok {
		return "", false, nil
	}
	required, err = strconv.ParseBool(v.text)
	if err != nil {
		return "", false, exit.Errorf(exit.Config, "%s: %s = %s: not true or false", v.where, requireServersKey, v.text)
	}
	return v.where, required, nil
}
