package zoocfg

import (
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
)

// fileBytesMax limits a configuration file.
const fileBytesMax = 1 << 20

// A Setting is a key with its value.
type Setting struct {
	Key, Value string
	Where      string // it was made: "zoo.cfg:12"
}

// Read reads a Java properties file: "key=value", "key: value" or "key value" a line, # and ! for
// comments, a backslash at the end of a line to go on in the next, and before a character to take it as
// it is. The text is UTF-8.
func Read(file string, r io.Reader) ([]Setting, error) {
	text, err := io.ReadAll(io.LimitReader(r, fileBytesMax+1))
	if err != nil {
		return nil, err // names the file
	}
	if len(text) > fileBytesMax {
		return nil, fmt.Errorf("%s: longer than %d bytes", file, fileBytesMax)
	}
	var settings []Setting
	for number, line := range logicalLines(string(text)) {
		s := splitProperty(line)
		s.Where = file + ":" + strconv.Itoa(number)
		settings = append(settings, s)
	}
	return settings, nil
}

// splitProperty splits a line at the first separator that is not escaped: blanks, = or :, with blanks
// around. ZooKeeper takes blanks off the end of the value, Java does not.
func splitProperty(line string) Setting {
	i := 0
	for i < len(line) && !strings.ContainsRune("=:"+blanks, rune(line[i])) {
		if line[i] == '\\' && i+1 < len(line) {
			i++
		}
		i++
	}
	key, value := line[:i], strings.TrimLeft(line[i:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return Setting{Key: unescape(key), Value: strings.TrimSpace(unescape(value))}
}

const blanks = " \t\f"

// logicalLines joins lines that go on, and leaves out comments and empty lines. With each it gives the
// number of its first line.
func logicalLines(text string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
		var joined strings.Builder
		first, number := 0, 0 // first is 0 unless a line goes on
		for line := range strings.SplitSeq(text, "\n") {
			number++
			line = strings.TrimLeft(line, blanks)
			if first == 0 {
				if line == "" || line[0] == '#' || line[0] == '!' {
					continue
				}
				first = number
			}
			body := strings.TrimRight(line, `\`)
			if (len(line)-len(body))%2 == 1 { // an even number is that many escaped ones
				joined.WriteString(line[:len(line)-1])
				continue
			}
			joined.WriteString(line)
			if joined.Len() > 0 && !yield(first, joined.String()) {
				return
			}
			joined.Reset()
			first = 0
		}
		if joined.Len() > 0 {
			yield(first, joined.String())
		}
	}
}

// unicodeDigits is how many hexadecimal digits follow \u.
const unicodeDigits = 4

// unescape takes the backslashes out.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			digits := s[i+1 : min(i+1+unicodeDigits, len(s))]
			if r, err := strconv.ParseUint(digits, 16, 16); err == nil && len(digits) == unicodeDigits {
				b.WriteRune(rune(r))
				i += unicodeDigits
			} else {
				b.WriteByte('u')
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
