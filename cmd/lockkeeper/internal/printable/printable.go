// Package printable prepares texts of unknown origin for a terminal.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Text replaces by question marks what in text could move the cursor, break a line or turn the direction of what follows, and what is
// not seen: a name with such a character must not look like the name without it.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		if misleads(r) {
			return '?'
		}
		return r
	}, text)
}

func misleads(r rune) bool { return !Visible(r) }

// Visible reports whether a character is seen where it stands.
func Visible(r rune) bool {
	return unicode.IsPrint(r) && r != blankBraille && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

const blankBraille = '\u2800'

// JSON returns a writer of JSON to w. What Text would replace is written as \u and its number, which means the same to a reader of
// JSON: encoding/json does so with the characters below the blank alone, and a terminal may take one of the others for the
// beginning of an escape sequence. No character may be divided between two calls of Write.
func JSON(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(b []byte) (int, error) {
	if !bytes.ContainsFunc(b, misleadsInJSON) {
		return j.w.Write(b)
	}
	var out bytes.Buffer
	for _, r := range string(b) {
		if misleadsInJSON(r) {
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&out, `\u%04x`, unit)
			}
		} else {
			out.WriteRune(r)
		}
	}
	_, err := j.w.Write(out.Bytes())
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// misleadsInJSON leaves out the line feeds between the values. encoding/json has escaped the other characters below the tilde.
func misleadsInJSON(r rune) bool { return r > '~' && misleads(r) }
