package main

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// userName returns the name of the user that this process belongs to, or the number if it has no name.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// programOf returns the name of the program that a command runs. Of a shell with a script on its command line (sh -c '…') that is
// the first program of the script; nothing else of a script is shown, since it may have secrets in it, and none of its arguments.
func programOf(argv []string) string {
	name := filepath.Base(argv[0])
	if !slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh"}, name) {
		return name
	}
	script, option := false, false // -c was among the flags; the name of a set option comes next, as in -o pipefail
	for _, arg := range argv[1:] {
		isFlag := strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "+")
		switch {
		case strings.HasPrefix(arg, "--"): // a long one, or the end of the flags
		case isFlag && !script && strings.Contains(arg, "s"): // the script is on standard input
			return name
		case isFlag && strings.ContainsAny(arg[:len(arg)-1], "oO"): // for zsh and ksh the rest is an option's name, for others more flags
			return name
		case isFlag:
			script = script || strings.Contains(arg, "c")
			option = strings.ContainsAny(arg, "oO")
		case option:
			option = false
		case script:
			return cmp.Or(programIn(arg), name)
		default: // a script in a file
			return filepath.Base(arg)
		}
	}
	return name
}

// programIn returns the name of the first program that a script of a shell runs, empty if it is not plain to see.
func programIn(script string) string {
	for part := range strings.FieldsFuncSeq(script, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
		for word := range strings.FieldsSeq(part) {
			switch {
			case slices.Contains([]string{"if", "while", "until", "for", "case", "exit", "return", "eval", ":", ".", "source"}, word):
				return ""
			case strings.ContainsAny(word, "$`\"'(){}[]<>!#*?\\"):
				return ""
			case word == "exec" || strings.Contains(word, "="):
				continue
			case !slices.Contains([]string{"cd", "set", "export", "umask", "trap", "echo", "printf", "read", "test", "mkdir", "rm", "touch", "date", "true"}, word):
				return filepath.Base(word)
			}
			if !closed(part) {
				return ""
			}
			break
		}
	}
	return ""
}

// closed reports whether it is plain that what follows a part of a script is a command: what has ended the part is not quoted, nor in
// a comment or an expansion, and no here-document follows.
func closed(part string) bool {
	single, double := strings.Count(part, "'"), strings.Count(part, `"`)
	return single%2 == 0 && double%2 == 0 && single*double == 0 && !strings.ContainsAny(part, "\\#`({") && !strings.Contains(part, "<<")
}
