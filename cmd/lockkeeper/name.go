package main

import (
	"strings"

	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// locksPath is where the locks are that have a name.
	locksPath = "/lockkeeper/locks"
	// reservedPath is ZooKeeper's own.
	reservedPath = "/zookeeper"
	// nameBytesMax limits a name.
	nameBytesMax = 255
)

// lockPath returns the path of the lock that the user calls name: below locksPath, or the name itself
// if it is an absolute path.
func lockPath(name string) (string, error) {
	path := name
	switch {
	case name == "":
		return "", exit.Errorf(exit.Usage, "the name of the lock is empty")
	case name[0] != '/' && strings.Contains(name, "/"):
		return "", exit.Errorf(exit.Usage, "lock name %q has a slash: it is neither a name nor an absolute path (did you mean /%s?)", name, name)
	case name[0] != '/' && len(name) > nameBytesMax:
		return "", exit.Errorf(exit.Usage, "lock name %.20q… has %d bytes, more than %d", name, len(name), nameBytesMax)
	case name[0] != '/':
		path = locksPath + "/" + name
	}
	if err := zk.ValidatePath(path); err != nil {
		return "", exit.Errorf(exit.Usage, "lock name %q cannot be used: %w", name, err)
	}
	if path == "/" || path == reservedPath || strings.HasPrefix(path, reservedPath+"/") {
		return "", exit.Errorf(exit.Usage, "lock %s: the path is reserved by ZooKeeper", path)
	}
	return path, nil
}

// lockName is the inverse of lockPath, for what is shown.
func lockName(path string) string {
	if name, ok := strings.CutPrefix(path, locksPath+"/"); ok && !strings.Contains(name, "/") {
		return name
	}
	return path
}
