package zkcli

import (
	"fmt"
	"regexp"
	"strings"
)

// wordPattern is how zkCli finds the words of a line. A quote counts only at the beginning of a word.
var wordPattern = regexp.MustCompile(`\s*([^"']\S*|"[^"]*"|'[^']*')\s*`)

// Split returns the words of a line.
func Split(line string) []string {
	var words []string
	for _, m := range wordPattern.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
		w := m[1]
		if n := len(w); n > 1 && w[0] == w[n-1] && (w[0] == '"' || w[0] == '\'') {
			w = w[1 : n-1]
		}
		words = append(words, w)
	}
	return words
}

// A call is a line whose options have been found.
type call struct {
	flags  map[byte]bool
	values map[byte]string
	args   []string // without the verb
}

// parse finds a verb's options, which may stand anywhere before --. Those in valued take the next word. With oneOf, only one of them may be
// given.
func parse(words []string, flags, valued string, oneOf bool) (call, error) {
	c := call{flags: map[byte]bool{}, values: map[byte]string{}}
	var chosen byte
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w == "--" {
			c.args = append(c.args, words[i+1:]...)
			return c, nil
		}
		if len(w) < 2 || w[0] != '-' {
			c.args = append(c.args, w)
			continue
		}
		for j := 1; j < len(w); j++ {
			o := w[j]
			if oneOf && chosen != 0 && chosen != o && strings.IndexByte(flags+valued, o) >= 0 {
				return c, fmt.Errorf("org.apache.commons.cli.AlreadySelectedException: The option '%c' was specified but an option from this group has already been selected: '%c'", o, chosen)
			}
			chosen = o
			switch {
			case strings.IndexByte(flags, o) >= 0:
				c.flags[o] = true
			case strings.IndexByte(valued, o) >= 0 && j+1 < len(w):
				c.values[o], j = w[j+1:], len(w)
			case strings.IndexByte(valued, o) >= 0:
				i++
				if i == len(words) {
					return c, fmt.Errorf("org.apache.commons.cli.MissingArgumentException: Missing argument for option: %c", o)
				}
				c.values[o] = words[i]
			default:
				return c, fmt.Errorf("org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: %s", w)
			}
		}
	}
	return c, nil
}
