package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/client"
	"github.com/lockkeeper/lockkeeper/cmd/lockkeeper/internal/exit"
	"github.com/lockkeeper/lockkeeper/lock/inspect"
	"github.com/lockkeeper/lockkeeper/zk"
)

const (
	// locksPath is where the locks are that have a name.
	locksPath = "/lockkeeper/locks"
	// electionsPath is where the elections are that have a name.
	electionsPath = "/lockkeeper/elections"
	// reservedPath is ZooKeeper's own.
	reservedPath = "/zookeeper"
	// nameBytesMax limits a name.
	nameBytesMax = 255
)

// lockPath returns the path of the lock that the user calls name: below locksPath, or the name itself
// if it is an absolute path.
func lockPath(name string) (string, error) { return pathOf(name, "lock", locksPath) }

// electionPath is lockPath for elections.
func electionPath(name string) (string, error) { return pathOf(name, "election", electionsPath) }

// pathOf returns the path of what the user calls name: below home, or the name itself if it is an absolute
// path. what says what it is.
func pathOf(name, what, home string) (string, error) {
	path := name
	switch {
	case name == "":
		return "", exit.Errorf(exit.Usage, "the name of the %s is empty", what)
	case name[0] != '/' && strings.Contains(name, "/"):
		return "", exit.Errorf(exit.Usage, "%s name %q has a slash: a name has none, and the path of a znode begins with one (%s)", what, name, slashHint(name, what, home))
	case name[0] != '/' && len(name) > nameBytesMax:
		return "", exit.Errorf(exit.Usage, "%s name %.20q… has %d bytes, more than %d", what, name, len(name), nameBytesMax)
	case name[0] != '/':
		path = home + "/" + name
	}
	if err := zk.ValidatePath(path); err != nil {
		return "", exit.Errorf(exit.Usage, "%s name %q cannot be used: %w", what, name, err)
	}
	if path == "/" || path == reservedPath || strings.HasPrefix(path, reservedPath+"/") {
		return "", exit.Errorf(exit.Usage, "%s %s: the path is reserved by ZooKeeper", what, path)
	}
	return path, nil
}

// refuseHome refuses the paths below which things are that have names: a claim there would look like one of them.
func refuseHome(path string) error {
	if home := zk.Parent(locksPath); path == home || zk.Parent(path) == home {
		return exit.Errorf(exit.Usage, "%s: what has a name is below that path, so it cannot be a lock or an election itself", path)
	}
	return nil
}

// slashHint says what to write instead of a name with a slash.
func slashHint(name, what, home string) string {
	path := home + "/" + name
	plain := strings.ReplaceAll(strings.Trim(name, "/"), "/", "-")
	switch {
	case zk.ValidatePath(home+"/"+plain) != nil: // it is . or ..
		return "write a name without slashes"
	case zk.ValidatePath(path) != nil: // it has . or .. or an empty part
		return "write a name without slashes, such as " + plain
	}
	return fmt.Sprintf("write %s for a%s below the named ones, or a name without slashes, such as %s", path, article(what), plain)
}

// article returns a word as it follows an indefinite article: " lock", "n election".
func article(what string) string {
	if strings.ContainsRune("aeiou", rune(what[0])) {
		return "n " + what
	}
	return " " + what
}

// namesake says that an election is in use under the name of the lock at path, for when the lock is not: it
// may have been meant. If there is none, it says nothing.
func namesake(ctx context.Context, s *client.Session, path string) (string, error) {
	name, ok := strings.CutPrefix(path, locksPath+"/")
	if !ok || strings.Contains(name, "/") {
		return "", nil
	}
	path = electionsPath + "/" + name
	snap, err := inspect.Look(ctx, s, path)
	if err != nil || len(snap.Contenders) == 0 {
		return "", err
	}
	return "; the election of that name is " + path, nil
}

// lockName is the inverse of lockPath, for what is shown.
func lockName(path string) string {
	if name, ok := strings.CutPrefix(path, locksPath+"/"); ok && !strings.Contains(name, "/") {
		return name
	}
	return path
}
