package ztree

import (
	"errors"
	"strings"
)

// Words splits a line as a shell does: at blanks, except within quotes. Outside of quotes a backslash keeps the next character as it
// is; within double quotes it does so to a double quote and a backslash, and otherwise stands for itself. A word that begins with # is
// a comment, which ends the line.
func Words(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	in, quote := false, rune(0)
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case quote == '\'':
			word.WriteRune(r)
		case quote == '"' && r == '\\' && !escapes(runes[i+1:]):
			word.WriteRune(r)
		case r == '\\':
			i++
			if i == len(runes) {
				return nil, errors.New("the line ends with a backslash (write \\\\ for one)")
			}
			in = true
			word.WriteRune(runes[i])
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			in, quote = true, r
		case r == ' ' || r == '\t':
			if in {
				words = append(words, word.String())
				word.Reset()
				in = false
			}
		case r == '#' && !in:
			return words, nil
		default:
			in = true
			word.WriteRune(r)
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed: " + string(quote))
	}
	if in {
		words = append(words, word.String())
	}
	return words, nil
}

// escapes reports whether a backslash within double quotes belongs to what follows it.
func escapes(rest []rune) bool { return len(rest) > 0 && (rest[0] == '"' || rest[0] == '\\') }
