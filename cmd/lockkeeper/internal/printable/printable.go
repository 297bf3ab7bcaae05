// Package printable prepares texts of unknown origin for a terminal.
package printable

import (
	"strings"
	"unicode"
)

// Text replaces by question marks what in text could move the cursor, break a line or turn the direction of what follows.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '?'
		}
		return r
	}, text)
}
