package zk

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidatePath reports why path is not a legal znode path, or nil if it is one. The rules are
// those of Apache ZooKeeper's PathUtils: absolute, no trailing slash, no empty component, no
// "." or "..", and none of the characters that ZooKeeper bans (control characters, surrogates
// and everything beyond the basic plane, the private use area, U+FFF0 to U+FFFF).
func ValidatePath(path string) error {
	switch {
	case path == "":
		return &PathError{Path: path, Reason: "is empty"}
	case path[0] != '/':
		return &PathError{Path: path, Reason: "does not begin with /"}
	case path == "/":
		return nil
	case path[len(path)-1] == '/':
		return &PathError{Path: path, Reason: "ends with /"}
	}
	start := 1 // of the current component
	for i, r := range path {
		if i == 0 || r > ' ' && r < 0x7f && r != '/' {
			continue // as nearly always
		}
		if r == '/' {
			if err := checkComponent(path, path[start:i]); err != nil {
				return err
			}
			start = i + 1
			continue
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(path[i:]); size == 1 {
				return &PathError{Path: path, Reason: fmt.Sprintf("is not UTF-8 at byte %d", i)}
			}
		}
		if r == utf8.RuneError || banned(r) {
			return &PathError{Path: path, Reason: fmt.Sprintf("has the character %U at byte %d, which ZooKeeper does not allow", r, i)}
		}
	}
	return checkComponent(path, path[start:])
}

func checkComponent(path, name string) error {
	switch name {
	case "":
		return &PathError{Path: path, Reason: "has an empty component (//)"}
	case ".", "..":
		return &PathError{Path: path, Reason: "has the relative component " + name}
	}
	return nil
}

func banned(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
}

// A PathError says what makes a path illegal. It is a kind of ErrBadArguments, the code with
// which a server would have refused the path.
type PathError struct {
	Path   string
	Reason string
}

func (e *PathError) Error() string { return fmt.Sprintf("znode path %q %s", e.Path, e.Reason) }

// Unwrap lets errors.Is(err, ErrBadArguments) hold.
func (e *PathError) Unwrap() error { return ErrBadArguments }

// Parent returns the path of the znode that path is a child of; the parent of "/" is "/".
// The path must be valid.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// Base returns the last component of path: the name under which its parent lists it. The base
// of "/" is empty.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Join returns the path of the child called name below dir.
func Join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
